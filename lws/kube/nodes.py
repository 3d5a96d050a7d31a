"""Find pods that are stuck on lost nodes, decide when to recheck them, and explain why a node fits no pod.

Neither the end of a grace period nor a node that stops reporting causes an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lws import timing
from lws.kube.conditions import find, is_true, moment_of, timestamp
from lws.kube.metadata import is_terminating, labels_of, metadata_of
from lws.kube.pods import REQUIRED
from lws.kube.quantities import whole_number

OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"


@dataclass(frozen=True, slots=True)
class NodeLossPolicy:
    """How pods on lost nodes are treated. after: time without Ready after which a node counts as lost."""

    after: timedelta = timedelta(minutes=5)
    force_delete: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a node does not terminate its pods; `why` ends a sentence that begins with the node.

    since: when the node stopped being Ready; None if unknown. is_collected: whether Kubernetes' pod garbage
    collector force-deletes its pods.
    """

    node: str
    why: str
    since: datetime | None = None
    is_collected: bool = False


@dataclass(frozen=True, slots=True)
class StuckPod:
    """A pod that cannot terminate. since: the end of its grace period."""

    pod: Mapping[str, Any]
    loss: Loss
    since: datetime


def loss_of(name: str, node: Mapping[str, Any] | None) -> Loss | None:
    """Return why a node, None if missing, does not terminate its pods; None if it is Ready."""
    if node is None:
        return Loss(name, "does not exist any more", is_collected=True)
    conditions = (node.get("status") or {}).get("conditions")
    if is_true(conditions, "Ready"):
        return None
    taints = (node.get("spec") or {}).get("taints") or ()
    if any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in taints):
        return Loss(name, "is tainted as out of service", is_collected=True)
    changed = (find(conditions, "Ready") or {}).get("lastTransitionTime")
    since = moment_of(changed or metadata_of(node).get("creationTimestamp"))
    return Loss(name, f"has not been ready since {timestamp(since)}" if since else "is not ready", since)


def why_unfit(name: str, node: Mapping[str, Any] | None, pod: Mapping[str, Any]) -> str:
    """Return why a pod with this spec could not run on the node even if the node had room; empty if it could.

    The text is the end of a sentence that begins with the node. An unreadable selector matches nothing.
    node: None if it does not exist.
    """
    if loss := loss_of(name, node):
        return loss.why
    node = node or {}
    spec: Mapping[str, Any] = node.get("spec") or {}
    if spec.get("unschedulable"):
        return "is cordoned"
    tolerations = [
        toleration for toleration in pod.get("tolerations") or () if isinstance(toleration, Mapping)
    ]
    for taint in spec.get("taints") or ():
        if taint.get("effect") in _EXCLUDING and not any(
            _tolerates(toleration, taint) for toleration in tolerations
        ):
            return f"has the taint {taint.get('key')}"
    return "" if _is_selected(node, pod) else "does not match the node selector or affinity of the pod"


_EXCLUDING = ("NoSchedule", "NoExecute")


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    key, operator = toleration.get("key"), toleration.get("operator") or "Equal"
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if not key:
        return bool(operator == "Exists")
    values_match = operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(key == taint.get("key") and (operator == "Exists" or values_match))


def _is_selected(node: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Return whether the pod's node selector and required node affinity match the node."""
    labels = labels_of(node)
    if not (pod.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if affinity is None:
        return True
    names = {"metadata.name": metadata_of(node).get("name", "")}
    for term in affinity.get("nodeSelectorTerms") or ():
        checks = [
            *(_matches(expression, labels) for expression in term.get("matchExpressions") or ()),
            *(_matches(expression, names) for expression in term.get("matchFields") or ()),
        ]
        if checks and all(checks):
            return True
    return False


def _matches(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    value, values = labels.get(expression.get("key", "")), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator if len(values) == 1:
            number, bound = whole_number(value), whole_number(values[0])
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
    return False


def waits_for_kubelet(pod: Mapping[str, Any]) -> bool:
    """Return whether a terminating pod waits for its kubelet, which finally sets the grace period to 0."""
    return is_terminating(pod) and int(metadata_of(pod).get("deletionGracePeriodSeconds") or 0) > 0


def end_of_grace(pod: Mapping[str, Any]) -> datetime | None:
    """Return the end of a terminating pod's grace period: its deletionTimestamp (Kubernetes API)."""
    return moment_of(metadata_of(pod).get("deletionTimestamp"))


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the name of the pod's node; empty if the pod is not scheduled yet."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def is_overdue(pod: Mapping[str, Any], now: datetime) -> bool:
    """Return whether the kubelet of the pod's node should have terminated the pod by now."""
    return waits_for_kubelet(pod) and bool(node_of(pod)) and _overdue_since(pod, now) <= now


@dataclass(frozen=True, slots=True)
class NodeLosses:
    """Terminating pods, some of which may be stuck on lost nodes. nodes: the nodes of overdue pods, by name;
    None for a node that does not exist.

    A node counts as lost when it has not been Ready for `policy.after`. If Kubernetes deletes the pods of the
    node itself, that time is unknown, and the end of the pod's grace period takes its place.
    """

    pods: tuple[Mapping[str, Any], ...]
    nodes: Mapping[str, Mapping[str, Any] | None]
    now: datetime
    policy: NodeLossPolicy

    def stuck_pods(self) -> tuple[StuckPod, ...]:
        """Return the pods that are stuck on a lost node, sorted by name."""
        stuck = []
        for pod in self.pods:
            if not is_overdue(pod, self.now) or node_of(pod) not in self.nodes:
                continue
            loss, since = loss_of(node_of(pod), self.nodes[node_of(pod)]), _overdue_since(pod, self.now)
            if loss is not None and (loss.since or since) + self.policy.after <= self.now:
                stuck.append(StuckPod(pod, loss, since))
        return tuple(sorted(stuck, key=lambda stuck_pod: str(stuck_pod.pod["metadata"]["name"])))

    def recheck_after(self) -> float | None:
        """Return the seconds until one of the pods may be stuck; None if no pod waits for its kubelet."""
        return min((self._wait(pod) for pod in self.pods if waits_for_kubelet(pod)), default=None)

    def _wait(self, pod: Mapping[str, Any]) -> float:
        due = _overdue_since(pod, self.now)
        if self.now < due:
            # If the clock was set back since the deletion, the end of the grace period is further away than
            # the period is long.
            grace = float(metadata_of(pod)["deletionGracePeriodSeconds"])
            return min((due - self.now).total_seconds(), grace)
        name = node_of(pod)
        loss = loss_of(name, self.nodes[name]) if name in self.nodes else None
        remaining = (
            ((loss.since or due) + self.policy.after - self.now).total_seconds() if loss is not None else 0.0
        )
        return min(remaining, timing.RECHECK_SECONDS) if remaining > 0 else timing.RECHECK_SECONDS


def _overdue_since(pod: Mapping[str, Any], now: datetime) -> datetime:
    return end_of_grace(pod) or now
