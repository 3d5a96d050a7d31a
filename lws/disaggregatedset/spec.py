"""Parse the spec of a DisaggregatedSet, with the defaults of the API.

The stored set may have any content, because another definition may have admitted it. Parsing gives either
frozen values or the fault of the spec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lws.kube.metadata import annotations_of, is_mapping, without
from lws.kube.names import LABEL_LENGTH
from lws.kube.shapes import Numbers, Shapes, json_fault
from lws.kube.typed import Table, types_of
from lws.leaderworkerset import fields
from lws.leaderworkerset.fields import Field
from lws.leaderworkerset.revisions.shape import number_faults as numbers_of_role
from lws.leaderworkerset.revisions.shape import shape_fault
from lws.leaderworkerset.spec import other_manager
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import (
    ADDED_METADATA_ANNOTATION,
    INITIAL_REPLICAS_ANNOTATION,
    OTHERS_INITIAL_REPLICAS_ANNOTATION,
    ROLE_NAME_PATTERN,
    DisaggregatedSet,
    DisaggregatedSetSpec,
    PlacementStrength,
    PlacementType,
    ScalingMode,
)
from lws_api.leaderworkerset.v1 import (
    GROUP_RESTART_COUNTS_ANNOTATION,
    GROUP_RESTARTS_COUNTED_FOR_ANNOTATION,
)

# The spec of a role has the shape of a LeaderWorkerSet's spec, which is checked separately.
_TYPES: Table = {
    **types_of(DisaggregatedSetSpec),
    "ObjectMeta": {"annotations": "{s}", "labels": "{s}"},
    "RoleSpec": {},
}
_REQUIRED = {"DisaggregatedSetSpec": ("roles",), "Role": ("name", "spec")}
_SHAPES = Shapes(_TYPES, _REQUIRED)
# An unknown field is a fault, because a later release may have stored a field that the set relies on.
_SPEC_SHAPES = Shapes(_TYPES, _REQUIRED, closed=_TYPES.keys() - {"ObjectMeta", "RoleSpec"})
_NUMBERS = Numbers(_TYPES)
_SPEC = Field((), model=DisaggregatedSet).child("spec")
_SLICES = _SPEC.child("slices")
_HISTORY_LIMIT = _SPEC.child("revisionHistoryLimit")
_LIMITED = (
    _SLICES,
    _HISTORY_LIMIT,
    _SPEC.child("progressDeadlineSeconds"),
    _SPEC.child("rolloutStrategy").child("maxUpdatingSlices"),
)
_ROLE_NAME = re.compile(ROLE_NAME_PATTERN)

RECORDS: Mapping[str, str] = {
    INITIAL_REPLICAS_ANNOTATION: "how a rollout began",
    OTHERS_INITIAL_REPLICAS_ANNOTATION: "how a rollout began",
    ADDED_METADATA_ANNOTATION: "what it has added to a LeaderWorkerSet",
    GROUP_RESTART_COUNTS_ANNOTATION: "the restarts of groups",
    GROUP_RESTARTS_COUNTED_FOR_ANNOTATION: "the restarts of groups",
}
"""Annotations of a LeaderWorkerSet in which only the controller records something, and what. They are never
taken from a role, and no role is rebuilt with them.
"""

NO_SUB_ROLES = "pools within a role are not supported by this release"
NO_MANAGER = "the LeaderWorkerSets of roles are run by the controller of their DisaggregatedSet"


@dataclass(frozen=True, slots=True)
class Role:
    """One role of a DisaggregatedSet.

    spec, metadata: the values that the user wrote, without `RECORDS`.
    rolling: `rollingUpdateConfiguration` with `maxSurge` and `maxUnavailable`; None if not set.
    start_after: the roles that must have a ready group before this role is first created.
    """

    name: str
    spec: Object
    metadata: Object = field(default_factory=dict)
    is_external: bool = False
    replicas: int = 1
    rolling: Object | None = None
    start_after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlicePlacement:
    """The placement of a slice's pods, which share the value of the node label `topology`."""

    type: PlacementType
    topology: str
    strength: PlacementStrength = PlacementStrength.REQUIRED


@dataclass(frozen=True, slots=True)
class DisaggregatedSpec:
    """The parsed spec of a DisaggregatedSet.

    max_updating_slices: the maximum number of slices in a rollout at the same time; None for no limit.
    progress_deadline: seconds without progress after which the set counts as stalled; None for never.
    """

    roles: tuple[Role, ...]
    slices: int = 1
    placement: SlicePlacement | None = None
    paused: bool = False
    max_updating_slices: int | None = None
    history_limit: int = _HISTORY_LIMIT.default
    progress_deadline: int | None = None

    def role(self, name: str) -> Role | None:
        return next((role for role in self.roles if role.name == name), None)


def parse(obj: Object) -> DisaggregatedSpec:
    """Parse the spec of a set that has no fault."""
    spec: Mapping[str, Any] = obj["spec"]
    strategy = spec.get("rolloutStrategy") or {}
    return DisaggregatedSpec(
        roles=tuple(_role(role) for role in spec["roles"]),
        slices=_SLICES.effective_in_part(spec),
        placement=placement_of(spec.get("placementPolicy")),
        paused=bool(strategy.get("paused")),
        max_updating_slices=strategy.get("maxUpdatingSlices"),
        history_limit=_HISTORY_LIMIT.effective_in_part(spec),
        progress_deadline=spec.get("progressDeadlineSeconds"),
    )


def placement_of(policy: Object | None) -> SlicePlacement | None:
    """Parse a `placementPolicy`; None if it has no effect."""
    values = policy or {}
    kind = PlacementType(values.get("type") or PlacementType.NONE)
    topology = values.get("topology") or ""
    if kind == PlacementType.NONE or not topology:
        return None
    return SlicePlacement(
        kind, topology, PlacementStrength(values.get("strength") or PlacementStrength.REQUIRED)
    )


def fault_of(obj: Any, *, is_recorded: bool = False) -> str:
    """Explain why the spec of a set cannot be read; empty if every decision can use it.

    is_recorded: whether it is the data of a ControllerRevision, from which roles can be created although it
      has fields that only a later release knows.
    """
    spec = (obj.get("spec") if is_mapping(obj) else None) or {}
    shapes = _SHAPES if is_recorded else _SPEC_SHAPES
    fault = json_fault(spec, "spec") or shapes.fault("DisaggregatedSetSpec", spec, "spec")
    return fault or next(_value_faults(spec, is_recorded), "")


def number_faults(spec: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield path, value and error of each number or quantity of a spec that typed clients cannot read."""
    yield from _NUMBERS.faults("DisaggregatedSetSpec", spec, "spec")
    for index, role in enumerate(spec.get("roles") or ()):
        yield from numbers_of_role(role.get("spec"), f"spec.roles[{index}].spec")


def _role(raw: Mapping[str, Any]) -> Role:
    spec = raw.get("spec") or {}
    mode = (raw.get("scaling") or {}).get("mode")
    return Role(
        name=raw["name"],
        spec=spec,
        metadata=_metadata_of(raw),
        is_external=mode == ScalingMode.EXTERNAL,
        replicas=fields.REPLICAS.effective_in_part(spec),
        rolling=(spec.get("rolloutStrategy") or {}).get("rollingUpdateConfiguration"),
        start_after=tuple(raw.get("startAfter") or ()),
    )


def _metadata_of(raw: Mapping[str, Any]) -> Object:
    metadata, annotations = raw.get("metadata") or {}, annotations_of(raw)
    if RECORDS.keys().isdisjoint(annotations):
        return metadata
    return {**metadata, "annotations": without(annotations, RECORDS)}


def _value_faults(spec: Mapping[str, Any], is_recorded: bool) -> Iterator[str]:
    if not spec["roles"]:
        yield "spec.roles is empty"
    names = [role["name"] for role in spec["roles"]]
    for index, role in enumerate(spec["roles"]):
        path = f"spec.roles[{index}]"
        name = role["name"]
        if len(name) > LABEL_LENGTH or not _ROLE_NAME.fullmatch(name):
            yield f"{path}.name is {name[:LABEL_LENGTH]!a}, not a name"
        if names.index(name) != index:
            yield f"{path}.name is {name!a}, as that of another role"
        if role.get("subRoles"):
            yield f"{path}.subRoles is set: {NO_SUB_ROLES}"
        if other_manager(role):
            yield f"{path}.{fields.MANAGED_BY} is set: {NO_MANAGER}"
        yield from _choice_faults(
            (role.get("scaling") or {}).get("mode"), ScalingMode, f"{path}.scaling.mode"
        )
        if fault := shape_fault(role, f"{path}.", is_recorded=is_recorded):
            yield fault
    policy = spec.get("placementPolicy") or {}
    yield from _choice_faults(policy.get("type"), PlacementType, "spec.placementPolicy.type")
    yield from _choice_faults(policy.get("strength"), PlacementStrength, "spec.placementPolicy.strength")
    yield from filter(None, (field.out_of_range({"spec": spec}) for field in _LIMITED))


def _choice_faults(chosen: Any, choice: type[StrEnum], path: str) -> Iterator[str]:
    if chosen and chosen not in list(choice):
        yield f"{path} is {chosen!a}, not one of {', '.join(choice)}"
