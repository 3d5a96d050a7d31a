"""Validate the stored spec, revisions and status of a set.

With an older CRD, other controllers or users may have stored anything. Every decision can read a spec that
passes these checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lws.kube import quantities
from lws.kube.metadata import is_mapping
from lws.kube.shapes import Numbers, Shapes, json_fault
from lws.kube.typed import POD_TYPES, Table, types_of
from lws.leaderworkerset import fields
from lws.leaderworkerset.fields import Field
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import LeaderWorkerSetSpec, LeaderWorkerSetStatus

_OWN_TYPES = types_of(LeaderWorkerSetSpec)
TYPES: Table = {**POD_TYPES, **_OWN_TYPES}
"""The types of a spec."""
_REQUIRED = {
    "LeaderServicePort": ("port",),
    "LeaderWorkerTemplate": ("workerTemplate",),
    "LeaderWorkerSetSpec": ("leaderWorkerTemplate",),
}
_SHAPES = Shapes(TYPES, _REQUIRED)
# A later release may have stored a field that the set relies on, so unknown fields are faults. Pod templates
# go through untouched.
_SPEC_SHAPES = Shapes(TYPES, _REQUIRED, closed=_OWN_TYPES)
_NUMBERS = Numbers(TYPES)

_STATUS_TYPES = types_of(LeaderWorkerSetStatus)
_STATUS = _STATUS_TYPES["LeaderWorkerSetStatus"]
_STATUS_SHAPES = Shapes(_STATUS_TYPES, {"Condition": ("type", "status")})

_AMOUNTS = (fields.MAX_UNAVAILABLE, fields.MAX_SURGE)
# An invalid value in any other field stops the set; in these it does not.
_HARMLESS = (
    fields.REVISION_HISTORY_LIMIT,
    fields.MAX_GROUP_RESTARTS,
    fields.LEADER_WORKER_TEMPLATE_MAX_GROUP_RESTARTS,
    fields.RESTART_BACKOFF_BASE_SECONDS,
    fields.RESTART_BACKOFF_CAP_SECONDS,
)
# Every constant of `fields` is checked, except those.
_CHECKED = [field for field in vars(fields).values() if isinstance(field, Field) and field not in _HARMLESS]
# These minimums are not in the schema: upstream's webhook requires the first two, and a deadline of 0 s only
# causes a report.
_MINIMUMS = {fields.SIZE: 1, fields.SUB_GROUP_SIZE: 1, fields.PROGRESS_DEADLINE_SECONDS: 0}
_LIMITED = [field for field in _CHECKED if field in _MINIMUMS or field.minimum is not None]
_CHOICES = [field for field in _CHECKED if field.choices]


def spec_fault(lws: Object) -> str:
    """Return the reason why the spec of a set cannot be read; empty if it, and so any revision of it, can."""
    return json_fault(lws.get("spec") or {}, "spec") or shape_fault(lws)


def shape_fault(lws: Object, prefix: str = "", *, is_recorded: bool = False) -> str:
    """Return the reason why a spec that is valid JSON cannot be read; empty if it can. prefix: the start of
    all paths. is_recorded: whether it is of a revision, where unknown fields are no fault.
    """
    shapes = _SHAPES if is_recorded else _SPEC_SHAPES
    fault = shapes.fault("LeaderWorkerSetSpec", lws.get("spec") or {}, f"{prefix}spec")
    return fault or next(_value_faults(lws, prefix), "")


def number_faults(spec: Any, path: str = "spec") -> Iterator[tuple[str, Any, str]]:
    """Return numbers and quantities that typed clients cannot read: path, value, and what is wrong. Specs of
    earlier releases that contain such values are read nevertheless.
    """
    return _NUMBERS.faults("LeaderWorkerSetSpec", spec, path)


def recorded_fault(data: Any) -> str:
    """Return the reason why groups cannot be created from the data of a ControllerRevision; empty if they
    can. If the revision has no networkConfig, the networkConfig of the set applies.
    """
    spec = data.get("spec") if is_mapping(data) else None
    if not is_mapping(spec) or spec.get("leaderWorkerTemplate") is None:
        return "data contains no leaderWorkerTemplate"
    parts = {part: spec.get(part) for part in ("leaderWorkerTemplate", "networkConfig")}
    return json_fault(data, "data") or shape_fault({"spec": parts}, "data.", is_recorded=True)


def is_pod_template(value: Any) -> bool:
    """Return whether a value has the shape of a pod template."""
    return value is not None and not (
        json_fault(value, "template") or _SHAPES.fault("PodTemplateSpec", value, "template")
    )


def readable_status(status: Any) -> dict[str, Any]:
    """Return the status, with null for each of our fields that cannot be read, so that the next write removes
    it.
    """
    return _STATUS_SHAPES.readable(_STATUS, status)


def _value_faults(raw: Object, prefix: str) -> Iterator[str]:
    """Yield the reasons why values of the right type cannot be used: out of range or not in their enum."""
    for field in _LIMITED:
        if fault := field.out_of_range(raw, _MINIMUMS.get(field)):
            yield f"{prefix}{fault}"
    for field in _CHOICES:
        chosen = field.stored_in(raw)
        if chosen and chosen not in field.choices:
            yield f"{prefix}{field} is {chosen!a}, not one of {', '.join(field.choices)}"
    for field in _AMOUNTS:
        amount = field.stored_in(raw)
        try:
            quantities.scaled(0 if amount is None else amount, 1, round_up=False)
        except ValueError as error:
            yield f"{prefix}{field}: {error}"
