"""Delay writes that can be batched.

In: plans, which say what can wait, and what our writes returned. Out: the part of a plan that is carried out
now. What is delayed is planned again when its time comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from lws import costs, timing
from lws.kube.quantities import is_integer
from lws.runtime.actions import Announce, Merge, Plan, Postponable, Status, soonest

_WRITTEN = 16384
# All sets together: a wave of small sets ends before a user could read the progress of each.
_STATUSES_PER_SECOND = 4


Moving = OrderedDict[str, float]
"""By UID of a set: when its status was written last, the latest last."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The last write of an object. at: when. pause: until the next that can wait, in the seconds of its size.
    saved_at: when the steps of a rollout will have made up for all that came before.
    """

    at: float
    pause: float = 0.0
    saved_at: float = 0.0


class Throttle:
    """Remembers when sets and leader StatefulSets were written.

    shortest: kind → seconds between two statuses that say only how far one of them is; of a LeaderWorkerSet,
    as they cost. is_edited: whether a status is written over what somebody else left there: that never waits.
    moving: of all that this process acts on; those of one shard do not know of the others.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        shortest: Mapping[str, float] | None = None,
        is_edited: Callable[[Status], bool] = lambda status: False,
        moving: Moving | None = None,
    ) -> None:
        self._clock = clock
        self._is_edited = is_edited
        self._shortest = shortest or {}
        # By UID, the latest write last.
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._moving = moving if moving is not None else Moving()
        # UIDs of what has a status that waits.
        self._waiting: set[str] = set()
        # By UID: why Events were written of a status that is still to come.
        self._announced: dict[str, frozenset[str]] = {}
        # By UID, the latest last: when what others left was last put right, and how often in a row.
        self._put_right: OrderedDict[str, tuple[float, int]] = OrderedDict()
        # UIDs of those that are being put right: what does not arrive is no word in a fight.
        self._putting_right: set[str] = set()

    def note(self, obj: Mapping[str, Any]) -> None:
        """Record the result of a write."""
        uid = obj["metadata"]["uid"]
        self.answered(uid)
        # What passes over groups remember in a status does not bring what waits, and must not put it off.
        if uid not in self._waiting:
            self._written[uid] = self._noted(obj)
            self._written.move_to_end(uid)
        if obj["kind"] != "StatefulSet":
            self._moving[uid] = self._clock()
            self._moving.move_to_end(uid)
        if len(self._written) > _WRITTEN:
            forgotten, _ = self._written.popitem(last=False)
            self._waiting.discard(forgotten)
            self._announced.pop(forgotten, None)

    def answered(self, uid: str) -> None:
        """A write of an object has arrived."""
        if uid not in self._putting_right:
            return
        self._putting_right.discard(uid)
        now = self._clock()
        last, times = self._put_right.get(uid, (now, 0))
        self._put_right[uid] = now, times + 1 if now - last <= timing.SETS_MOVE_SECONDS else 1
        self._put_right.move_to_end(uid)
        if len(self._put_right) > _WRITTEN:
            self._put_right.popitem(last=False)

    def forget(self, uid: str) -> None:
        """There is no such object any more."""
        self._written.pop(uid, None)
        self._moving.pop(uid, None)
        self._waiting.discard(uid)
        self._announced.pop(uid, None)
        self._put_right.pop(uid, None)
        self._putting_right.discard(uid)

    def due(self, plan: Plan) -> Plan:
        """The plan without writes that can be delayed, and when they are due."""
        if not (plan.postponable or plan.statuses or (plan.sequences and self._waiting)):
            return plan
        waits = [(each, self._wait_of_step(each)) for each in plan.postponable]
        later = {id(action) for each, wait in waits if wait is not None for action in each.actions}
        sequences = tuple(
            tuple(action for action in sequence if id(action) not in later) for sequence in plan.sequences
        )
        # What must be remembered is a write of the status, which takes the rest of it along.
        remembered = {
            action.target.uid
            for action in chain(*sequences)
            if isinstance(action, Merge) and action.subresource == "status"
        }
        statuses = [
            (each, self._wait_of_status(each) if each.target.uid not in remembered else None)
            for each in plan.statuses
        ]
        self._waiting -= remembered | {each.target.uid for each, wait in statuses if wait is None}
        put_off = [each for each, wait in statuses if wait is not None]
        self._waiting |= {each.target.uid for each in put_off}
        return replace(
            plan,
            sequences=sequences,
            statuses=tuple(self._with_news(status) for status, wait in statuses if wait is None),
            announce=(*plan.announce, *chain.from_iterable(map(self._say, put_off))),
            again_after=soonest((plan.again_after, *(wait for _, wait in chain(waits, statuses)))),
        )

    def _noted(self, obj: Mapping[str, Any]) -> _Written:
        now, groups = self._clock(), _groups_of(obj)
        if obj["kind"] != "StatefulSet":
            return _Written(now, costs.status_pause(groups))
        before = self._written.get(obj["metadata"]["uid"])
        # Steps that could not wait must not put off the next one by more than its own pace.
        saved_at = min(max(now, before.saved_at if before is not None else now), now + timing.SAVED_SECONDS)
        return _Written(now, saved_at=saved_at + costs.step_pace(groups))

    def _say(self, status: Status) -> tuple[Announce, ...]:
        """The Events of a status that is delayed: no client waits for them."""
        said = self._announced.get(status.target.uid, frozenset())
        news = tuple(announcement for announcement in status.announce if announcement.reason not in said)
        if news:
            self._announced[status.target.uid] = said | {each.reason for each in news}
        return news

    def _with_news(self, status: Status) -> Status:
        said = self._announced.pop(status.target.uid, None)
        if said is None:
            return status
        return replace(
            status,
            announce=tuple(
                announcement for announcement in status.announce if announcement.reason not in said
            ),
        )

    def _wait_of_step(self, step: Postponable) -> float | None:
        """Seconds until it is taken; None where that is now."""
        last = self._written.get(step.target.uid)
        return _still(last.saved_at - timing.SAVED_SECONDS - self._clock()) if last is not None else None

    def _wait_of_status(self, status: Status) -> float | None:
        """Seconds until it is written, the more, the more sets move at once; None where that is now."""
        uid = status.target.uid
        if self._is_edited(status):
            return self._wait_of_edited(uid)
        if status.is_first_word and uid not in self._written:
            # It counts from the first look at the set.
            now = self._moving[uid] = self._clock()
            self._written[uid] = _Written(now, timing.FIRST_STATUS_SECONDS)
        last = self._written.get(uid)
        if not (status.can_wait or status.is_first_word) or last is None:
            return None
        shortest = self._shortest.get(status.target.kind, last.pause)
        wait = max(shortest, self._sets_moving() / _STATUSES_PER_SECOND)
        wait = min(wait, timing.LONGEST_STATUS_SECONDS)
        return _still(last.at + wait - self._clock())

    def _wait_of_edited(self, uid: str) -> float | None:
        """Restore at once what another client wrote, unless it answers each time: neither would win."""
        now = self._clock()
        last, times = self._put_right.get(uid, (now, 0))
        wait = _still(last + timing.STATUS_FIGHT.after(times) - now)
        if wait is None:
            self._putting_right.add(uid)
        return wait

    def _sets_moving(self) -> int:
        """Number of sets whose status was written in the last minute."""
        while self._moving and self._clock() - next(iter(self._moving.values())) > timing.SETS_MOVE_SECONDS:
            self._moving.popitem(last=False)
        return len(self._moving)


def _groups_of(obj: Mapping[str, Any]) -> int:
    """Groups of a set or of its leader StatefulSet; stored values may be anything."""
    spec = obj.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, Mapping) else None
    return replicas if is_integer(replicas) else 0


def _still(wait: float) -> float | None:
    return wait if wait > timing.CLOCK_SECONDS else None
