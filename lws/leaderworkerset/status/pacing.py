"""What can wait a moment, so that several changes make one write?

In: what is to be written, what is stored, and how long ago we wrote it last. Out: seconds to wait, None to
write at once. Nothing waits that anybody waits for: conditions, generations, names of revisions.
"""

from __future__ import annotations

from typing import Any

from lws import timing
from lws.actions import Status
from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.state import Rollout, RolloutState
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status.progress import LAST_PROGRESS

# All sets together: a wave of small sets is over sooner than anybody could have read how far each of them is.
_STATUSES_PER_SECOND = 4

# Grows with every group that gets ready or moves; the last of these changes comes with a condition.
_PROGRESS = frozenset(
    {"replicas", "readyReplicas", "updatedReplicas", "members", "groups", LAST_PROGRESS, "conditions"}
)


def status_delay(snapshot: SetSnapshot, status: Status) -> float | None:
    """Seconds that the status of a set can wait; None where it cannot, or says nothing. The more sets move at
    the same time, the longer.
    """
    age = snapshot.status_age
    wait = max(timing.SHORTEST_STATUS_SECONDS, snapshot.sets_moving / _STATUSES_PER_SECOND)
    wait = min(wait, timing.LONGEST_STATUS_SECONDS)
    if age is None or age >= wait - timing.CLOCK_SECONDS:
        return None
    if not status.patch or not status.patch.keys() <= _PROGRESS:
        return None
    stored = (snapshot.lws.get("status") or {}).get("conditions")
    if "conditions" in status.patch and _significant(status.patch["conditions"]) != _significant(stored):
        return None
    return wait - age


def paced(state: RolloutState, rollout: Rollout, age: float | None) -> tuple[Rollout, float | None]:
    """The step as it is taken now, and the seconds that the leader StatefulSet is told nothing yet, because
    more groups may move with the next step; None where it is told.

    age: seconds since it was last told anything, None if unknown.

    Each thing that a StatefulSet is told costs its controller a look at all pods. Two thirds of the
    budget are worth a step, and so is a while.
    """
    stored = state.statefulset
    if (
        stored is None
        or age is None
        or age >= timing.STEP_DUE_SECONDS
        or not _moves_few(state, stored, rollout)
    ):
        return rollout, None
    # Those that the partition covers already have nothing to wait for.
    return rollout.within(stored), timing.STEP_SECONDS - age


def _moves_few(state: RolloutState, stored: LeaderStatefulSet, rollout: Rollout) -> bool:
    """Nothing but the partition changes, by less than two thirds of the budget, and others will follow."""
    moving = stored.partition - rollout.partition
    is_move_alone = stored.is_current and rollout.replicas == stored.replicas and moving > 0
    budget = state.budget.unavailable + state.budget.surge
    return is_move_alone and 3 * moving < 2 * budget and rollout.partition > state.floor


def _significant(conditions: Any) -> list[tuple[str, ...]]:
    """What holds and why, and what does not: without the numbers in messages, and why not."""
    found = [(each["type"], each["status"], each.get("reason", "")) for each in conditions or ()]
    return [(type_, status, reason if status == "True" else "") for type_, status, reason in found]
