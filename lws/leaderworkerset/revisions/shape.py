"""Can be read what is stored of a set: its spec, what its revisions recorded of it, its status?

In: plain data that an older definition, another controller or a hand may have written. Out: what is wrong, in
words, empty where nothing is; of a status the part that can be read. Whatever passes here, no decision
stumbles over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from lws.actions import Object
from lws.kube import quantities
from lws.kube.metadata import is_mapping
from lws.kube.types.shapes import Shapes, json_fault
from lws.kube.types.typed import Table
from lws.leaderworkerset.revisions.encoding import TYPES
from lws_api.leaderworkerset.v1 import RestartPolicy, StartupPolicy, SubdomainPolicy

_INT32 = 2**31 - 1
_MOST_REPLICAS = 1_000_000

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

_AMOUNTS = (
    ("rolloutStrategy", "rollingUpdateConfiguration", "maxUnavailable"),
    ("rolloutStrategy", "rollingUpdateConfiguration", "maxSurge"),
)
_RANGES: Mapping[tuple[str, ...], tuple[int, int]] = {
    ("leaderWorkerTemplate", "size"): (1, _INT32),
    ("leaderWorkerTemplate", "subGroupPolicy", "subGroupSize"): (1, _INT32),
    ("progressDeadlineSeconds",): (0, _INT32),
    ("replicas",): (0, _MOST_REPLICAS),
}
_CHOICES: Mapping[tuple[str, ...], type[StrEnum]] = {
    ("leaderWorkerTemplate", "restartPolicy"): RestartPolicy,
    ("networkConfig", "subdomainPolicy"): SubdomainPolicy,
    ("startupPolicy",): StartupPolicy,
}


def spec_fault(lws: Object) -> str:
    """Why the spec of a set cannot be read; empty if it can: then what is recorded of it can be read too."""
    spec = lws.get("spec") or {}
    return json_fault(spec, "spec") or _SHAPES.fault("Spec", spec, "spec") or _value_fault(spec, "spec")


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
        or _value_fault(parts, "data.spec")
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


def _value_fault(spec: Object, path: str) -> str:
    """Of the right shape, but no value that means anything."""
    return next(_value_faults(spec, path), "")


def _value_faults(spec: Object, path: str) -> Iterator[str]:
    for place, (least, most) in _RANGES.items():
        number = _at(spec, place)
        if number is not None and not least <= number <= most:
            yield f"{_named(path, place)} is {number}, not from {least} to {most}"
    for place, choice in _CHOICES.items():
        chosen = _at(spec, place)
        if chosen and chosen not in list(choice):
            yield f"{_named(path, place)} is {chosen!a}, not one of {', '.join(choice)}"
    for place in _AMOUNTS:
        amount = _at(spec, place)
        try:
            quantities.scaled(0 if amount is None else amount, 1, round_up=False)
        except ValueError as error:
            yield f"{_named(path, place)}: {error}"


def _at(spec: Object, place: tuple[str, ...]) -> Any:
    value: Any = spec
    for part in place:
        value = value.get(part) if is_mapping(value) else None
    return value


def _named(path: str, place: tuple[str, ...]) -> str:
    return ".".join((path, *place))
