"""Which groups of a set does a lost node keep from coming back, and what are users told?

In: a SetSnapshot with the pods that are on their way out and the nodes that they are on. Out: problems for
the status, and when to look again.
"""

from __future__ import annotations

from lws.actions import Problem
from lws.kube.nodes import OUT_OF_SERVICE_TAINT, NodeLossPolicy, StuckPod, look_again_after, stuck_pods
from lws.leaderworkerset.snapshot import SetSnapshot

_MOST_PODS = 10


def problems(snapshot: SetSnapshot) -> tuple[Problem, ...]:
    """One for each lost node that holds pods of the set."""
    by_node: dict[str, list[StuckPod]] = {}
    for each in stuck_pods(snapshot.leaving, snapshot.nodes, snapshot.now, snapshot.node_loss):
        by_node.setdefault(each.loss.node, []).append(each)
    return tuple(_problem(stuck, snapshot.node_loss) for _node, stuck in sorted(by_node.items()))


def look_again(snapshot: SetSnapshot) -> float | None:
    """Seconds until there may be another problem; None where no pod is on its way out."""
    return look_again_after(snapshot.leaving, snapshot.nodes, snapshot.now, snapshot.node_loss)


def _problem(stuck: list[StuckPod], policy: NodeLossPolicy) -> Problem:
    loss = stuck[0].loss
    names = [str(each.pod["metadata"]["name"]) for each in stuck]
    more = len(names) - _MOST_PODS
    shown = ", ".join(names[:_MOST_PODS]) + (f" and {more} more" if more > 0 else "")
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
