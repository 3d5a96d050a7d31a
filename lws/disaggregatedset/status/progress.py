"""Has a DisaggregatedSet come closer to what it asks for since its status was written?

In: the stored status, the children. Out: yes or no. What a pass plans is no progress: what the API server
refuses is planned again in every pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lws.disaggregatedset.snapshot import ChildFacts


class _Place(NamedTuple):
    """What groups of one LeaderWorkerSet are counted under."""

    slice_index: int
    revision: str
    role: str


def has_come_closer(stored: Mapping[str, Any], children: Sequence[ChildFacts], key: str) -> bool:
    """More groups are ready on the target revision, or fewer are left of those that nobody wants any more.

    Groups of old revisions that become ready again, and those that are recreated, are neither: they must not
    hide that nothing starts on a new revision. key: the wanted one.
    """
    slices = stored.get("sliceStatuses") or ()
    listed = {each.get("index", 0) for each in slices}
    known = [each for each in children if each.slice_index in listed]
    if _is_more_ready(slices, known, key) or _is_less_left(slices, known):
        return True
    # A new slice, or one that a long status leaves out: all that is remembered of it is in the sum.
    return len(known) < len(children) and _is_any_more_ready(stored, children)


def _is_more_ready(slices: Sequence[Mapping[str, Any]], children: Sequence[ChildFacts], key: str) -> bool:
    before, ready = _remembered(slices, "readyReplicas"), Counter[_Place]()
    for each in children:
        ready[_place(each)] += each.ready
    return any(count > before[place] for place, count in ready.items() if place.revision == key)


def _is_less_left(slices: Sequence[Mapping[str, Any]], children: Sequence[ChildFacts]) -> bool:
    """A group that is recreated is missing for a while and wanted all the time."""
    existing, wanted = Counter[_Place](), Counter[_Place]()
    for each in children:
        existing[_place(each)] += each.existing
        wanted[_place(each)] += each.wanted
    before = _remembered(slices, "replicas")
    return any(count > max(existing[place], wanted[place]) for place, count in before.items())


def _is_any_more_ready(stored: Mapping[str, Any], children: Sequence[ChildFacts]) -> bool:
    roles = {each["name"]: int(each.get("readyReplicas") or 0) for each in stored.get("roleStatuses") or ()}
    return sum(each.ready for each in children if each.role in roles) > sum(roles.values())


def _remembered(slices: Sequence[Mapping[str, Any]], field: str) -> Counter[_Place]:
    counts = Counter[_Place]()
    for each in slices:
        for revision in each.get("revisions") or ():
            for role in revision.get("roles") or ():
                place = _Place(each.get("index", 0), revision.get("revision", ""), role["name"])
                counts[place] += int(role.get(field) or 0)
    return counts


def _place(child: ChildFacts) -> _Place:
    return _Place(child.slice_index, child.key, child.role)
