"""Encode, compare, describe, store, parse and verify the revisions of a DisaggregatedSet.

The data of a ControllerRevision is immutable; only its number may be raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, TypeAlias

from lws.disaggregatedset.names import hash_identity, key_of
from lws.disaggregatedset.revisions.shown import stripped, without_restarts
from lws.disaggregatedset.spec import DisaggregatedSpec, fault_of, parse
from lws.history import revision as history
from lws.history.revision import Format, Revision, checksum
from lws.kube.metadata import name_of
from lws.leaderworkerset import fields
from lws.leaderworkerset.revisions import history as set_history
from lws.leaderworkerset.revisions.encoding import LIVE, equality_form, serialised
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL, ScalingMode

_OF_A_ROLE = ("name", "scaling", "startAfter", "metadata", "spec")
_NOT_RECORDED = (fields.REPLICAS.name, fields.GROUP_REPLACEMENT_POLICY.name)


@dataclass(frozen=True, eq=False)
class RolesRecord:
    """A recorded target state, from which children are created.

    parts: the roles in order, as the user spelled them, without numbers of groups.
    """

    parts: tuple[Object, ...]
    placement: Object | None = None

    @cached_property
    def roles(self) -> Mapping[str, Object]:
        return {part["name"]: part["spec"] for part in self.parts}

    @cached_property
    def forms(self) -> Mapping[str, str]:
        """The forms of the roles, which are equal for equivalent specs."""
        return {name: role_form(spec) for name, spec in self.roles.items()}

    @cached_property
    def template_hashes(self) -> Mapping[str, str]:
        """The hashes of the roles, which their children have until somebody edits them."""
        return {name: template_hash(spec) for name, spec in self.roles.items()}

    @cached_property
    def spec(self) -> DisaggregatedSpec:
        """The parsed record, without numbers of groups."""
        return parse({"spec": {"roles": self.parts, "placementPolicy": self.placement}})

    @cached_property
    def text(self) -> str:
        """The `data` of the ControllerRevision, byte for byte."""
        spec: dict[str, Any] = {"roles": list(self.parts)}
        if self.placement is not None:
            spec["placementPolicy"] = self.placement
        return serialised({"spec": spec})

    def key_at(self, probe: int) -> str:
        """Compute the key that the record gets after this number of collisions."""
        return key_of(self.roles, probe)


NOTHING = RolesRecord(())
"""The record of an unreadable revision."""


RecordedRoles: TypeAlias = Revision[RolesRecord]


def record(obj: Object) -> RolesRecord:
    """Return the target state of a valid set."""
    spec = obj["spec"]
    return RolesRecord(tuple(part_of(role) for role in spec["roles"]), spec.get("placementPolicy"))


def part_of(role: Object) -> dict[str, Any]:
    """Return a role as recorded, without number of groups and replacement policy, which start no rollout."""
    part = {name: role[name] for name in _OF_A_ROLE if role.get(name) is not None}
    spec = {name: value for name, value in role["spec"].items() if name not in _NOT_RECORDED}
    if not hash_identity(spec):
        # The default is left out, because roles that were recorded before this field existed lack it.
        spec.pop(fields.GROUP_IDENTITY.name, None)
    return {**part, "spec": spec}


def read(revision: Object) -> RecordedRoles:
    """Decode a revision; never raise an error. `broken` says why it cannot be used."""
    broken, noted = _fault(revision), _proof(revision)
    decoded = NOTHING if broken else _recorded(revision["data"]["spec"])
    generation = _generation(noted) if noted else None
    key = FORMAT.fingerprint_in(name_of(revision))
    return history.read(FORMAT, revision, broken, key, decoded, generation=generation)


def is_ours(revision: Object, owner: Object) -> bool:
    """Return whether the set controls the revision or may adopt it (ControllerRef rules)."""
    return history.is_ours(FORMAT, revision, owner, _fault)


def _recorded(spec: Object) -> RolesRecord:
    return RolesRecord(tuple(spec["roles"]), spec.get("placementPolicy"))


def _fault(revision: Object) -> str:
    name = name_of(revision)
    about, key = f"ControllerRevision {name}", FORMAT.fingerprint_in(name)
    if not key:
        return f"{about} has a name that holds no key"
    # The data has the shape of a DisaggregatedSet.
    if fault := fault_of(revision.get("data"), is_recorded=True):
        return f"{about}: data.{fault}: no role can be rebuilt from it"
    roles = _recorded(revision["data"]["spec"]).roles
    if not _proof(revision) and all(key_of(roles, probe) != key for probe in range(_PROBES_TRIED)):
        return (
            f"{about} contains other data than its name says: it was replaced, and no role is rebuilt from it"
        )
    return ""


PROOF_ANNOTATION = "disaggregatedset.x-k8s.io/revision-record"
"""The annotation with a checksum of name and data, as keys cannot verify reconstructed revisions."""

_SUM_LENGTH = 16

_PROBES_TRIED = 64
"""The maximum number of collisions to try."""


def _proof(revision: Object) -> Object:
    """Return the content of the checksum annotation; empty if it does not match name and data."""
    noted = checksum(revision, PROOF_ANNOTATION)
    if "sum" not in noted:
        return {}
    try:
        expected = _sum(name_of(revision), serialised(revision.get("data")), _generation(noted))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return {}
    return noted if noted["sum"] == expected else {}


def _generation(noted: Object) -> int | None:
    """Return the set's generation when its running children were recorded; None if they were not."""
    generation = noted.get("generation")
    return None if generation is None else int(generation)


def _sum(name: str, text: str, generation: int | None) -> str:
    return sha256(f"{name}\n{generation}\n{text}".encode()).hexdigest()[:_SUM_LENGTH]


def _annotations(draft: RecordedRoles) -> dict[str, str]:
    noted = {"sum": _sum(draft.name, draft.record.text, draft.generation)}
    if draft.generation is not None:
        noted["generation"] = str(draft.generation)
    return {PROOF_ANNOTATION: serialised(noted)}


FORMAT = Format(
    NAME_LABEL,
    REVISION_LABEL,
    "[0-9a-f]{8}",
    _annotations,
    children="LeaderWorkerSets",
    blocks_deletion=False,
)


def role_form(spec: Object) -> str:
    """Return a text that is equal for two specs if and only if the API server would store equal templates for
    both and their groups are named in the same way.
    """
    return equality_form({"leaderWorkerTemplate": spec.get("leaderWorkerTemplate")}) + hash_identity(spec)


def template_hash(spec: Object) -> str:
    """Return a hash that is equal for a role and for a child that was created from it, even if a user has
    restarted the pods of the child since.
    """
    return sha256(role_form(without_restarts(stripped(spec))).encode()).hexdigest()


def describe(old: RolesRecord, new: RolesRecord) -> list[str]:
    """Describe the changes, one per line: `role decode worker template container main image: a:1 → a:2`.

    Removed roles come first, then the other roles in their new order. Only fields that affect pods count; the
    order of roles does not.
    """
    lines = [f"role {name} removed" for name in old.roles if name not in new.roles]
    for name, spec in new.roles.items():
        if name not in old.roles:
            lines.append(f"role {name} added")
        elif old.forms[name] != new.forms[name]:
            changes = set_history.describe(_template(old.roles[name]), _template(spec))
            lines += [f"role {name} {line}" for line in (*_identity_change(old.roles[name], spec), *changes)]
    return lines


def _identity_change(old: Object, new: Object) -> list[str]:
    before, after = (hash_identity(spec) or fields.GROUP_IDENTITY.stored_default for spec in (old, new))
    return [f"{fields.GROUP_IDENTITY.name} {before} → {after}"] if before != after else []


def _template(spec: Object) -> set_history.Record:
    return set_history.Record({"leaderWorkerTemplate": spec.get("leaderWorkerTemplate")}, {})


# --- Build the JSON Patch that rolls a DisaggregatedSet back to a recorded revision.


def undo_operations(obj: Object, desired: RolesRecord, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Build the JSON Patch (RFC 6902), which fails if the set changes in between.

    Roles that still exist only get their recorded templates. Removed roles are restored as recorded, with the
    numbers of groups in `counts`.
    """
    version = obj["metadata"]["resourceVersion"]
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    roles = obj["spec"]["roles"]
    if [role["name"] for role in roles] == list(desired.roles):
        return [test, *_undone_templates(obj, desired)]
    return [
        test,
        {"op": "replace", "path": "/spec/roles", "value": list(_undone_roles(roles, desired, counts))},
    ]


def _undone_templates(obj: Object, desired: RolesRecord) -> Iterator[dict[str, Any]]:
    now = record(obj).forms
    for index, role in enumerate(obj["spec"]["roles"]):
        name = role["name"]
        if now[name] != desired.forms[name]:
            path = f"/spec/roles/{index}/spec/{fields.LEADER_WORKER_TEMPLATE.name}"
            yield {"op": "replace", "path": path, "value": _undone_template(role, desired.roles[name])}
            for field, value in _undone_identity(role["spec"], desired.roles[name]).items():
                yield {"op": "add", "path": f"/spec/roles/{index}/spec/{field}", "value": value}


def _undone_roles(
    roles: Iterable[Object], desired: RolesRecord, counts: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """Yield the roles in the recorded order, so that upstream computes the same key."""
    live = {role["name"]: role for role in roles}
    for part in desired.parts:
        name = part["name"]
        if name in live:
            spec = {
                **live[name]["spec"],
                fields.LEADER_WORKER_TEMPLATE.name: _undone_template(live[name], part["spec"]),
                **_undone_identity(live[name]["spec"], part["spec"]),
            }
            role = {**live[name], "spec": spec}
        else:
            role = _returned(part, live.values(), counts)
        if role.get("startAfter"):
            role["startAfter"] = [role_name for role_name in role["startAfter"] if role_name in desired.roles]
        yield role


def _undone_template(role: Object, recorded: Object) -> dict[str, Any]:
    """Return the recorded template with the current values of fields that take effect at once."""
    now = role["spec"][fields.LEADER_WORKER_TEMPLATE.name]
    template = {
        field: value
        for field, value in recorded[fields.LEADER_WORKER_TEMPLATE.name].items()
        if field not in LIVE
    }
    return {**template, **{field: now[field] for field in LIVE if field in now}}


def _undone_identity(now: Object, recorded: Object) -> dict[str, str]:
    if hash_identity(now) == hash_identity(recorded):
        return {}
    return {fields.GROUP_IDENTITY.name: hash_identity(recorded) or fields.GROUP_IDENTITY.stored_default}


def _returned(part: Object, live: Iterable[Object], counts: Mapping[str, int]) -> dict[str, Any]:
    """Return a removed role with a number of groups. Apart from roles with external scaling, the API server
    requires that all roles are at 0 or none is.
    """
    if _is_external(part):
        return dict(part)
    static = [role["spec"].get("replicas") for role in live if not _is_external(role)]
    is_at_rest = bool(static) and all(count == 0 for count in static)
    count = 0 if is_at_rest else max(counts.get(part["name"], 1), 1)
    return {**part, "spec": {"replicas": count, **part["spec"]}}


def _is_external(role: Object) -> bool:
    return bool((role.get("scaling") or {}).get("mode") == ScalingMode.EXTERNAL)
