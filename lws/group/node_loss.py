"""Does a lost node keep a group from coming back, and is that ended by force?

In: a GroupSnapshot with the pods that are on their way out and the nodes that they are on. Out: a Plan, which
stands beside whatever else is done for the group.
"""

from __future__ import annotations

from lws.actions import Announce, Delete, Plan, Reference
from lws.group.snapshot import GroupSnapshot
from lws.kube.conditions import timestamp
from lws.kube.nodes import StuckPod, look_again_after, stuck_pods


def plan_node_loss(group: GroupSnapshot) -> Plan:
    """Deletions by force where they are asked for. That pods are stuck is told by the pass over the set.

    What Kubernetes deletes by itself (nodes that are gone or out of service) is only waited for.
    """
    pods, nodes, policy = group.leaving, group.nodes, group.node_loss
    stuck = stuck_pods(pods, nodes, group.now, policy)
    forced = [each for each in stuck if policy.force_delete and not each.loss.is_collected]
    lost = sorted({f"node {each.loss.node}, which {each.loss.why}" for each in stuck})
    return Plan(
        sequences=tuple((_delete(group, each),) for each in forced),
        again_after=look_again_after(pods, nodes, group.now, policy),
        waiting_for=f"pods on {'; '.join(lost)}" if lost else "",
        stuck_pods=len(stuck),
    )


def _delete(group: GroupSnapshot, stuck: StuckPod) -> Delete:
    name, loss = stuck.pod["metadata"]["name"], stuck.loss
    why = f"it has been terminating since {timestamp(stuck.since)} on node {loss.node}, which {loss.why}"
    is_leader = stuck.pod["metadata"]["uid"] == group.leader["metadata"]["uid"]
    event = Announce(
        regarding=Reference.to(group.lws),
        related=Reference.to(stuck.pod),
        reason="NodeLost",
        action="Delete",
        note=f"Deleted pod {name} by force: {why}",
        type="Warning",
    )
    return Delete(
        target=Reference.to(stuck.pod),
        # As ever, the workers of a leader go before it does, wherever they run.
        propagation="Foreground" if is_leader else "Background",
        why=why,
        announce=(event,),
        grace_seconds=0,
    )
