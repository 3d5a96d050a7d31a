"""Read the state of a pod from its status. Pods, complete or trimmed by the store, are never changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lws import timing
from lws.kube.conditions import find, is_true, moment_of
from lws.kube.metadata import mappings_in

SCHEDULED = "PodScheduled"
CONTAINERS_READY = "ContainersReady"
DISRUPTED = ("DisruptionTarget", "TerminationTarget")
"""Conditions of disrupted pods. Kubernetes sets the first one (KEP-3329). Kueue sets the second one on groups
whose Workload it evicts by priority or because a user has deactivated it.
"""


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """The last termination of a container; None and "" stand for what is unknown.

    is_sidecar: whether the container is a restartable init container (KEP-753). restarts: how often the
    container was restarted.
    """

    container: str
    exit_code: int | None = None
    reason: str = ""
    is_sidecar: bool = False
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class NodeWait:
    """The wait of a pod that the scheduler could not place or that is gated.

    since: its creation. until: when it was scheduled; None if it still waits. gate: its first scheduling
    gate, if any. pod, node: its name and the only node that it may run on; both are empty if other nodes are
    possible.
    """

    since: datetime
    until: datetime | None = None
    gate: str = ""
    pod: str = ""
    node: str = ""

    @property
    def words(self) -> str:
        return f"pod {self.pod} must return to node {self.node} and cannot be scheduled there"


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether the Ready condition is True, regardless of phase and deletion."""
    return is_true(_status(pod).get("conditions"), "Ready")


def are_containers_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether the ContainersReady condition is True: the pod is ready but for its readiness gates."""
    return is_true(_status(pod).get("conditions"), CONTAINERS_READY)


def is_running(pod: Mapping[str, Any]) -> bool:
    """Return whether the phase is Running: on a node, with at least one container running or restarting."""
    return bool(_status(pod).get("phase") == "Running")


def is_pending(pod: Mapping[str, Any]) -> bool:
    """Return whether the phase is Pending, or not set yet: not all of the containers have been started."""
    return (_status(pod).get("phase") or "Pending") == "Pending"


def is_failed(pod: Mapping[str, Any]) -> bool:
    """Return whether the phase is Failed: the containers have ended for good, as after an eviction."""
    return bool(_status(pod).get("phase") == "Failed")


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Return whether the phase is Failed or Succeeded. A ReplicaSet replaces such a pod and leaves it."""
    return _status(pod).get("phase") in ("Failed", "Succeeded")


def reason_of(pod: Mapping[str, Any]) -> str:
    """Return `status.reason`, such as Evicted; "" if there is none."""
    return str(_status(pod).get("reason") or "")


def wait_for_node(pod: Mapping[str, Any]) -> NodeWait | None:
    """Return a pod's present or past wait for its node; None if placed at once, or seen by no scheduler."""
    scheduled = find(_status(pod).get("conditions"), SCHEDULED)
    since = moment_of(pod["metadata"].get("creationTimestamp"))
    if scheduled is None or since is None:
        return None
    if scheduled.get("status") == "False":
        return NodeWait(since, gate=gate_of(pod))
    until = moment_of(scheduled.get("lastTransitionTime"))
    if scheduled.get("status") != "True" or until is None or until - since <= timing.SCHEDULED_AT_ONCE:
        return None
    return NodeWait(since, until)


def gate_of(pod: Mapping[str, Any]) -> str:
    """Return the first scheduling gate of a pod; empty if it has none."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return str(gates[0].get("name") or "") if gates else ""


def has_gate(pod: Mapping[str, Any], name: str) -> bool:
    """Return whether the pod has this scheduling gate."""
    gates = (pod.get("spec") or {}).get("schedulingGates")
    return isinstance(gates, list) and {"name": name} in gates


def disruption_of(pod: Mapping[str, Any]) -> str:
    """Return why the pod is disrupted: evicted, preempted, drained, deleted, node shut down; "" if it is not.

    Only a condition shows it. The reason Evicted may also mean that the pod exceeded its ephemeral storage.
    """
    for kind in DISRUPTED:
        condition = find(_status(pod).get("conditions"), kind)
        if condition is not None and condition.get("status") == "True":
            return str(condition.get("reason") or kind)
    return ""


def deletion_requested_at(pod: Mapping[str, Any]) -> datetime | None:
    """Return when the API server accepted the deletion: the deletionTimestamp minus the grace period. None if
    the pod is not terminating, or if its grace period is longer than any calendar.
    """
    metadata = pod["metadata"]
    end, grace = moment_of(metadata.get("deletionTimestamp")), metadata.get("deletionGracePeriodSeconds")
    try:
        return end - timedelta(seconds=int(grace or 0)) if end is not None else None
    except OverflowError:
        return None


def restarted_containers(pod: Mapping[str, Any]) -> tuple[ContainerEnd, ...]:
    """Return the last end of each restarted container of a Running or Pending pod, init containers first.

    A Failed or Succeeded pod has none, because it is replaced and not restarted.
    """
    if not (is_running(pod) or is_pending(pod)):
        return ()
    sidecars = {
        container.get("name")
        for container in (pod.get("spec") or {}).get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    return tuple(
        _end_of(entry, "lastState", is_sidecar=field.startswith("init") and entry.get("name") in sidecars)
        for field, entry in _container_statuses(pod)
        if entry.get("restartCount")
    )


def ended_containers(pod: Mapping[str, Any]) -> tuple[ContainerEnd, ...]:
    """Return the ends of the containers that are not running because they terminated with an error."""
    ends = (_end_of(entry, "state") for _, entry in _container_statuses(pod))
    return tuple(end for end in ends if end.exit_code)


def _end_of(entry: Mapping[str, Any], field: str, is_sidecar: bool = False) -> ContainerEnd:
    end = (entry.get(field) or {}).get("terminated") or {}
    return ContainerEnd(
        container=entry.get("name") or "",
        exit_code=end.get("exitCode"),
        reason=end.get("reason") or "",
        is_sidecar=is_sidecar,
        restarts=entry.get("restartCount") or 0,
    )


def _container_statuses(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for field in ("initContainerStatuses", "containerStatuses"):
        for entry in _status(pod).get(field) or ():
            yield field, entry


def _status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return pod.get("status") or {}


# --- Read and extend the affinity of pods.


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_MOST_WEIGHT = 100


def term(expressions: list[dict[str, Any]], topology: str) -> dict[str, Any]:
    """Return a term for pods that match all expressions, on nodes with the same value of label `topology`."""
    return {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology}


def terms_of(kind: Any) -> list[Mapping[str, Any]]:
    """Return the required terms of a `podAffinity` or `podAntiAffinity`, without invalid ones."""
    return mappings_in(kind.get(REQUIRED)) if isinstance(kind, Mapping) else []


def with_terms(kind: Mapping[str, Any] | None, added: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a `podAffinity` or `podAntiAffinity` with required terms added."""
    return {**(kind or {}), REQUIRED: [*terms_of(kind), *added]}


def with_preferred(kind: Mapping[str, Any] | None, added: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a `podAffinity` or `podAntiAffinity` with preferred terms of full weight added."""
    stored = (kind or {}).get(PREFERRED)
    weighted = [{"weight": _MOST_WEIGHT, "podAffinityTerm": term} for term in added]
    return {**(kind or {}), PREFERRED: [*(stored if isinstance(stored, list) else ()), *weighted]}


def with_preferred_node(affinity: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an affinity with a preferred term of full weight for the node of this name, added only once."""
    added = {"weight": _MOST_WEIGHT, "preference": {"matchFields": [_named(name)]}}
    kind = affinity.get("nodeAffinity")
    stored = kind.get(PREFERRED) if isinstance(kind, Mapping) else None
    terms = stored if isinstance(stored, list) else []
    if added in terms:
        return dict(affinity)
    return {**affinity, "nodeAffinity": {**(kind or {}), PREFERRED: [*terms, added]}}


def with_required_node(affinity: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an affinity that only the node of this name satisfies, if it satisfied the given affinity.

    Terms are alternatives, so each gets the name once. An empty term matches no node and stays empty.
    """
    kind: Mapping[str, Any] = affinity.get("nodeAffinity") or {}
    stored = (kind.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    terms = [_with_field(term, _named(name)) for term in stored] or [{"matchFields": [_named(name)]}]
    return {**affinity, "nodeAffinity": {**kind, REQUIRED: {"nodeSelectorTerms": terms}}}


def _named(node: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


def _with_field(term: Mapping[str, Any], field: dict[str, Any]) -> dict[str, Any]:
    fields = term.get("matchFields") or []
    is_empty = not fields and not term.get("matchExpressions")
    return dict(term) if is_empty or field in fields else {**term, "matchFields": [*fields, field]}


def has_both_terms(affinity: Mapping[str, Any], topology: str) -> bool:
    """Return whether required affinity and required anti-affinity both have terms for this topology key."""
    return all(
        any(term.get("topologyKey") == topology for term in terms_of(affinity.get(kind)))
        for kind in ("podAffinity", "podAntiAffinity")
    )
