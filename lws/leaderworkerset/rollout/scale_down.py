"""Report better groups that a scale-down deletes, and choose the Hash groups to be deleted first.

A StatefulSet deletes the highest indices, ready or not. `ordinals.start` could only remove the lowest ones,
and would change the names of later groups. A ReplicaSet compares its leader pods only: their deletion costs
show it the state of their groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from operator import attrgetter

from lws.kube.metadata import annotations_of, controller_of, is_terminating, name_of
from lws.kube.nodes import node_of
from lws.kube.pods import is_pending, is_ready, is_running
from lws.kube.quantities import INT32, whole_number
from lws.leaderworkerset.rollout.groups import GroupState
from lws.runtime.actions import Object

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation for the deletion cost of a pod: pods with the lowest cost should be deleted first (KEP-2255); 0
by default.
"""


def leftovers(groups: Iterable[GroupState], leaders: Mapping[int, Object], replicas: int) -> dict[int, str]:
    """Return groups below `replicas` that are worse than a ready group that is deleted, by index, each with a
    few words about it. Such a group is not ready, or has a lower deletion cost. leaders: leader pods, by
    index.
    """
    states = tuple(groups)
    deleted_costs = [
        _cost(leaders.get(group.index)) for group in states if group.index >= replicas and group.ready
    ]
    if not deleted_costs:
        return {}
    leftover = {}
    for group in sorted(states, key=lambda state: state.index):
        leader = leaders.get(group.index)
        if group.index >= replicas or leader is None or is_terminating(leader):
            continue
        cost = _cost(leader)
        if not group.ready:
            leftover[group.index] = "not ready"
        elif cost < max(deleted_costs):
            leftover[group.index] = f"pod-deletion-cost {cost}"
    return leftover


def _cost(leader: Object | None) -> int:
    cost = annotations_of(leader).get(DELETION_COST_ANNOTATION) if leader is not None else None
    return whole_number(cost, least=-INT32) or 0


class Rank(IntEnum):
    """State of a Hash group, worst first."""

    UNSCHEDULED = 0
    EXHAUSTED = 1
    LOST = 2
    UNREADY = 3
    SOUND = 4

    @property
    def why(self) -> str:
        """A phrase that completes a sentence about the group."""
        return _WHY[self]

    @property
    def cost(self) -> str:
        """The deletion cost for this rank. Users do not choose such values, so the value shows who set it."""
        return str(-INT32 + 10 * self.value)


_WHY = {
    Rank.UNSCHEDULED: "has a pod without a node",
    Rank.EXHAUSTED: "has used up its restarts",
    Rank.LOST: "has a pod on a lost node",
    Rank.UNREADY: "is not ready",
    Rank.SOUND: "is ready",
}
_OURS = frozenset(rank.cost for rank in Rank)


@dataclass(frozen=True, slots=True)
class RankedGroup:
    """A Hash group that a ReplicaSet may delete. leader: the leader pod, neither terminating nor ended.
    is_leaving: whether the rollout replaces the group in any case.
    """

    leader: Object
    rank: Rank
    is_leaving: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether this controller set the deletion cost."""
        return annotations_of(self.leader).get(DELETION_COST_ANNOTATION) in _OURS

    @property
    def is_users(self) -> bool:
        """Whether another client set the deletion cost."""
        return DELETION_COST_ANNOTATION in annotations_of(self.leader) and not self.is_ours

    @property
    def pod_rank(self) -> tuple[bool, bool, bool, bool]:
        """Facts of the pod that a ReplicaSet compares before the deletion cost, worst first."""
        pod = self.leader
        return bool(node_of(pod)), not is_pending(pod), is_running(pod), is_ready(pod)


def deletion_costs(
    candidates: Sequence[RankedGroup], surplus: int
) -> Iterator[tuple[RankedGroup, str | None]]:
    """Yield the groups whose deletion cost must change, with the new cost; None to remove it.
    surplus: number of candidates that a scale-down deletes. Costs that users set are kept. A group gets a
    cost only if the ReplicaSet might not delete it by its leader alone.
    """
    first = {name_of(group.leader) for pool in _pools(candidates, surplus) for group in _first_of(*pool)}
    for candidate in candidates:
        is_first = name_of(candidate.leader) in first
        if is_first and annotations_of(candidate.leader).get(DELETION_COST_ANNOTATION) != candidate.rank.cost:
            yield candidate, candidate.rank.cost
        elif not is_first and candidate.is_ours:
            yield candidate, None


def _pools(candidates: Iterable[RankedGroup], surplus: int) -> Iterator[tuple[list[RankedGroup], int | None]]:
    """Yield the candidates of each ReplicaSet that deletes leaders, and how many it deletes, if known."""
    by_owner: dict[str, list[RankedGroup]] = {}
    for candidate in candidates:
        by_owner.setdefault((controller_of(candidate.leader) or {}).get("uid", ""), []).append(candidate)
    for pool in by_owner.values():
        is_leaving = any(candidate.is_leaving for candidate in pool)
        if is_leaving or surplus:
            yield pool, None if is_leaving or len(by_owner) > 1 else surplus


def _first_of(pool: list[RankedGroup], surplus: int | None) -> Iterator[RankedGroup]:
    """Yield the groups that need a deletion cost, except groups whose cost a user has set. To the ReplicaSet,
    their leaders are as good as those of better groups, and it deletes only some of these.
    """
    # Among equals the users' costs decide, then the age: the youngest group has done the least work.
    ordered = sorted(pool, key=lambda group: group.leader["metadata"].get("creationTimestamp") or "")
    ordered.reverse()
    ordered.sort(key=lambda group: (group.pod_rank, group.rank, _cost(group.leader) if group.is_users else 0))
    passed = 0
    for _, equals in groupby(ordered, key=attrgetter("pod_rank")):
        groups = list(equals)
        deleted = len(groups) if surplus is None else min(surplus - passed, len(groups))
        passed += len(groups)
        if surplus is None or 0 < deleted < len(groups):
            yield from (
                group for group in groups[:deleted] if group.rank < groups[-1].rank and not group.is_users
            )
