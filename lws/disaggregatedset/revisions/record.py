"""Encode, compare, describe, store and parse the revisions of a DisaggregatedSet, and prove their data.

The data of a ControllerRevision never changes once it is recorded; only its number may be raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, TypeAlias

from lws.disaggregatedset.names import key_of
from lws.disaggregatedset.spec import DisaggregatedSpec, fault_of, parse
from lws.history import revision as history
from lws.history.revision import Format, Revision, build, checksum, draft
from lws.kube.metadata import name_of
from lws.leaderworkerset.revisions import history as set_history
from lws.leaderworkerset.revisions.encoding import equality_form, serialised
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL

_OF_A_ROLE = ("name", "scaling", "startAfter", "metadata", "spec")


@dataclass(frozen=True, eq=False)
class RolesRecord:
    """A recorded target state, from which children are created.

    parts: the roles in their order, as the user spelled them, without numbers of groups. placement: the
    placement policy; None where there is none.
    """

    parts: tuple[Object, ...]
    placement: Object | None = None

    @cached_property
    def roles(self) -> Mapping[str, Object]:
        """The spec of the LeaderWorkerSets of each role, in the order of the roles."""
        return {part["name"]: part["spec"] for part in self.parts}

    @cached_property
    def metadata(self) -> Mapping[str, Object]:
        """The metadata of the LeaderWorkerSets of each role."""
        return {part["name"]: part.get("metadata") or {} for part in self.parts}

    @cached_property
    def forms(self) -> Mapping[str, str]:
        """Equal to the forms of whatever means the same."""
        return roles_form(self.roles)

    @cached_property
    def spec(self) -> DisaggregatedSpec:
        """The same, parsed; numbers of groups are not recorded."""
        return parse({"spec": {"roles": self.parts, "placementPolicy": self.placement}})

    @cached_property
    def text(self) -> str:
        """The `data` that would be recorded, to the byte."""
        spec: dict[str, Any] = {"roles": list(self.parts)}
        if self.placement is not None:
            spec["placementPolicy"] = self.placement
        return serialised({"spec": spec})

    def key_at(self, probe: int) -> str:
        """The key after that many collisions."""
        return key_of(self.roles, probe)


NOTHING = RolesRecord(())
"""What a revision holds that cannot be read."""


RecordedRoles: TypeAlias = Revision[RolesRecord]


def record(obj: Object) -> RolesRecord:
    """The target state of a valid set."""
    spec = obj["spec"]
    return RolesRecord(tuple(part_of(role) for role in spec["roles"]), spec.get("placementPolicy"))


def part_of(role: Object) -> dict[str, Any]:
    """A role as it is recorded: how many groups it has starts no rollout."""
    part = {name: role[name] for name in _OF_A_ROLE if role.get(name) is not None}
    return {**part, "spec": {name: value for name, value in role["spec"].items() if name != "replicas"}}


def read(revision: Object) -> RecordedRoles:
    """The decoded revision. One that cannot be used says why in `broken`; stored objects never raise."""
    broken, noted = _fault(revision), _proof(revision)
    decoded = NOTHING if broken else _recorded(revision["data"]["spec"])
    generation = _generation(noted) if noted else None
    return history.read(FORMAT, revision, broken, key_in(name_of(revision)), decoded, generation=generation)


def is_ours(revision: Object, owner: Object) -> bool:
    """True if the set controls the revision or may adopt it (ControllerRef rules)."""
    return history.is_ours(FORMAT, revision, owner)


def build_revision(
    owner: Object, record: RolesRecord, key: str, number: int, generation: int | None = None
) -> dict[str, Any]:
    """Build the complete ControllerRevision. generation: of the set, if it records running children."""
    return build(FORMAT, owner, draft(owner, key, number, record, key, generation))


def key_in(name: str) -> str:
    """The key in the name of a revision, which cannot be edited; empty if the name has another form."""
    return FORMAT.fingerprint_in(name)


def _recorded(spec: Object) -> RolesRecord:
    return RolesRecord(tuple(spec["roles"]), spec.get("placementPolicy"))


def _fault(revision: Object) -> str:
    about, key = f"ControllerRevision {name_of(revision)}", key_in(name_of(revision))
    if not key:
        return f"{about} has a name that holds no key"
    # The data have the shape of a set.
    if fault := fault_of(revision.get("data")):
        return f"{about}: data.{fault}: no role can be rebuilt from it"
    if not is_proven(revision, key, _recorded(revision["data"]["spec"]).roles):
        return f"{about} holds other data than its name says: it was replaced, and no role is rebuilt from it"
    return ""


PROOF_ANNOTATION = "disaggregatedset.x-k8s.io/revision-record"
"""A sum over name and data. Keys prove data too, but not those of what ran before there was a history."""

_SUM_LENGTH = 16

_PROBES_TRIED = 64
"""Keys that the roles may have had to give up to collisions."""


def is_proven(revision: Object, key: str, roles: Mapping[str, Object]) -> bool:
    """Whether the sum or the key says that these roles were recorded under the name of the revision."""
    return bool(_proof(revision)) or any(key_of(roles, probe) == key for probe in range(_PROBES_TRIED))


def _proof(revision: Object) -> Object:
    """The checksum annotation of a revision; empty if it does not match name and data."""
    noted = checksum(revision, PROOF_ANNOTATION)
    if "sum" not in noted:
        return {}
    try:
        expected = _sum(name_of(revision), serialised(revision.get("data")), _generation(noted))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return {}
    return noted if noted["sum"] == expected else {}


def _generation(noted: Object) -> int | None:
    """The generation of the set when its running children were recorded."""
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
    _fault,
    made="LeaderWorkerSets",
    blocks_deletion=False,
)


def roles_form(roles: Mapping[str, Object]) -> dict[str, str]:
    """The form of each role."""
    return {name: role_form(spec) for name, spec in roles.items()}


def role_form(spec: Object) -> str:
    """Equal for two specs if and only if the API server would store equal templates for both."""
    return equality_form({"leaderWorkerTemplate": spec.get("leaderWorkerTemplate")})


def describe(old: RolesRecord, new: RolesRecord) -> list[str]:
    """The changes, one per line: `role decode worker template container main image: a:1 → a:2`.

    Role by role, in the order of the newer state; only what a pod depends on, not the order of roles.
    """
    lines = [f"role {name} removed" for name in old.roles if name not in new.roles]
    for name, spec in new.roles.items():
        if name not in old.roles:
            lines.append(f"role {name} added")
        elif old.forms[name] != new.forms[name]:
            changes = set_history.describe(_template(old.roles[name]), _template(spec))
            lines += [f"role {name} {line}" for line in changes]
    return lines


def _template(spec: Object) -> set_history.Record:
    return set_history.Record({"leaderWorkerTemplate": spec.get("leaderWorkerTemplate")}, {})
