"""Collect what keeps a set from getting its groups, worst first.

The result goes into the condition ReplicaFailure and into Events.
"""

from __future__ import annotations

from collections.abc import Iterable

from lws.kube.metadata import name_of
from lws.kube.names import byte_length, tightest_derived_name
from lws.kube.nodes import OUT_OF_SERVICE_TAINT, NodeLossPolicy, StuckPod, look_again_after, stuck_pods
from lws.kube.ownership import clash_note
from lws.leaderworkerset.rollout.state import budget_of
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Problem

_DROPS_START_ORDINAL = Problem(
    "StartOrdinalUnsupported",
    "the API server drops spec.ordinals.start of StatefulSets, so workers would be taken for leaders and no "
    "more of them are created: requires Kubernetes ≥v1.27 or v1.26 with StatefulSetStartOrdinal feature",
)


def problems_of(snapshot: SetSnapshot, encountered: Iterable[Problem]) -> tuple[Problem, ...]:
    """encountered: what the pass itself ran into."""
    found = list(encountered)
    drops_start = snapshot.drops_start_ordinal or any(each.lacks_start_ordinal for each in snapshot.groups)
    if drops_start and snapshot.spec.size > 1:
        found.append(_DROPS_START_ORDINAL)
    owner = name_of(snapshot.lws)
    obstacles = [group.obstacle for group in snapshot.groups if group.obstacle is not None]
    found += [Problem("NameClash", clash_note(each, "LeaderWorkerSet", owner)) for each in obstacles]
    too_long = _name_too_long(snapshot)
    if too_long is not None:
        found.append(too_long)
    # Refusals come last: whatever else is wrong may be the reason for them.
    refused = (
        Problem(each.reason, each.message, each.is_reported, each.action) for each in snapshot.obstructions
    )
    return (*found, *refused)


def _name_too_long(snapshot: SetSnapshot) -> Problem | None:
    """Admission refuses such names; the scale subresource passes it by."""
    spec, replicas = snapshot.spec, snapshot.spec.replicas
    if replicas == 0:
        return None
    highest = replicas + budget_of(spec).surge - 1
    derived = tightest_derived_name(highest, spec.size)
    length = byte_length(name_of(snapshot.lws))
    if length <= derived.room:
        return None
    return Problem(
        "NameTooLong",
        f"the name has {length} bytes, at {replicas} replicas it may have {derived.room}: {derived.purpose} "
        f"({derived.pattern}) would be too long; scale down or use a shorter name",
    )


_MOST_NAMED = 10


def lost_nodes(snapshot: SetSnapshot) -> tuple[Problem, ...]:
    """One for each lost node that holds pods of the set."""
    by_node: dict[str, list[StuckPod]] = {}
    for each in stuck_pods(snapshot.leaving, snapshot.nodes, snapshot.now, snapshot.node_loss):
        by_node.setdefault(each.loss.node, []).append(each)
    return tuple(_node_lost(stuck, snapshot.node_loss) for _node, stuck in sorted(by_node.items()))


def look_again(snapshot: SetSnapshot) -> float | None:
    """Seconds until there may be another problem; None where no pod is on its way out."""
    return look_again_after(snapshot.leaving, snapshot.nodes, snapshot.now, snapshot.node_loss)


def _node_lost(stuck: list[StuckPod], policy: NodeLossPolicy) -> Problem:
    loss = stuck[0].loss
    names = [str(each.pod["metadata"]["name"]) for each in stuck]
    more = len(names) - _MOST_NAMED
    shown = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return Problem(
        "NodeLost",
        f"node {loss.node} {loss.why} and cannot end {shown}: their groups wait; {_advice(stuck[0], policy)}",
    )


def _advice(stuck: StuckPod, policy: NodeLossPolicy) -> str:
    if stuck.loss.is_collected:
        return "Kubernetes deletes such pods itself (pod garbage collector)"
    if policy.force_delete:
        return "such pods are deleted by force"
    return (
        f"repair the node, delete it, or, once it is shut down, taint it with {OUT_OF_SERVICE_TAINT}; the "
        f"manager does it by itself with nodeLoss.forceDelete"
    )
