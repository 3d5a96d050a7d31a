"""Delay writes that can be batched.

Plans mark the writes that can be delayed. What is delayed is planned again when it is due.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from cachetools import FIFOCache

from lws import timing
from lws.kube.quantities import is_integer
from lws.runtime import costs
from lws.runtime.actions import Announce, Merge, Plan, Postponable, Status, soonest

_WRITTEN = 16384
# For all sets together, because many small sets finish before a user could read the progress of each.
_STATUSES_PER_SECOND = 4


ActiveSets = OrderedDict[str, float]
"""Time of the last write of a set's status by UID, the earliest first."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The last write of an object.

    pause: the seconds until the next status that can be delayed, by the size of the set. saved_at: the time
    at which a rollout has its whole unused pace; its next step is due `timing.STEP_BURST_SECONDS` earlier.
    """

    at: float
    pause: float = 0.0
    saved_at: float = 0.0


class Throttle:
    """Delays writes of sets and leader StatefulSets after recent ones.

    shortest: the minimum seconds between two statuses that only report progress, by kind; by default, they
    follow from the cost of a status. is_edited: a function that reports whether a status overwrites a change
    of another client. Such a status is only delayed by a backoff. active: the active sets, shared by all
    shards of this process.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        shortest: Mapping[str, float] | None = None,
        is_edited: Callable[[Status], bool] = lambda status: False,
        active: ActiveSets | None = None,
    ) -> None:
        self._clock = clock
        self._is_edited = is_edited
        self._shortest = shortest or {}
        # By UID, the latest write last.
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._active = active if active is not None else ActiveSets()
        # UIDs of objects with a delayed status.
        self._waiting: set[str] = set()
        # By UID: the reasons of Events that were written ahead of a delayed status.
        self._announced: dict[str, frozenset[str]] = {}
        # By UID, the latest last: when an overwritten status was last restored, and how often in a row.
        self._restored = FIFOCache[str, tuple[float, int]](_WRITTEN)
        # UIDs whose status is being restored. Failed writes do not count.
        self._restoring: set[str] = set()

    def record_write(self, obj: Mapping[str, Any]) -> None:
        uid = obj["metadata"]["uid"]
        self.record_arrival(uid)
        # A record that a pass over a group writes to the status must not delay the waiting status further.
        if uid not in self._waiting:
            self._written[uid] = self._record_of(obj)
            self._written.move_to_end(uid)
        if obj["kind"] != "StatefulSet":
            self._active[uid] = self._clock()
            self._active.move_to_end(uid)
        if len(self._written) > _WRITTEN:
            forgotten, _ = self._written.popitem(last=False)
            self._waiting.discard(forgotten)
            self._announced.pop(forgotten, None)

    def record_arrival(self, uid: str) -> None:
        """Record that the API server stored a write of the object, which may have restored its status."""
        if uid not in self._restoring:
            return
        self._restoring.discard(uid)
        now = self._clock()
        last, times = self._restored.get(uid, (now, 0))
        self._restored[uid] = now, times + 1 if now - last <= timing.ACTIVE_SET_SECONDS else 1

    def forget(self, uid: str) -> None:
        """Drop the records of a deleted object."""
        self._written.pop(uid, None)
        self._active.pop(uid, None)
        self._waiting.discard(uid)
        self._announced.pop(uid, None)
        self._restored.pop(uid, None)
        self._restoring.discard(uid)

    def due(self, plan: Plan) -> Plan:
        """Return the plan without the writes that are delayed, and with the time at which they are due."""
        if not (plan.postponable or plan.statuses or (plan.sequences and self._waiting)):
            return plan
        waits = [(step, self._wait_of_step(step)) for step in plan.postponable]
        later = {id(action) for step, wait in waits if wait is not None for action in step.actions}
        sequences = tuple(
            tuple(action for action in sequence if id(action) not in later) for sequence in plan.sequences
        )
        # A record is a write to the status, so the rest of the status is written with it.
        recorded = {
            action.target.uid
            for action in chain(*sequences)
            if isinstance(action, Merge) and action.subresource == "status"
        }
        statuses = [
            (status, self._wait_of_status(status) if status.target.uid not in recorded else None)
            for status in plan.statuses
        ]
        self._waiting -= recorded | {status.target.uid for status, wait in statuses if wait is None}
        delayed = [status for status, wait in statuses if wait is not None]
        self._waiting |= {status.target.uid for status in delayed}
        return replace(
            plan,
            sequences=sequences,
            statuses=tuple(self._without_announced(status) for status, wait in statuses if wait is None),
            announce=(*plan.announce, *chain.from_iterable(map(self._announce_early, delayed))),
            again_after=soonest((plan.again_after, *(wait for _, wait in chain(waits, statuses)))),
        )

    def _record_of(self, obj: Mapping[str, Any]) -> _Written:
        now, groups = self._clock(), _groups_of(obj)
        if obj["kind"] != "StatefulSet":
            return _Written(now, costs.status_pause(groups))
        before = self._written.get(obj["metadata"]["uid"])
        # Steps that could not wait delay the next one by at most its own pace.
        saved_at = min(
            max(now, before.saved_at if before is not None else now), now + timing.STEP_BURST_SECONDS
        )
        return _Written(now, saved_at=saved_at + costs.STEP.pace(groups))

    def _announce_early(self, status: Status) -> tuple[Announce, ...]:
        """Return the Events of a delayed status that have not been written yet. They are written at once."""
        announced = self._announced.get(status.target.uid, frozenset())
        news = tuple(announce for announce in status.announce if announce.reason not in announced)
        if news:
            self._announced[status.target.uid] = announced | {announce.reason for announce in news}
        return news

    def _without_announced(self, status: Status) -> Status:
        announced = self._announced.pop(status.target.uid, None)
        if announced is None:
            return status
        news = tuple(announce for announce in status.announce if announce.reason not in announced)
        return replace(status, announce=news)

    def _wait_of_step(self, step: Postponable) -> float | None:
        """Return the seconds until the step is due; None if it is due now."""
        last = self._written.get(step.target.uid)
        return _if_positive(last.saved_at - timing.STEP_BURST_SECONDS - self._clock()) if last else None

    def _wait_of_status(self, status: Status) -> float | None:
        """Return the seconds until the status is due, more if many sets are active; None if it is due now."""
        uid = status.target.uid
        if self._is_edited(status):
            return self._wait_of_edited(uid)
        if status.is_first and uid not in self._written:
            # The delay counts from the first pass over the set.
            now = self._active[uid] = self._clock()
            self._written[uid] = _Written(now, timing.FIRST_STATUS_SECONDS)
        last = self._written.get(uid)
        if not (status.can_wait or status.is_first) or last is None:
            return None
        shortest = self._shortest.get(status.target.kind, last.pause)
        wait = max(shortest, self._count_active() / _STATUSES_PER_SECOND)
        wait = min(wait, timing.LONGEST_STATUS_SECONDS)
        return _if_positive(last.at + wait - self._clock())

    def _wait_of_edited(self, uid: str) -> float | None:
        """Return the seconds until an overwritten status is restored; None if it is due now.

        The first time it is restored at once. A backoff follows if the other client keeps writing.
        """
        now = self._clock()
        last, times = self._restored.get(uid, (now, 0))
        wait = _if_positive(last + timing.STATUS_RESTORE.after(times) - now)
        if wait is None:
            self._restoring.add(uid)
        return wait

    def _count_active(self) -> int:
        """Count the sets whose status was written in the last minute."""
        while self._active and self._clock() - next(iter(self._active.values())) > timing.ACTIVE_SET_SECONDS:
            self._active.popitem(last=False)
        return len(self._active)


def _groups_of(obj: Mapping[str, Any]) -> int:
    """Return the number of groups of a set or its leader StatefulSet; 0 if the value is no integer."""
    spec = obj.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, Mapping) else None
    return replicas if is_integer(replicas) else 0


def _if_positive(wait: float) -> float | None:
    return wait if wait > timing.CLOCK_TOLERANCE_SECONDS else None
