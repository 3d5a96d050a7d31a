"""What a StatefulSet says: what it was asked for, and how far its controller has come.

In: StatefulSets as plain JSON data, as the API server or the trimmed store has them. Out: answers; nothing is
changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lws.kube.metadata import metadata_of


def wanted_replicas(statefulset: Mapping[str, Any]) -> int:
    """`spec.replicas`, 1 where it is absent (StatefulSet API)."""
    replicas = _spec(statefulset).get("replicas")
    return 1 if replicas is None else int(replicas)


def existing_replicas(statefulset: Mapping[str, Any]) -> int:
    """How many pods its controller has counted, 0 before its first report."""
    return int(_status(statefulset).get("replicas") or 0)


def partition_of(statefulset: Mapping[str, Any]) -> int:
    """The ordinal from which pods move to the new template, 0 where it is absent (StatefulSet API)."""
    return int(_rolling_update(statefulset).get("partition") or 0)


def max_unavailable_of(statefulset: Mapping[str, Any]) -> int | None:
    """How many pods its controller lets go at once in an update, as stored.

    None where the API server dropped it (feature MaxUnavailableStatefulSet off): then it is one, and the next
    has to wait until that one is back. Percentages, which we never write, count as 1.
    """
    stored = _rolling_update(statefulset).get("maxUnavailable")
    if stored is None:
        return None
    return stored if isinstance(stored, int) else 1


def update_revision_of(statefulset: Mapping[str, Any]) -> str:
    """Name of the StatefulSet's own ControllerRevision that updated pods carry as label; empty before the
    first report.
    """
    return str(_status(statefulset).get("updateRevision") or "")


def current_revision_of(statefulset: Mapping[str, Any]) -> str:
    """Name of the StatefulSet's own ControllerRevision that pods below the partition are made from; empty
    before the first report.
    """
    return str(_status(statefulset).get("currentRevision") or "")


def observed_generation_of(statefulset: Mapping[str, Any]) -> int:
    """The last `metadata.generation` that its controller has reported on; 0 if it never did."""
    return int(_status(statefulset).get("observedGeneration") or 0)


def has_seen_template(statefulset: Mapping[str, Any]) -> bool:
    """Report whether the controller has observed the current spec."""
    seen = observed_generation_of(statefulset)
    return seen > 0 and seen >= int(metadata_of(statefulset).get("generation") or 0)


def is_observed(statefulset: Mapping[str, Any]) -> bool:
    """Report whether the controller has observed the current generation.

    `status.observedGeneration` is optional, and simulators leave it out: then it has if it counts as many
    pods as are wanted.
    """
    if not _leaves_generation_out(statefulset):
        return has_seen_template(statefulset)
    return existing_replicas(statefulset) == wanted_replicas(statefulset)


def is_settled(statefulset: Mapping[str, Any]) -> bool:
    """Report whether all pods are available on one revision, by a status for the current generation."""
    status = _status(statefulset)
    return (
        is_observed(statefulset)
        and int(status.get("availableReplicas") or 0) == wanted_replicas(statefulset)
        and status.get("currentRevision") == status.get("updateRevision")
    )


def is_short(statefulset: Mapping[str, Any]) -> bool:
    """Report whether the controller has observed the current spec but not created all of its pods."""
    has_counted = _leaves_generation_out(statefulset) or is_observed(statefulset)
    return has_counted and existing_replicas(statefulset) < wanted_replicas(statefulset)


def last_applied(statefulset: Mapping[str, Any], manager: str) -> datetime | None:
    """When `manager` last changed it by server-side apply, to the second; None if that is not recorded
    (managedFields).
    """
    moments = [
        entry["time"]
        for entry in metadata_of(statefulset).get("managedFields") or ()
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and entry.get("time")
    ]
    # RFC 3339 in UTC sorts as text.
    return datetime.fromisoformat(max(moments)).astimezone(UTC) if moments else None


def _leaves_generation_out(statefulset: Mapping[str, Any]) -> bool:
    """Something was reported, but not on which generation; the API server itself begins with counts of 0."""
    status = _status(statefulset)
    has_counted = any(status.get(field) for field in ("replicas", "currentRevision", "updateRevision"))
    return has_counted and status.get("observedGeneration") is None


def _rolling_update(statefulset: Mapping[str, Any]) -> Mapping[str, Any]:
    return (_spec(statefulset).get("updateStrategy") or {}).get("rollingUpdate") or {}


def _spec(statefulset: Mapping[str, Any]) -> Mapping[str, Any]:
    return statefulset.get("spec") or {}


def _status(statefulset: Mapping[str, Any]) -> Mapping[str, Any]:
    return statefulset.get("status") or {}
