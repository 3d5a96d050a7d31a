"""Choose which slices may start or continue a rollout now.

Scaling, repair and removal of slices are never held back; only the start of another rollout is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST_REMEMBERED = 2000
"""LeaderWorkerSets that the memories of all slices name. A hundred slices of ten roles have a thousand on one
revision; each has up to 65 bytes in the status, and etcd takes 1.5 MiB for the whole set.
"""


@dataclass(frozen=True, slots=True)
class SliceStanding:
    """has_old: groups of other revisions are there, or wanted. has_begun: its rollout has begun.

    is_settled: everything wanted of the target revision is there and ready. remembers: LeaderWorkerSets that
    the memory of its rollout names, or will where it begins now.
    """

    index: int
    has_old: bool
    has_begun: bool
    is_settled: bool
    remembers: int = 0

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


def slices_remembered(
    standings: Iterable[SliceStanding], may_step: frozenset[int], most: int = MOST_REMEMBERED
) -> frozenset[int]:
    """Those of `may_step` for whose memory the status has room: what has begun goes on, others begin from the
    lowest index, and one may always.
    """
    rolling = [each for each in standings if each.has_old and each.index in may_step]
    taken, waiting = 0, set[int]()
    for number, each in enumerate(sorted(rolling, key=lambda each: (not each.has_begun, each.index))):
        taken += each.remembers
        if number and taken > most and not each.has_begun:
            waiting.add(each.index)
    return may_step - waiting
