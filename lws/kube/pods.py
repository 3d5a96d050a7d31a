"""What the status of a pod says: ready, running, pending, restarted.

In: pods as plain JSON data, as the API server or the trimmed store has them. Out: answers; the pods are never
changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lws.kube.conditions import is_true
from lws.kube.metadata import is_terminating

__all__ = [
    "ContainerRestart",
    "has_restarted",
    "is_pending",
    "is_ready",
    "is_running",
    "is_terminating",
    "restarted_containers",
]


@dataclass(frozen=True, slots=True)
class ContainerRestart:
    """A container that was started again within its pod.

    count: restarts so far, ≥ 1. exit_code, reason: of the last instance that ended; None and "" where that is
    unknown.
    """

    container: str
    count: int
    exit_code: int | None = None
    reason: str = ""


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


def has_restarted(pod: Mapping[str, Any]) -> bool:
    """True if a container of a Running or Pending pod was ever restarted, init containers included.

    A pod that has Failed or Succeeded is not restarted any more: it is replaced.
    """
    return (is_running(pod) or is_pending(pod)) and bool(restarted_containers(pod))


def restarted_containers(pod: Mapping[str, Any]) -> tuple[ContainerRestart, ...]:
    """Containers with a restart, init containers first, in the order of the pod's status."""
    return tuple(
        ContainerRestart(
            container=entry.get("name") or "",
            count=entry["restartCount"],
            exit_code=_last_end(entry).get("exitCode"),
            reason=_last_end(entry).get("reason") or "",
        )
        for entry in _container_statuses(pod)
        if entry.get("restartCount")
    )


def _container_statuses(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for field in ("initContainerStatuses", "containerStatuses"):
        yield from _status(pod).get(field) or ()


def _last_end(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return (entry.get("lastState") or {}).get("terminated") or {}


def _status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return pod.get("status") or {}
