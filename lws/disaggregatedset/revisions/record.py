"""Encode, compare, store and parse the revisions of a DisaggregatedSet, and prove their data.

The data of a ControllerRevision never changes once it is recorded; only its number may be raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from lws.disaggregatedset.names import key_of
from lws.disaggregatedset.spec import DisaggregatedSpec, fault_of, parse
from lws.history import revision as history
from lws.history.revision import Draft, Format, Revision, build, checksum, fingerprint_in
from lws.kube.metadata import name_of
from lws.leaderworkerset.revisions.encoding import equality_form, serialised
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL

_OF_A_ROLE = ("name", "scaling", "startAfter", "metadata", "spec")
_FINGERPRINT = "[0-9a-f]{8}"


@dataclass(frozen=True, eq=False)
class RolesRecord:
    """A target state: what children are made from.

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


NOTHING = RolesRecord(())
"""What a revision holds that cannot be read."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RecordedRoles(Revision):
    """One ControllerRevision, decoded.

    generation: that of the set for which a history was made of what ran; None where it was recorded before
    anything ran.
    """

    record: RolesRecord
    generation: int | None = None

    @property
    def roles(self) -> Mapping[str, Object]:
        return self.record.roles


def record(obj: Object) -> RolesRecord:
    """What a set without a fault asks for now."""
    spec = obj["spec"]
    return RolesRecord(tuple(part_of(role) for role in spec["roles"]), spec.get("placementPolicy"))


def part_of(role: Object) -> dict[str, Any]:
    """A role as it is recorded: how many groups it has starts no rollout."""
    part = {name: role[name] for name in _OF_A_ROLE if role.get(name) is not None}
    return {**part, "spec": {name: value for name, value in role["spec"].items() if name != "replicas"}}


def read(revision: Object) -> RecordedRoles:
    """The decoded revision. One that cannot be used says why in `broken`; stored objects never raise."""
    fields, proof = history.read(FORMAT, revision), proof_of(revision)
    return RecordedRoles(
        **fields,
        key=key_in(name_of(revision)),
        record=NOTHING if fields["broken"] else _recorded(revision["data"]["spec"]),
        generation=proof.generation if proof is not None else None,
    )


def is_ours(revision: Object, owner: Object) -> bool:
    """True if the set controls the revision or may adopt it (ControllerRef rules)."""
    return history.is_ours(FORMAT, revision, owner)


def build_revision(
    owner: Object, record: RolesRecord, key: str, number: int, generation: int | None = None
) -> dict[str, Any]:
    """The complete ControllerRevision. generation: that of the set, if it records what runs."""
    return build(FORMAT, owner, Draft(record, key, key, generation), number)


def key_in(name: str) -> str:
    """The key of the revision of this name, which nobody can edit; empty if it has another form."""
    return fingerprint_in(_FINGERPRINT, name)


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


@dataclass(frozen=True, slots=True)
class Proof:
    """What is noted beside the sum. generation: that of the set for which a history was made of what ran."""

    generation: int | None = None


def proving(name: str, text: str, proof: Proof) -> dict[str, str]:
    """The annotation that a new revision gets. text: its data."""
    noted = {"sum": _sum(name, text, proof)}
    if proof.generation is not None:
        noted |= {"generation": str(proof.generation)}
    return {PROOF_ANNOTATION: serialised(noted)}


def proof_of(revision: Object) -> Proof | None:
    """The proof of a revision that has its data; None if it has none that holds."""
    noted = checksum(revision, PROOF_ANNOTATION)
    if "sum" not in noted:
        return None
    try:
        generation = noted.get("generation")
        proof = Proof(None if generation is None else int(generation))
        is_whole = noted["sum"] == _sum(name_of(revision), serialised(revision.get("data")), proof)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return proof if is_whole else None


def is_proven(revision: Object, key: str, roles: Mapping[str, Object]) -> bool:
    """Whether the sum or the key says that these roles were recorded under the name of the revision."""
    if proof_of(revision) is not None:
        return True
    return any(key_of(roles, probe) == key for probe in range(_PROBES_TRIED))


def _sum(name: str, text: str, proof: Proof) -> str:
    noted = f"{name}\n{proof.generation}\n{text}"
    return sha256(noted.encode()).hexdigest()[:_SUM_LENGTH]


def _annotations(owner: Object, name: str, draft: Draft[RolesRecord]) -> dict[str, str]:
    return proving(name, draft.record.text, Proof(draft.generation))


FORMAT = Format(
    NAME_LABEL,
    REVISION_LABEL,
    _FINGERPRINT,
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
