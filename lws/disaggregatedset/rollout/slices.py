"""Which slices may take a step of their rollout now?

In: how each slice stands, and how many may be in a rollout at once. Out: indices. Scaling, repair and the end
of removed slices are not held back; only the start of another rollout is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SliceStanding:
    """has_old: groups of other revisions are there, or wanted. has_begun: its rollout has begun.

    is_settled: everything wanted of the target revision is there and ready.
    """

    index: int
    has_old: bool
    has_begun: bool
    is_settled: bool

    @property
    def is_updating(self) -> bool:
        """Whether its rollout has begun and is not at its end."""
        return self.has_begun and (self.has_old or not self.is_settled)


def slices_that_may_step(
    standings: Iterable[SliceStanding], slices: int, most: int | None = None
) -> frozenset[int]:
    """Indices of slices whose rollout may begin or go on; removed slices and those at rest have none.

    slices: how many there are to be. most: `maxUpdatingSlices`; None for no bound, less than 1 counts as 1.
    A rollout that has begun goes on, whatever the bound became since; others begin from the lowest index.
    """
    there = sorted((each for each in standings if each.index < slices), key=lambda each: each.index)
    updating = [each.index for each in there if each.is_updating]
    waiting = [each.index for each in there if each.has_old and not each.has_begun]
    if most is None:
        return frozenset((*updating, *waiting))
    return frozenset((*updating, *waiting[: max(0, max(1, most) - len(updating))]))
