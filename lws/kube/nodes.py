"""Find pods that are stuck because the node of their kubelet is lost, and when to check again.

Neither the end of a grace period nor a silent node causes an event.
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
    """after: time until a node counts as lost. force_delete: whether its pods are then force-deleted."""

    after: timedelta = timedelta(minutes=5)
    force_delete: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """A node that does not terminate its pods.

    why: the end of a sentence that begins with the node. since: None if unknown. is_collected: the pod
    garbage collector of Kubernetes force-deletes the pods of such a node.
    """

    node: str
    why: str
    since: datetime | None = None
    is_collected: bool = False


@dataclass(frozen=True, slots=True)
class StuckPod:
    """A pod that cannot terminate. since: end of its grace period."""

    pod: Mapping[str, Any]
    loss: Loss
    since: datetime


def loss_of(name: str, node: Mapping[str, Any] | None) -> Loss | None:
    """Why the node of this name counts as lost; None while it is Ready. node: None if it does not exist."""
    if node is None:
        return Loss(name, "does not exist any more", is_collected=True)
    conditions = (node.get("status") or {}).get("conditions")
    if is_true(conditions, "Ready"):
        return None
    if any(
        taint.get("key") == OUT_OF_SERVICE_TAINT for taint in (node.get("spec") or {}).get("taints") or ()
    ):
        return Loss(name, "is tainted as out of service", is_collected=True)
    changed = (find(conditions, "Ready") or {}).get("lastTransitionTime")
    since = moment_of(changed or metadata_of(node).get("creationTimestamp"))
    return Loss(name, f"has not been ready since {timestamp(since)}" if since else "is not ready", since)


def waits_for_kubelet(pod: Mapping[str, Any]) -> bool:
    """True while a terminating pod waits for its kubelet, which sets the grace period to 0 when
    it is done.
    """
    return is_terminating(pod) and int(metadata_of(pod).get("deletionGracePeriodSeconds") or 0) > 0


def end_of_grace(pod: Mapping[str, Any]) -> datetime | None:
    """End of the grace period of a terminating pod: its deletionTimestamp (Kubernetes API)."""
    return moment_of(metadata_of(pod).get("deletionTimestamp"))


def node_of(pod: Mapping[str, Any]) -> str:
    """The name of the pod's node, empty before it has one."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def is_overdue(pod: Mapping[str, Any], now: datetime) -> bool:
    """True for a pod on a node whose kubelet should have terminated it by now."""
    return waits_for_kubelet(pod) and bool(node_of(pod)) and _overdue_since(pod, now) <= now


def stuck_pods(
    pods: Iterable[Mapping[str, Any]],
    nodes: Mapping[str, Mapping[str, Any] | None],
    now: datetime,
    policy: NodeLossPolicy,
) -> tuple[StuckPod, ...]:
    """Pods stuck on a lost node, by name. nodes: the nodes of overdue pods; None for one that does not exist.

    A silent node counts from its last report. For a node whose pods Kubernetes deletes itself, the time is
    unknown: its pods count from the end of their grace period.
    """
    stuck = []
    for pod in pods:
        if not is_overdue(pod, now) or node_of(pod) not in nodes:
            continue
        loss, since = loss_of(node_of(pod), nodes[node_of(pod)]), _overdue_since(pod, now)
        if loss is not None and (loss.since or since) + policy.after <= now:
            stuck.append(StuckPod(pod, loss, since))
    return tuple(sorted(stuck, key=lambda each: str(each.pod["metadata"]["name"])))


def recheck_after(
    pods: Iterable[Mapping[str, Any]],
    nodes: Mapping[str, Mapping[str, Any] | None],
    now: datetime,
    policy: NodeLossPolicy,
) -> float | None:
    """Seconds until one of the pods may be stuck; None if none waits for its kubelet."""
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
    return min(left, timing.RECHECK_SECONDS) if left > 0 else timing.RECHECK_SECONDS


def _overdue_since(pod: Mapping[str, Any], now: datetime) -> datetime:
    return end_of_grace(pod) or now
