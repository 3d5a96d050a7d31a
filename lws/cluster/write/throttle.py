"""When is what can wait written?

In: plans, which say what can wait, and what our writes returned. Out: the part of a plan that is carried out
now. What is put off is planned anew when its time comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from lws import timing
from lws.actions import Merge, Plan, Postponable, Status, soonest

_WRITTEN = 16384
# All sets together: a wave of small sets is over sooner than anybody could have read how far each of them is.
_STATUSES_PER_SECOND = 4


class Throttle:
    """Remembers when sets and leader StatefulSets were written; one per process.

    shortest: kind → seconds between two statuses that say only how far one of them is.
    """

    def __init__(self, clock: Callable[[], float], shortest: Mapping[str, float] | None = None) -> None:
        self._clock = clock
        self._shortest = shortest or {}
        # By UID, the latest write last.
        self._written: OrderedDict[str, float] = OrderedDict()
        self._moving: OrderedDict[str, float] = OrderedDict()
        # UIDs of what has a status that waits.
        self._waiting: set[str] = set()

    def note(self, obj: Mapping[str, Any]) -> None:
        """Take in what a write returned."""
        uid = obj["metadata"]["uid"]
        # What passes over groups remember in a status does not bring what waits, and must not put it off.
        latest = () if uid in self._waiting else (self._written,)
        for noted in latest if obj["kind"] == "StatefulSet" else (*latest, self._moving):
            noted[uid] = self._clock()
            noted.move_to_end(uid)
        if len(self._written) > _WRITTEN:
            self._waiting.discard(self._written.popitem(last=False)[0])

    def due(self, plan: Plan) -> Plan:
        """The plan without what can wait a little longer, and the time when it has waited enough."""
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
        self._waiting |= {each.target.uid for each, wait in statuses if wait is not None}
        return replace(
            plan,
            sequences=sequences,
            statuses=tuple(status for status, wait in statuses if wait is None),
            again_after=soonest((plan.again_after, *(wait for _, wait in chain(waits, statuses)))),
        )

    def _wait_of_step(self, step: Postponable) -> float | None:
        """Seconds until it is taken; None where that is now."""
        age = self._age(step.target.uid)
        return timing.STEP_SECONDS - age if age is not None and age < timing.STEP_DUE_SECONDS else None

    def _wait_of_status(self, status: Status) -> float | None:
        """Seconds until it is written, the more, the more sets move at once; None where that is now."""
        age = self._age(status.target.uid)
        shortest = self._shortest.get(status.target.kind, timing.SHORTEST_STATUS_SECONDS)
        wait = max(shortest, self._sets_moving() / _STATUSES_PER_SECOND)
        wait = min(wait, timing.LONGEST_STATUS_SECONDS)
        if not status.can_wait or age is None or age >= wait - timing.CLOCK_SECONDS:
            return None
        return wait - age

    def _sets_moving(self) -> int:
        """Sets whose status was written in the last minute."""
        while self._moving and self._clock() - next(iter(self._moving.values())) > timing.SETS_MOVE_SECONDS:
            self._moving.popitem(last=False)
        return len(self._moving)

    def _age(self, uid: str) -> float | None:
        """Seconds since the set or leader StatefulSet with this UID was written; None if not lately."""
        written_at = self._written.get(uid)
        return None if written_at is None else self._clock() - written_at
