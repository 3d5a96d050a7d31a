"""Find unready or cheaper groups that a scale-down keeps.

StatefulSets remove the highest index first, ready or not. `ordinals.start` could only remove the lowest
indices, and would change the names of later groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lws.kube.metadata import annotations_of, is_terminating
from lws.kube.quantities import INT32, whole_number
from lws.leaderworkerset.rollout.groups import GroupState
from lws.runtime.actions import Object

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
"""Pods with the lowest cost should be deleted first (KEP-2255); 0 by default."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A group that is kept while a better one is deleted. why: a few words."""

    index: int
    why: str


def leftovers(groups: Iterable[GroupState], leaders: Mapping[int, Object], replicas: int) -> list[Leftover]:
    """Groups below `replicas` that are not ready, or have a lower deletion cost than a deleted ready one.

    leaders: their pods, by index. Empty if no ready group is deleted.
    """
    states = tuple(groups)
    deleted_costs = [
        _cost(leaders.get(group.index)) for group in states if group.index >= replicas and group.ready
    ]
    if not deleted_costs:
        return []
    kept = []
    for group in sorted(states, key=lambda state: state.index):
        leader = leaders.get(group.index)
        if group.index >= replicas or leader is None or is_terminating(leader):
            continue
        cost = _cost(leader)
        if not group.ready:
            kept.append(Leftover(group.index, "not ready"))
        elif cost < max(deleted_costs):
            kept.append(Leftover(group.index, f"pod-deletion-cost {cost}"))
    return kept


def _cost(leader: Object | None) -> int:
    cost = annotations_of(leader).get(DELETION_COST_ANNOTATION) if leader is not None else None
    return whole_number(cost, least=-INT32) or 0
