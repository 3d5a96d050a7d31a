"""Validate the stored spec, revisions and status of a set.

An older definition, another controller or a person may have written anything. Out: what is wrong, in words;
of a status the readable part. No decision fails on data that passes here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.kube import quantities
from lws.kube.metadata import is_mapping
from lws.kube.shapes import Numbers, Shapes, json_fault
from lws.kube.typed import Table
from lws.leaderworkerset import fields
from lws.leaderworkerset.revisions.encoding import TYPES
from lws.runtime.actions import Object

_TYPES: Table = {
    **TYPES,
    "LeaderWorkerTemplate": {**TYPES["LeaderWorkerTemplate"], "maxGroupRestarts": "*i"},
    "Spec": {
        "leaderService": "*LeaderService",
        "leaderWorkerTemplate": "LeaderWorkerTemplate",
        "maxGroupRestarts": "*i",
        "networkConfig": "*NetworkConfig",
        "podDisruptionBudget": "*GroupDisruptionBudget",
        "progressDeadlineSeconds": "*i",
        "replicas": "*i",
        "revisionHistoryLimit": "*i",
        "rolloutStrategy": "*RolloutStrategy",
        "startupPolicy": "s",
    },
    "GroupDisruptionBudget": {"maxUnavailableGroups": "*x"},
    "LeaderService": {"ports": "[LeaderServicePort]", "type": "s"},
    "LeaderServicePort": {"name": "s", "port": "i", "protocol": "s", "targetPort": "*x"},
    "RollingUpdate": {"maxSurge": "*x", "maxUnavailable": "*x", "partition": "*i"},
    "RolloutStrategy": {"paused": "b", "rollingUpdateConfiguration": "*RollingUpdate", "type": "s"},
}
_REQUIRED = {
    "LeaderServicePort": ("port",),
    "LeaderWorkerTemplate": ("workerTemplate",),
    "Spec": ("leaderWorkerTemplate",),
}
_SHAPES = Shapes(_TYPES, _REQUIRED)
_NUMBERS = Numbers(_TYPES)

_STATUS: Mapping[str, str] = {
    "collisionCount": "i",
    "conditions": "[Condition]",
    "currentRevision": "s",
    "groups": "Groups",
    "hpaPodSelector": "s",
    "lastProgressTime": "s",
    "members": "{s}",
    "observedGeneration": "i",
    "readyReplicas": "i",
    "replicas": "i",
    "restarts": "{s}",
    "rollout": "Rollout",
    "updateRevision": "s",
    "updatedReplicas": "i",
}
_STATUS_SHAPES = Shapes(
    {
        "Condition": {
            "lastTransitionTime": "s",
            "message": "s",
            "observedGeneration": "i",
            "reason": "s",
            "status": "s",
            "type": "s",
        },
        "Groups": {"counts": "{i}", "unsettled": "[Unsettled]"},
        "Rollout": {"partition": "i", "revision": "s"},
        "Unsettled": {"name": "s", "reason": "s", "state": "s"},
    },
    {"Condition": ("type", "status")},
)

_AMOUNTS = (fields.MAX_UNAVAILABLE, fields.MAX_SURGE)
_RANGES: Mapping[fields.Field, tuple[int, int]] = {
    fields.SIZE: (1, quantities.INT32),
    fields.SUBGROUP_SIZE: (1, quantities.INT32),
    fields.PROGRESS_DEADLINE: (0, quantities.INT32),
    fields.REPLICAS: (0, fields.MOST_REPLICAS),
}
_CHOICES = (fields.RESTART_POLICY, fields.SUBDOMAIN_POLICY, fields.STARTUP_POLICY)


def spec_fault(lws: Object, prefix: str = "") -> str:
    """Why the spec of a set cannot be read; empty if it can: then what is recorded of it can be read too.

    prefix: of all paths.
    """
    return json_fault(lws.get("spec") or {}, f"{prefix}spec") or shape_fault(lws, prefix)


def shape_fault(lws: Object, prefix: str = "") -> str:
    """The same of a spec that is known to be JSON which can be sent on."""
    spec, path = lws.get("spec") or {}, f"{prefix}spec"
    return _SHAPES.fault("Spec", spec, path) or _value_fault(lws, prefix)


def number_faults(spec: Any, path: str = "spec") -> Iterator[tuple[str, Any, str]]:
    """Numbers and quantities of a spec that typed clients cannot read: path, value, and what is wrong. What
    an earlier release stored with one is read all the same.
    """
    return _NUMBERS.faults("Spec", spec, path)


def recorded_fault(data: Any) -> str:
    """Why the data of a ControllerRevision is nothing that groups could be made from; empty if it is.

    A revision may lack a networkConfig: then that of the set applies.
    """
    spec = data.get("spec") if is_mapping(data) else None
    if not is_mapping(spec) or spec.get("leaderWorkerTemplate") is None:
        return "data holds no leaderWorkerTemplate"
    parts = {part: spec.get(part) for part in ("leaderWorkerTemplate", "networkConfig")}
    return (
        json_fault(data, "data")
        or _SHAPES.fault("Spec", parts, "data.spec")
        or _value_fault({"spec": parts}, "data.")
    )


def is_pod_template(value: Any) -> bool:
    """Whether a pod could be made from it, as far as shapes tell."""
    return value is not None and not (
        json_fault(value, "template") or _SHAPES.fault("PodTemplateSpec", value, "template")
    )


def readable_status(status: Any) -> dict[str, Any]:
    """The status, with null in the place of every field of ours that cannot be read: so the next write of
    the status takes it away.
    """
    if not is_mapping(status):
        return {}
    return {
        field: None if field in _STATUS and _STATUS_SHAPES.fault(_STATUS[field], value, field) else value
        for field, value in status.items()
    }


def _value_fault(raw: Object, prefix: str = "") -> str:
    """Of the right shape, but no value that means anything. prefix: of all paths."""
    return next(_value_faults(raw, prefix), "")


def _value_faults(raw: Object, prefix: str) -> Iterator[str]:
    for field, (least, most) in _RANGES.items():
        number = field.of(raw)
        if number is not None and not least <= number <= most:
            yield f"{prefix}{field} is {number}, not from {least} to {most}"
    for field in _CHOICES:
        chosen, choice = field.of(raw), list(field.default.__class__)
        if chosen and chosen not in choice:
            yield f"{prefix}{field} is {chosen!a}, not one of {', '.join(choice)}"
    for field in _AMOUNTS:
        amount = field.of(raw)
        try:
            quantities.scaled(0 if amount is None else amount, 1, round_up=False)
        except ValueError as error:
            yield f"{prefix}{field}: {error}"
