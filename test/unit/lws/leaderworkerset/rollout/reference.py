"""Upstream's rules for partition and replicas, written from their description alone.

They share no code with the planner: groups are letters, and the rules have the order of the description. The
last functions return what the planner decides for the same states.
"""

from __future__ import annotations

from dataclasses import dataclass

from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.plan import plan_rollout
from lws.leaderworkerset.rollout.state import Rollout, RolloutState, make_budget
from test.unit.stories.letters import groups


@dataclass(frozen=True)
class Case:
    """One state: the letters of groups 0 to `existing` - 1, and the numbers that the rules use."""

    letters: str
    desired: int
    existing: int
    stored_partition: int
    unavailable: int
    surge: int
    floor: int = 0
    last: int | None = None
    is_new_revision: bool = False

    @property
    def ceiling(self) -> int:
        return self.desired + self.surge

    @property
    def ready(self) -> int:
        return sum(1 for letter in self.letters if letter in "rR")

    @property
    def min_ready(self) -> int:
        return self.desired - self.unavailable


def reference(case: Case) -> tuple[int, int]:
    """Return partition and replicas by the first case of the case table that applies."""
    partition, replicas = _case_table(case)
    return max(partition, case.floor), replicas


def _case_table(case: Case) -> tuple[int, int]:
    desired, existing, partition = case.desired, case.existing, case.stored_partition
    if case.is_new_revision:
        if existing < desired:
            return existing, desired
        return desired, _replicas_for(case, desired)
    if partition == 0 and existing == desired:
        return 0, desired
    if existing < desired:
        return partition, desired
    if case.last is not None and case.last != desired:
        return min(partition, case.ceiling), _replicas_for(case, _unsettled(case))
    return partition_step(case), _replicas_for(case, _unsettled(case))


def _unsettled(case: Case) -> int:
    return sum(1 for letter in case.letters[: case.desired] if letter != "R")


def _replicas_for(case: Case, unsettled: int) -> int:
    if unsettled <= case.surge:
        return case.desired + max(0, unsettled - case.unavailable)
    return case.ceiling


def partition_step(case: Case) -> int:
    """Return the partition of a rollout in progress, in the six steps of the description."""
    existing = case.existing
    step = case.unavailable + (existing - case.desired)
    tail = len(case.letters) - len(case.letters.rstrip("R"))
    lowest = max(0, existing - tail - step)
    candidate = lowest + sum(1 for letter in case.letters[:lowest] if letter not in "rR")
    index = min(candidate, existing - 1)
    while index >= lowest and case.letters[index] != "r":
        candidate = index
        index -= 1
    return min(candidate, case.stored_partition)


def is_rolling(case: Case) -> bool:
    """Return whether case 4 or 5 applies."""
    at_rest = case.stored_partition == 0 and case.existing == case.desired
    return not case.is_new_revision and not at_rest and case.existing >= case.desired


def is_held_up(case: Case) -> bool:
    """Return whether a finished group lies within the window, where it takes the place of another group."""
    existing = case.existing
    tail = len(case.letters) - len(case.letters.rstrip("R"))
    lowest = max(0, existing - tail - case.unavailable - existing + case.desired)
    return "R" in case.letters[lowest : existing - tail]


def planned(case: Case, **stored: bool) -> Rollout:
    """Return the planner's decision for the same state."""
    statefulset = LeaderStatefulSet(
        replicas=case.existing,
        partition=case.stored_partition,
        last_replicas=case.last,
        is_current=not case.is_new_revision,
        **stored,
    )
    limits = make_budget(case.desired, case.unavailable, case.surge)
    return plan_rollout(RolloutState(case.desired, limits, case.floor, groups(case.letters), statefulset))


def planned_step(case: Case) -> tuple[int, int]:
    """Return the planner's partition and replicas."""
    rollout = planned(case)
    return rollout.partition, rollout.replicas
