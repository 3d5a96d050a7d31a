"""Shapes to measure, such as 1x400x4 (sets × groups × pods) or 400x4.

A suffix `-hash` sets `groupIdentity: Hash`; `-ending` has pods that take a second to terminate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Sets with at least this many groups are rolled out like a single set, even if there are several.
_MANY_GROUPS = 100
_SHAPE = re.compile(r"(?:(\d+)x)?(\d+)x(\d+)(-hash)?(-ending)?")


@dataclass(frozen=True)
class Shape:
    """A load: sets × groups in each × pods in each group. max_unavailable: of the rollout."""

    sets: int
    groups: int
    size: int
    is_hash: bool = False
    is_ending: bool = False

    @property
    def name(self) -> str:
        hash_, ending = "-hash" if self.is_hash else "", "-ending" if self.is_ending else ""
        return f"{self.sets}x{self.groups}x{self.size}{hash_}{ending}"

    @property
    def label(self) -> str:
        hash_, ending = ", Hash" if self.is_hash else "", ", pods end in 1 s" if self.is_ending else ""
        return f"{self.sets} × {self.groups} × {self.size}{hash_}{ending}"

    @property
    def all_groups(self) -> int:
        return self.sets * self.groups

    @property
    def max_unavailable(self) -> int | str:
        return "10%" if self._is_large else 1

    @property
    def wave(self) -> int:
        """Return how many groups of one set may be unavailable at the same time."""
        return max(1, self.groups // 10) if self._is_large else 1

    @property
    def _is_large(self) -> bool:
        return self.sets == 1 or self.groups >= _MANY_GROUPS

    @property
    def half(self) -> int:
        """Return the groups per set after scaling by half."""
        return max(1, self.groups // 2)


DEFAULT = ("1x100x4", "1x400x4", "200x1x4", "50x4x8")
LARGE = "1x1000x8"


def parse(text: str) -> Shape:
    """Parse the name of a shape. Raise ValueError with the expected format."""
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no shape: write sets x groups x pods, such as 1x400x4, or 400x4")
    sets, groups, size, hash_, ending = match.groups()
    shape = Shape(
        int(sets or 1), int(groups), int(size), is_hash=hash_ is not None, is_ending=ending is not None
    )
    if not shape.sets or not shape.groups or shape.size < 2:
        raise ValueError(f"{text!r}: at least one set, one group and two pods per group")
    return shape
