"""Shapes of DisaggregatedSets to measure, such as ds100x2x2x2 (sets × roles × groups × pods)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from lws.disaggregatedset.rollout.state import RoleTarget
from tools.simulation import Row, simulate, start

ROLES = ("prefill", "decode", "router", "encode")
DEFAULT = "ds100x2x2x2"

_SHAPE = re.compile(r"ds(\d+)x(\d+)x(\d+)x(\d+)")
_OLD = "old"


@dataclass(frozen=True)
class PairedShape:
    """A load: sets × roles in each × groups of each role × pods of each group.

    There is one slice, and budgets are the defaults.
    """

    sets: int
    role_count: int
    groups: int
    size: int

    @property
    def name(self) -> str:
        return f"ds{self.sets}x{self.role_count}x{self.groups}x{self.size}"

    @property
    def roles(self) -> tuple[str, ...]:
        return ROLES[: self.role_count]

    @property
    def all_groups(self) -> int:
        return self.sets * self.role_count * self.groups

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the rows of one set's rollout as the product plans them, with the first and the last one."""
        targets = tuple(RoleTarget(role, self.groups) for role in self.roles)
        return simulate(start(targets, dict.fromkeys(self.roles, self.groups), _OLD))

    @property
    def steps(self) -> int:
        return len(self.rows) - 1

    @property
    def changes(self) -> int:
        """Return the number of changed counts of children, over all steps of one set."""
        counts = [self.counts(row) for row in self.rows]
        return sum(
            before.get(key, 0) != after.get(key, 0)
            for before, after in pairwise(counts)
            for key in before.keys() | after.keys()
        )

    def counts(self, row: Row) -> dict[tuple[bool, str], int]:
        """Return the number of groups of each child, by (whether it is new, role)."""
        old, new = row.old.get(_OLD, {}), row.new
        sides = ((False, old), (True, new))
        return {(is_new, role): side.get(role, 0) for is_new, side in sides for role in self.roles}


def is_paired(text: str) -> bool:
    """Report whether the text names a shape of DisaggregatedSets."""
    return text.strip().startswith("ds")


def parse(text: str) -> PairedShape:
    """Parse the name of a shape. Raise ValueError with the expected format."""
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no shape: write sets x roles x groups x pods, such as {DEFAULT}")
    shape = PairedShape(*map(int, match.groups()))
    if not shape.sets or not shape.groups or shape.size < 2 or not 1 <= shape.role_count <= len(ROLES):
        most = len(ROLES)
        raise ValueError(f"{text!r}: at least one set and group, two pods in each, one to {most} roles")
    return shape
