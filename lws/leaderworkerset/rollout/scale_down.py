"""Find unready groups that a scale-down keeps.

StatefulSets delete the highest index first, ready or not. `ordinals.start` could only release the lowest
indices, and would rename every group created after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lws.actions import Object
from lws.kube.metadata import annotations_of, is_terminating
from lws.kube.quantities import INT32, whole_number
from lws.leaderworkerset.rollout.groups import GroupState

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
"""Says which pods should go first (KEP-2255): those that cost least; 0 where it is missing."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A group that stays while a better one goes. why: in a few words."""

    index: int
    why: str


def leftovers(groups: Iterable[GroupState], leaders: Mapping[int, Object], replicas: int) -> list[Leftover]:
    """Groups below `replicas` that are not ready, or marked as cheaper than a ready one that goes.

    leaders: their pods, by index. Empty where no ready group goes.
    """
    states = tuple(groups)
    going = [_cost(leaders.get(each.index)) for each in states if each.index >= replicas and each.ready]
    if not going:
        return []
    found = []
    for each in sorted(states, key=lambda state: state.index):
        leader = leaders.get(each.index)
        if each.index >= replicas or leader is None or is_terminating(leader):
            continue
        cost = _cost(leader)
        if not each.ready:
            found.append(Leftover(each.index, "not ready"))
        elif cost < max(going):
            found.append(Leftover(each.index, f"pod-deletion-cost {cost}"))
    return found


def _cost(leader: Object | None) -> int:
    cost = annotations_of(leader).get(DELETION_COST_ANNOTATION) if leader is not None else None
    return whole_number(cost, least=-INT32) or 0
