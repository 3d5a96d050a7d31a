"""Read spec and status of StatefulSets from the API server or the trimmed store, without changing them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lws.kube.conditions import moment_of
from lws.kube.metadata import metadata_of


def desired_replicas(leaders: Mapping[str, Any]) -> int:
    """Return `spec.replicas` of a StatefulSet or Deployment; 1 if absent (their API)."""
    replicas = _spec(leaders).get("replicas")
    return 1 if replicas is None else int(replicas)


def existing_replicas(statefulset: Mapping[str, Any]) -> int:
    """Return `status.replicas`; 0 before the first status."""
    return int(_status(statefulset).get("replicas") or 0)


def partition_of(statefulset: Mapping[str, Any]) -> int:
    """Return the ordinal from which pods are updated; 0 if absent (StatefulSet API)."""
    return int(_rolling_update(statefulset).get("partition") or 0)


def max_unavailable_of(statefulset: Mapping[str, Any]) -> int | None:
    """Return the stored `maxUnavailable`; None if the API server dropped it, which means 1.

    It does so if the feature MaxUnavailableStatefulSet is off. Percentages, which we never write, count as 1.
    """
    stored = _rolling_update(statefulset).get("maxUnavailable")
    if stored is None:
        return None
    return stored if isinstance(stored, int) else 1


def update_revision_of(statefulset: Mapping[str, Any]) -> str:
    """Return the name of the ControllerRevision of updated pods, a label of them; empty without a status."""
    return str(_status(statefulset).get("updateRevision") or "")


def current_revision_of(statefulset: Mapping[str, Any]) -> str:
    """Return the name of the ControllerRevision of pods below the partition; empty without a status."""
    return str(_status(statefulset).get("currentRevision") or "")


def observed_generation_of(statefulset: Mapping[str, Any]) -> int:
    """Return `status.observedGeneration`; 0 if absent."""
    return int(_status(statefulset).get("observedGeneration") or 0)


def has_seen_template(statefulset: Mapping[str, Any]) -> bool:
    """Return whether the StatefulSet controller has observed the current spec."""
    seen = observed_generation_of(statefulset)
    return seen > 0 and seen >= int(metadata_of(statefulset).get("generation") or 0)


def is_observed(statefulset: Mapping[str, Any]) -> bool:
    """Return whether the StatefulSet controller has observed the current generation.

    `status.observedGeneration` is optional, and simulators omit it. In that case, the existing replicas must
    equal the desired ones.
    """
    if not _leaves_generation_out(statefulset):
        return has_seen_template(statefulset)
    return existing_replicas(statefulset) == desired_replicas(statefulset)


def is_settled(statefulset: Mapping[str, Any]) -> bool:
    """Return whether all pods are available on one revision, by a status for the current generation."""
    status = _status(statefulset)
    return (
        is_observed(statefulset)
        and int(status.get("availableReplicas") or 0) == desired_replicas(statefulset)
        and status.get("currentRevision") == status.get("updateRevision")
    )


def is_short(statefulset: Mapping[str, Any]) -> bool:
    """Return whether the StatefulSet controller has observed the current spec but not created all pods."""
    has_counted = _leaves_generation_out(statefulset) or is_observed(statefulset)
    return has_counted and existing_replicas(statefulset) < desired_replicas(statefulset)


def last_applied(statefulset: Mapping[str, Any], manager: str) -> datetime | None:
    """Return when `manager` last applied, in whole seconds; None if managedFields show no apply by it."""
    moments = (
        moment_of(entry.get("time"))
        for entry in metadata_of(statefulset).get("managedFields") or ()
        if entry.get("manager") == manager and entry.get("operation") == "Apply"
    )
    return max((moment for moment in moments if moment is not None), default=None)


def _leaves_generation_out(statefulset: Mapping[str, Any]) -> bool:
    """Return whether the status was written (its counts are not the initial 0) without observedGeneration."""
    status = _status(statefulset)
    has_counted = any(status.get(field) for field in ("replicas", "currentRevision", "updateRevision"))
    return has_counted and status.get("observedGeneration") is None


def _rolling_update(statefulset: Mapping[str, Any]) -> Mapping[str, Any]:
    return (_spec(statefulset).get("updateStrategy") or {}).get("rollingUpdate") or {}


def _spec(statefulset: Mapping[str, Any]) -> Mapping[str, Any]:
    return statefulset.get("spec") or {}


def _status(statefulset: Mapping[str, Any]) -> Mapping[str, Any]:
    return statefulset.get("status") or {}
