"""Encode, compare, store and parse the revisions of a DisaggregatedSet.

The data of a ControllerRevision never changes once it is recorded; only its number may be raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

from lws.disaggregatedset.key import key_of
from lws.disaggregatedset.spec import DisaggregatedSpec, fault_of, parse
from lws.history import revision_name, stem_of, storable
from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_mapping,
    is_terminating,
    labels_of,
    metadata_of,
    owner_reference,
)
from lws.leaderworkerset.revisions.encoding import equality_form, serialised
from lws.leaderworkerset.revisions.history import CHANGE_CAUSE_ANNOTATION
from lws.runtime.actions import Object, Reference, Verbatim
from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL

_OF_A_ROLE = ("name", "scaling", "startAfter", "metadata", "spec")
_NAME = re.compile(r"(?s).+-([0-9a-f]{8})-[0-9]+")


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
        return {each["name"]: each["spec"] for each in self.parts}

    @cached_property
    def metadata(self) -> Mapping[str, Object]:
        """The metadata of the LeaderWorkerSets of each role."""
        return {each["name"]: each.get("metadata") or {} for each in self.parts}

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


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRoles:
    """One ControllerRevision, decoded.

    reference: with UID and resource version. number: its place in the history, the highest is the newest.
    key: what its children carry as their label. created: creation time, RFC 3339.
    generation: that of the set for which a history was made of what ran; None where it was recorded before
    anything ran. labels: those that streams and users find it by. broken: why it can be used for nothing, in
    words; empty when it can.
    """

    reference: Reference
    number: int
    key: str
    created: str
    is_orphan: bool
    is_leaving: bool
    record: RolesRecord
    generation: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    broken: str = ""

    @property
    def name(self) -> str:
        return self.reference.name

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
    metadata, data, number = metadata_of(revision), revision.get("data"), revision.get("revision")
    proof, broken = proof_of(revision), _broken(revision)
    labels = {key: value for key in (NAME_LABEL, REVISION_LABEL) if (value := labels_of(revision).get(key))}
    return RecordedRoles(
        reference=Reference.to(revision),
        number=number if type(number) is int else 0,
        key=key_in(metadata["name"]),
        created=str(metadata.get("creationTimestamp") or ""),
        is_orphan=controller_of(revision) is None,
        is_leaving=is_terminating(revision),
        record=NOTHING if broken or not is_mapping(data) else _recorded(data["spec"]),
        generation=proof.generation if proof is not None else None,
        labels=labels,
        broken=broken,
    )


def is_ours(revision: Object, owner: Object) -> bool:
    """True if the set controls the revision or may adopt it (ControllerRef rules).

    An orphan must bear the name that the set would have given to its data.
    """
    if controller_of(revision) is not None:
        return is_controlled_by(revision, owner["metadata"]["uid"])
    name: str = revision["metadata"]["name"]
    is_named = re.fullmatch(rf"{re.escape(stem_of(owner))}-[0-9a-f]{{8}}-[0-9]+", name) is not None
    return is_named and not is_terminating(revision) and not _broken(revision)


def build_revision(
    owner: Object, made: RolesRecord, key: str, number: int, generation: int | None = None
) -> dict[str, Any]:
    """The complete ControllerRevision. generation: that of the set, where this is the history of what ran."""
    name = revision_name(owner, key, number)
    annotations = proving(name, made.text, Proof(generation))
    cause = annotations_of(owner).get(CHANGE_CAUSE_ANNOTATION)
    if generation is None and cause:
        annotations[CHANGE_CAUSE_ANNOTATION] = cause
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": labels_for(owner, key),
            "annotations": annotations,
            "ownerReferences": [owner_reference(owner, blocks_deletion=False)],
        },
        "revision": storable(number),
        "data": Verbatim(made.text),
    }


def labels_for(owner: Object, key: str) -> dict[str, str]:
    """The labels of a revision of this key."""
    return {NAME_LABEL: owner["metadata"]["name"], REVISION_LABEL: key}


def key_in(name: str) -> str:
    """The key of the revision of this name, which nobody can edit; empty where it has another form."""
    match = _NAME.fullmatch(name)
    return match[1] if match is not None else ""


def _recorded(spec: Object) -> RolesRecord:
    return RolesRecord(tuple(spec["roles"]), spec.get("placementPolicy"))


def _broken(revision: Object) -> str:
    name, data = revision["metadata"]["name"], revision.get("data")
    told, key = f"ControllerRevision {name}", key_in(name)
    if not key:
        return f"{told} has a name that holds no key"
    # The data have the shape of a set.
    if fault := fault_of(data):
        return f"{told}: data.{fault}: no role can be rebuilt from it"
    assert is_mapping(data)
    if not is_proven(revision, key, _recorded(data["spec"]).roles):
        return f"{told} holds other data than its name says: it was replaced, and no role is rebuilt from it"
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
    """The proof of a revision that has its data; None where it has none that holds."""
    try:
        noted = json.loads(annotations_of(revision).get(PROOF_ANNOTATION, ""))
        generation = noted.get("generation") if is_mapping(noted) else None
        proof = Proof(None if generation is None else int(generation))
        text = serialised(revision.get("data"))
        is_whole = is_mapping(noted) and noted.get("sum") == _sum(revision["metadata"]["name"], text, proof)
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


def roles_form(roles: Mapping[str, Object]) -> dict[str, str]:
    """The form of each role."""
    return {name: role_form(spec) for name, spec in roles.items()}


def role_form(spec: Object) -> str:
    """Equal for two specs if and only if the API server would store equal templates for both."""
    return equality_form({"leaderWorkerTemplate": spec.get("leaderWorkerTemplate")})
