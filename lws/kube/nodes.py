"""Find pods that are stuck because the node of their kubelet is lost.

In: pods and nodes as plain JSON data, the time, and the policy. Out: the pods that such a node holds, and
when to look again: neither the end of a grace period nor the silence of a node arrives as an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lws import timing
from lws.kube.conditions import find, is_true, moment_of, timestamp
from lws.kube.metadata import is_terminating, metadata_of

OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"


@dataclass(frozen=True, slots=True)
class NodeLossPolicy:
    """after: how long a node must have been away. force_delete: whether its pods then go by force."""

    after: timedelta = timedelta(minutes=5)
    force_delete: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """A node that will not end its pods.

    why: the end of a sentence that begins with the node. since: None where nothing says it. is_collected:
    Kubernetes itself deletes the pods of such a node by force (its pod garbage collector).
    """

    node: str
    why: str
    since: datetime | None = None
    is_collected: bool = False


@dataclass(frozen=True, slots=True)
class StuckPod:
    """A pod that cannot go. since: when its own grace period had ended."""

    pod: Mapping[str, Any]
    loss: Loss
    since: datetime


def loss_of(name: str, node: Mapping[str, Any] | None) -> Loss | None:
    """Why the node of this name counts as lost; None while it reports Ready. node: None if it is gone."""
    if node is None:
        return Loss(name, "does not exist any more", is_collected=True)
    conditions = (node.get("status") or {}).get("conditions")
    if is_true(conditions, "Ready"):
        return None
    if any(
        taint.get("key") == OUT_OF_SERVICE_TAINT for taint in (node.get("spec") or {}).get("taints") or ()
    ):
        return Loss(name, "is tainted as out of service", is_collected=True)
    told = (find(conditions, "Ready") or {}).get("lastTransitionTime")
    since = moment_of(told or metadata_of(node).get("creationTimestamp"))
    return Loss(name, f"has not been ready since {timestamp(since)}" if since else "is not ready", since)


def waits_for_kubelet(pod: Mapping[str, Any]) -> bool:
    """True while only the kubelet can end a pod that is being deleted: it cuts the grace period to 0 then."""
    return is_terminating(pod) and int(metadata_of(pod).get("deletionGracePeriodSeconds") or 0) > 0


def end_of_grace(pod: Mapping[str, Any]) -> datetime | None:
    """When the grace period of a pod that is being deleted ends: its deletionTimestamp (Kubernetes API)."""
    return moment_of(metadata_of(pod).get("deletionTimestamp"))


def node_of(pod: Mapping[str, Any]) -> str:
    """The name of the pod's node, empty before it has one."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def is_overdue(pod: Mapping[str, Any], now: datetime) -> bool:
    """True for a pod on a node that its kubelet should have ended by now."""
    return waits_for_kubelet(pod) and bool(node_of(pod)) and _overdue_since(pod, now) <= now


def stuck_pods(
    pods: Iterable[Mapping[str, Any]],
    nodes: Mapping[str, Mapping[str, Any] | None],
    now: datetime,
    policy: NodeLossPolicy,
) -> tuple[StuckPod, ...]:
    """Pods that a lost node holds, by name. nodes: the nodes of overdue pods; None for one that is gone.

    A node that fell silent counts from that moment. Of one that Kubernetes cleans up itself nobody knows
    since when: its pods count from the end of their grace period, so that only what is left over is told.
    """
    stuck = []
    for pod in pods:
        if not is_overdue(pod, now) or node_of(pod) not in nodes:
            continue
        loss, since = loss_of(node_of(pod), nodes[node_of(pod)]), _overdue_since(pod, now)
        if loss is not None and (loss.since or since) + policy.after <= now:
            stuck.append(StuckPod(pod, loss, since))
    return tuple(sorted(stuck, key=lambda each: str(each.pod["metadata"]["name"])))


def look_again_after(
    pods: Iterable[Mapping[str, Any]],
    nodes: Mapping[str, Mapping[str, Any] | None],
    now: datetime,
    policy: NodeLossPolicy,
) -> float | None:
    """Seconds until one of the pods may have come to be stuck; None where none waits for a kubelet."""
    waits = [_wait(pod, nodes, now, policy) for pod in pods if waits_for_kubelet(pod)]
    return min(waits, default=None)


def _wait(
    pod: Mapping[str, Any],
    nodes: Mapping[str, Mapping[str, Any] | None],
    now: datetime,
    policy: NodeLossPolicy,
) -> float:
    due = _overdue_since(pod, now)
    if now < due:
        return (due - now).total_seconds()
    name = node_of(pod)
    loss = loss_of(name, nodes[name]) if name in nodes else None
    left = ((loss.since or due) + policy.after - now).total_seconds() if loss is not None else 0.0
    return min(left, timing.LOOK_AGAIN_SECONDS) if left > 0 else timing.LOOK_AGAIN_SECONDS


def _overdue_since(pod: Mapping[str, Any], now: datetime) -> datetime:
    return end_of_grace(pod) or now
