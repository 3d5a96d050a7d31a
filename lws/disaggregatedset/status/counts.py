"""Count the groups of each role, in total and by slice and revision, for the status.

Zeros are left out, as the API server stores them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from lws.disaggregatedset.snapshot import ChildFacts

# One slice of two roles in a rollout has four; a status that says all of a hundred would be too long.
_MOST_COUNTS = 200


@dataclass(frozen=True, slots=True)
class RoleCounts:
    """The groups of one role, over all slices and revisions. updated: those on the target revision."""

    name: str
    existing: int = 0
    ready: int = 0
    updated: int = 0

    @property
    def stored(self) -> dict[str, Any]:
        """As the status has it."""
        counts = {
            "replicas": self.existing,
            "readyReplicas": self.ready,
            "updatedReplicas": self.updated,
        }
        return {"name": self.name, **{field: count for field, count in counts.items() if count}}


def role_counts(roles: Iterable[str], children: Sequence[ChildFacts], key: str) -> tuple[RoleCounts, ...]:
    """Of each of these roles; key: the target revision."""
    return tuple(_of_role(name, [each for each in children if each.role == name], key) for name in roles)


def _of_role(name: str, children: Sequence[ChildFacts], key: str) -> RoleCounts:
    return RoleCounts(
        name,
        existing=sum(each.existing for each in children),
        ready=sum(each.ready for each in children),
        updated=sum(each.existing for each in children if each.key == key),
    )


def slice_counts(children: Iterable[ChildFacts], key: str, moving: Collection[int]) -> list[dict[str, Any]]:
    """Slice by slice, the target revision first. moving: slices in a rollout, which are left out last."""
    order = sorted(children, key=lambda each: (each.slice_index, each.key != key, each.key, each.role))
    by_slice = groupby(order, lambda each: each.slice_index)
    slices = [(index, _revisions(of_slice)) for index, of_slice in by_slice]
    kept, room = [], _MOST_COUNTS
    for index, revisions in sorted(slices, key=lambda each: (each[0] not in moving, each[0])):
        room -= sum(len(each["roles"]) for each in revisions)
        if room < 0:
            break
        kept.append({"index": index, "revisions": revisions})
    return sorted(kept, key=lambda each: each["index"])


def _revisions(children: Iterable[ChildFacts]) -> list[dict[str, Any]]:
    return [
        {"revision": key, "roles": [_count(each) for each in of_key]}
        for key, of_key in groupby(children, lambda each: each.key)
    ]


def _count(child: ChildFacts) -> dict[str, Any]:
    counts = {"replicas": child.existing, "readyReplicas": child.ready}
    return {"name": child.role, **{field: count for field, count in counts.items() if count}}
