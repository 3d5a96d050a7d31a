"""Read the facts that validation rules need from a DisaggregatedSet.

Missing and null fields get the defaults of the API. A CRD of another version may have admitted values of any
type: `shape_errors` reports these, and the rules run only if there are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from lws.disaggregatedset.names import Identity, child_name
from lws.kube.field_errors import Complaint, FieldError, invalid, rendered, too_many
from lws.kube.metadata import is_mapping, metadata_of
from lws.kube.shapes import ListLimits
from lws.kube.typed import Table, most_items_of, types_of
from lws.leaderworkerset.admission.templates import INTEGER, Shape, wrong_shapes
from lws.leaderworkerset.admission.templates import shape_errors as set_shape_errors
from lws.leaderworkerset.fields import value_at
from lws.leaderworkerset.spec import SetSpec
from lws_api.disaggregatedset.v1 import DisaggregatedSetSpec, PlacementStrength, PlacementType, ScalingMode

_ANY_KEY = "0" * 8
_ROLE = re.compile(r"spec\.roles\[([0-9]{1,3})\]")


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """One role: its field path, the role as the user wrote it, and the spec of its LeaderWorkerSets."""

    path: str
    name: str
    raw: Mapping[str, Any]
    is_external: bool
    start_after: tuple[str, ...]
    spec: SetSpec

    @property
    def surge(self) -> int:
        """The maximum number of groups above `replicas` during a rollout."""
        return max(self.spec.surge_groups or 0, 0)

    @property
    def replicas(self) -> int:
        return max(self.spec.replicas, 0)

    @property
    def size(self) -> int:
        return max(self.spec.size, 1)

    def at(self, *path: str) -> Any:
        """Return the value at a path below the role; None if there is none."""
        return value_at(self.raw, path)


@dataclass(frozen=True, slots=True)
class PlacementValues:
    """The placement policy; `topology` is a node label, empty if none is set."""

    type: str
    topology: str
    is_required: bool

    @property
    def is_none(self) -> bool:
        return self.type in ("", PlacementType.NONE)


@dataclass(frozen=True, slots=True)
class SetFacts:
    """The facts of one DisaggregatedSet, with its roles in the order of the spec."""

    name: str
    slices: int
    roles: tuple[RoleFacts, ...]
    placement: PlacementValues

    def longest_child_name(self, role: str) -> str:
        """Return the longest name that a LeaderWorkerSet of the role can have."""
        return child_name(self.name, Identity(max(self.slices, 1) - 1, _ANY_KEY, role))

    def role(self, name: str) -> RoleFacts | None:
        return next((role for role in self.roles if role.name == name), None)

    def by_names(self, text: str) -> str:
        """Replace indices of roles in a path or warning by names: indices depend on the order of roles."""

        def named(match: re.Match[str]) -> str:
            index = int(match[1])
            return f"spec.roles[{self.roles[index].name}]" if index < len(self.roles) else match[0]

        return _ROLE.sub(named, text)


def identity_of(error: FieldError, facts: SetFacts) -> tuple[str, ...]:
    """Return a value that identifies an error across versions of the set, whatever the order of roles."""
    # The detail of NOT_SUPPORTED is left out, because it lists the names of other roles, which may change.
    detail = "" if error.complaint is Complaint.NOT_SUPPORTED else error.detail
    return error.complaint, facts.by_names(error.path), detail, rendered(error.value)


def facts_of(raw: Mapping[str, Any]) -> SetFacts:
    """Read the facts of a set that has no `shape_errors`."""
    name = metadata_of(raw).get("name")
    policy = value_at(raw, ("spec", "placementPolicy")) or {}
    slices, roles = (value_at(raw, ("spec", field)) for field in ("slices", "roles"))
    return SetFacts(
        name=name if isinstance(name, str) else "",
        slices=1 if slices is None else slices,
        roles=tuple(_role(f"spec.roles[{index}]", role) for index, role in enumerate(roles or ())),
        placement=PlacementValues(
            type=policy.get("type") or "",
            topology=policy.get("topology") or "",
            is_required=policy.get("strength") != PlacementStrength.PREFERRED,
        ),
    )


def shape_errors(raw: Mapping[str, Any]) -> list[FieldError]:
    """Return an error for each list with too many items, or else for each value of the wrong type. The CRD's
    schema normally rejects it already.
    """
    if too_long := [
        too_many(*fault) for fault in _LIST_LIMITS.faults("DisaggregatedSetSpec", raw.get("spec"), "spec")
    ]:
        return too_long
    roles = value_at(raw, ("spec", "roles"))
    errors = [*_wrong("Object", raw.get("metadata"), "metadata"), *_wrong("Spec", raw.get("spec"), "spec")]
    if roles is not None and not isinstance(roles, list):
        return [*errors, invalid("spec.roles", roles, "must be a list")]
    for index, role in enumerate(roles or ()):
        path = f"spec.roles[{index}]"
        if not is_mapping(role):
            errors.append(invalid(path, role, "must be an object"))
            continue
        errors += _wrong("Role", role, path)
        if not isinstance(role.get("name"), str):
            errors.append(invalid(f"{path}.name", role.get("name"), "must be a string"))
        errors += [
            FieldError(error.complaint, f"{path}.{error.path}", error.detail, error.value)
            for error in set_shape_errors({"spec": role.get("spec")})
        ]
    return errors


_LIST_LIMITS = ListLimits(types_of(DisaggregatedSetSpec), most_items_of(DisaggregatedSetSpec))


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


# As in `lws.kube.typed`. The rules read no other fields.
_TYPES: Table = {
    "Spec": {"slices": "i", "placementPolicy": "PlacementPolicy"},
    "PlacementPolicy": {"type": "s", "topology": "s", "strength": "s"},
    "Role": {"scaling": "Scaling", "metadata": "RoleMetadata", "spec": "Object", "startAfter": "[s]"},
    "Scaling": {"mode": "s"},
    "RoleMetadata": {"labels": "{s}", "annotations": "{s}"},
    "Object": {},
}
_SHAPES: Mapping[str, Shape] = {
    "i": INTEGER,
    "s": (lambda value: isinstance(value, str), "must be a string"),
    "[s]": (lambda value: isinstance(value, list) and _are_texts(value), "must be a list of strings"),
    "{s}": (
        lambda value: is_mapping(value) and _are_texts(value.values()),
        "must be an object whose values are strings",
    ),
}
_wrong = partial(wrong_shapes, _TYPES, _SHAPES)


def _role(path: str, raw: Mapping[str, Any]) -> RoleFacts:
    return RoleFacts(
        path=path,
        name=raw["name"],
        raw=raw,
        is_external=value_at(raw, ("scaling", "mode")) == ScalingMode.EXTERNAL,
        start_after=tuple(raw.get("startAfter") or ()),
        spec=SetSpec.of({"spec": raw.get("spec")}),
    )
