"""Compute how far the roles of a slice may move in one step so that they stay in proportion.

The arithmetic is upstream's, in whole numbers. Which of its steps is taken is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lws.disaggregatedset.rollout.state import RoleTarget, SliceState

Counts = tuple[int, ...]
"""One number for each role, in the order of the slice's roles."""


@dataclass(frozen=True, slots=True)
class Proportions:
    """roles: what is wanted. initial: old groups of each when the rollout began. steps: how many it takes."""

    roles: tuple[RoleTarget, ...]
    initial: Counts
    steps: int

    def reached(self, new: Iterable[int]) -> int:
        """The step that the new counts of all these roles have reached."""
        pairs = zip(self.roles, new, strict=True)
        done = (count * self.steps // role.target for role, count in pairs if role.target)
        return min((self.steps, *done))

    def new_at(self, step: int) -> Counts:
        """What is wanted of the target revision at the end of a step."""
        return tuple(min(role.target, _ceil(step * role.target, self.steps)) for role in self.roles)

    def next_new(self, new: Counts) -> Counts:
        """One step further than the role that is furthest behind; no count falls."""
        return tuple(map(max, new, self.new_at(self.reached(new) + 1)))

    def next_old(self, old: Counts) -> Counts:
        """One step further than the role of which most is gone; no count rises."""
        pairs = [(initial, count) for initial, count in zip(self.initial, old, strict=True) if initial > 0]
        gone = max((0, *((initial - count) * self.steps // initial for initial, count in pairs)))
        left = (max(0, initial - (gone + 1) * initial // self.steps) for initial in self.initial)
        return tuple(map(min, old, left))


def pace_of(state: SliceState) -> Proportions:
    """The pace of a slice that is in a rollout: at least one count or target is above 0."""
    initial = tuple(state.old_initial(role.name) for role in state.roles)
    steps = (
        _ceil(max(count, role.target), role.surge or max(1, role.unavailable))
        for role, count in zip(state.roles, initial, strict=True)
    )
    return Proportions(state.roles, initial, max((1, *steps)))


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)
