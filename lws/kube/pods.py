"""What the status of a pod says: ready, running, pending, without a node, failed, restarted.

In: pods as plain JSON data, as the API server or the trimmed store has them. Out: answers; the pods are never
changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lws import timing
from lws.kube.conditions import find, is_true, moment_of
from lws.kube.metadata import is_terminating

__all__ = [
    "DISRUPTED",
    "SCHEDULED",
    "ContainerEnd",
    "NodeWait",
    "deletion_requested_at",
    "disruption_of",
    "ended_containers",
    "first_start_of",
    "gate_of",
    "is_failed",
    "is_pending",
    "is_ready",
    "is_running",
    "is_terminating",
    "left_pending_at",
    "reason_of",
    "restarted_containers",
    "wait_for_node",
]

SCHEDULED = "PodScheduled"
DISRUPTED = ("DisruptionTarget", "TerminationTarget")
"""Conditions of pods that go through no fault of their own: of Kubernetes (KEP-3329), and of Kueue, for
groups whose Workload it evicts, by priority or because somebody has deactivated it.
"""


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How a container ended, for the last time unless is_first: the first time, or the only one.

    exit_code, reason: None and "" where they are unknown. at: moment as the kubelet writes it (RFC 3339, UTC,
    whole seconds, so that text compares as time); "" if unknown. is_sidecar: an init container that runs
    beside the others (KEP-753).
    """

    container: str
    exit_code: int | None = None
    reason: str = ""
    at: str = ""
    is_sidecar: bool = False
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class NodeWait:
    """A pod that the scheduler could not place, or was not to. since: when it was created. until: when it got
    its node, None while it has none. gate: what keeps the scheduler from looking at it, empty for nothing.
    """

    since: datetime
    until: datetime | None = None
    gate: str = ""


def is_ready(pod: Mapping[str, Any]) -> bool:
    """True if the Ready condition is True; says nothing about the phase, nor about deletion."""
    return is_true(_status(pod).get("conditions"), "Ready")


def is_running(pod: Mapping[str, Any]) -> bool:
    """True in phase Running: on a node, and at least one container is running or being started again."""
    return bool(_status(pod).get("phase") == "Running")


def is_pending(pod: Mapping[str, Any]) -> bool:
    """True in phase Pending: accepted, but some container was never started. A pod without a phase is that
    young too.
    """
    return (_status(pod).get("phase") or "Pending") == "Pending"


def is_failed(pod: Mapping[str, Any]) -> bool:
    """True in phase Failed: its containers have ended for good, as after an eviction by the node."""
    return bool(_status(pod).get("phase") == "Failed")


def reason_of(pod: Mapping[str, Any]) -> str:
    """One word on why the pod is in its phase, such as Evicted; "" where nothing is said."""
    return str(_status(pod).get("reason") or "")


def wait_for_node(pod: Mapping[str, Any]) -> NodeWait | None:
    """How long the pod had to wait, or waits, for its node: gated, or no node would do. None where it got one
    at once, and where no scheduler has looked at it.
    """
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
    """The first of the scheduling gates of a pod; empty where it has none any more."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return str(gates[0].get("name") or "") if gates else ""


def disruption_of(pod: Mapping[str, Any]) -> str:
    """Why the pod goes, or is to go, through no fault of its own: evicted, preempted, drained, its node shut
    down or gone; "" where nothing of that kind is said.

    That is said by a condition. The reason Evicted alone says less: a pod that has filled its own disk is
    evicted too.
    """
    for kind in DISRUPTED:
        found = find(_status(pod).get("conditions"), kind)
        if found is not None and found.get("status") == "True":
            return str(found.get("reason") or kind)
    return ""


def deletion_requested_at(pod: Mapping[str, Any]) -> datetime | None:
    """When the deletion was accepted; its timestamp is the end of the grace period."""
    metadata = pod["metadata"]
    end, grace = moment_of(metadata.get("deletionTimestamp")), metadata.get("deletionGracePeriodSeconds")
    return end - timedelta(seconds=int(grace or 0)) if end is not None else None


def restarted_containers(pod: Mapping[str, Any]) -> tuple[ContainerEnd, ...]:
    """Containers of a Running or Pending pod that were started again, init containers first, in the order of
    the pod's status.

    A pod that has Failed or Succeeded is not restarted any more: it is replaced.
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
    """Containers that are not running because they have ended with an error."""
    ends = (_end_of(entry, "state") for _, entry in _container_statuses(pod))
    return tuple(end for end in ends if end.exit_code)


def left_pending_at(pod: Mapping[str, Any], exempt: Collection[str] = ()) -> str:
    """The moment at which the last of the pod's containers was started for the first time, in the form of
    `ContainerEnd.at`; "" where nothing shows it.

    Of a container that was restarted more than once, only the start of its last instance but one is known.
    exempt: names of containers whose restarts do not count. Of these only a first start that is known counts:
    a later one would have a failure of another container look like part of the start.
    """
    return max(
        (
            _first_start(container_status, exempt)
            for container_status in _status(pod).get("containerStatuses") or ()
        ),
        default="",
    )


def first_start_of(pod: Mapping[str, Any], containers: Collection[str]) -> str:
    """The last of the moments at which these containers were started for the first time, as far as the pod
    still shows them: not after their second restart.
    """
    entries = _status(pod).get("containerStatuses") or ()
    return max(
        (_first_start(entry, containers) for entry in entries if entry.get("name") in containers), default=""
    )


def _first_start(entry: Mapping[str, Any], exempt: Collection[str]) -> str:
    last = (entry.get("lastState") or {}).get("terminated") or {}
    state = entry.get("state") or {}
    now = state.get("running") or state.get("terminated") or {}
    if entry.get("name") not in exempt:
        return str(last.get("startedAt") or now.get("startedAt") or "")
    restarts = entry.get("restartCount") or 0
    started = (now, last)[restarts] if restarts < 2 else {}
    return str(started.get("startedAt") or "")


def _end_of(entry: Mapping[str, Any], field: str, is_sidecar: bool = False) -> ContainerEnd:
    end = (entry.get(field) or {}).get("terminated") or {}
    return ContainerEnd(
        container=entry.get("name") or "",
        exit_code=end.get("exitCode"),
        reason=end.get("reason") or "",
        at=end.get("finishedAt") or "",
        is_sidecar=is_sidecar,
        is_first=entry.get("restartCount") == 1,
    )


def _container_statuses(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for field in ("initContainerStatuses", "containerStatuses"):
        for entry in _status(pod).get(field) or ():
            yield field, entry


def _status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return pod.get("status") or {}


# --- Affinity of pods: the required terms there are, and more terms.


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_MOST_WEIGHT = 100


def term(expressions: list[dict[str, Any]], topology: str) -> dict[str, Any]:
    """Pods that match all of these expressions, on nodes with one value of this label."""
    return {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology}


def terms_of(kind: Any) -> list[Mapping[str, Any]]:
    """The required terms of a `podAffinity` or `podAntiAffinity`; invalid ones are left out."""
    terms = kind.get(REQUIRED) if isinstance(kind, Mapping) else None
    return [each for each in terms if isinstance(each, Mapping)] if isinstance(terms, list) else []


def with_terms(kind: Mapping[str, Any] | None, added: list[dict[str, Any]]) -> dict[str, Any]:
    """A `podAffinity` or `podAntiAffinity` with more required terms."""
    return {**(kind or {}), REQUIRED: [*terms_of(kind), *added]}


def with_preferred(kind: Mapping[str, Any] | None, added: list[dict[str, Any]]) -> dict[str, Any]:
    """A `podAffinity` or `podAntiAffinity` with more terms that the scheduler may give up, of full weight."""
    known = (kind or {}).get(PREFERRED)
    weighted = [{"weight": _MOST_WEIGHT, "podAffinityTerm": each} for each in added]
    return {**(kind or {}), PREFERRED: [*(known if isinstance(known, list) else ()), *weighted]}


def has_both_terms(affinity: Mapping[str, Any], topology: str) -> bool:
    """True if required affinity and anti-affinity both have terms about this topology, whatever they say."""
    return all(
        any(each.get("topologyKey") == topology for each in terms_of(affinity.get(kind)))
        for kind in ("podAffinity", "podAntiAffinity")
    )
