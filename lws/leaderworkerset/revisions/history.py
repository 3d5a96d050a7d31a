"""Parse, build, recognise, restore and compare the ControllerRevisions of a set.

The data of a ControllerRevision never changes once it is recorded; only its number may be raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lws import history
from lws.history import collisions_below, newest, revision_name, stem_of, storable
from lws.kube.differences.comparison import explain
from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
    owner_reference,
)
from lws.leaderworkerset.revisions import seal
from lws.leaderworkerset.revisions.encoding import (
    canonical_text,
    equality_form,
    equality_tree,
    key_of,
    without_marker,
)
from lws.leaderworkerset.revisions.shape import recorded_fault
from lws.leaderworkerset.spec import (
    PLACEMENT_ANNOTATIONS,
    SetSpec,
    placement_annotations,
    placement_given,
)
from lws.runtime.actions import Object, Reference, Verbatim
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
)

_PARTS = ("leaderWorkerTemplate", "networkConfig")

CHANGE_CAUSE_ANNOTATION = "kubernetes.io/change-cause"
"""What users and tools say of a change."""


@dataclass(frozen=True, eq=False)
class Record:
    """What a set asks for now, in the terms of its history.

    spec: `leaderWorkerTemplate` and `networkConfig`, as the user spelled them.
    topology: annotations that say where groups run; they change pods as the spec does.
    """

    spec: Object
    topology: Mapping[str, str]

    @cached_property
    def text(self) -> str:
        """The `data` that would be recorded, to the byte."""
        return canonical_text(self.spec)

    @cached_property
    def form(self) -> str:
        """Equal to the form of whatever means the same."""
        return equality_form(self.spec)

    @cached_property
    def key(self) -> str:
        """The key that pods carry, unless another template has it already (`free_probe`)."""
        return self.key_at(0)

    def key_at(self, probe: int) -> str:
        """The key after that many collisions."""
        return key_of(self.text, probe)


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """One ControllerRevision, decoded.

    reference: with UID and resource version. number: its place in the history, the highest is the newest.
    key: what pods made from it carry as their label. created: creation time, RFC 3339.
    spec: the recorded sub-trees without patch markers. form: equal to the form of whatever means the same.
    topology: annotations that say where groups run; None where an earlier release recorded none.
    broken: why it can be used for nothing, in words; empty when it can. set_name: by its label.
    fingerprint: the hash in its name. is_sealed: key and topology are proven to be those that were recorded.
    edits: what of its metadata is not as it was recorded, as the merge patch that puts it back.
    """

    reference: Reference
    number: int
    key: str
    created: str
    is_orphan: bool
    is_leaving: bool
    spec: Object
    form: str
    topology: Mapping[str, str] | None
    broken: str = ""
    set_name: str = ""
    fingerprint: str = ""
    is_sealed: bool = False
    edits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.reference.name

    @property
    def uid(self) -> str:
        return self.reference.uid


def record(lws: Object) -> Record:
    """The record of the set as it is now; nothing is computed before it is asked for."""
    spec = lws["spec"]
    return Record({part: spec.get(part) for part in _PARTS}, placement_annotations(lws))


def parse(revision: Object) -> Recorded:
    """The decoded revision. One that cannot be used says why in `broken`; stored objects never raise."""
    broken, told, found = _broken(revision), annotations_of(revision), seal.seal_of(revision)
    spec = {} if broken else _recorded_parts(revision)
    topology = _topology(told) if EXCLUSIVE_TOPOLOGY_ANNOTATION in told else None
    return Recorded(
        reference=Reference.to(revision),
        number=int(revision.get("revision") or 0),
        key=found.key if found is not None else labels_of(revision).get(REVISION_LABEL, ""),
        created=revision["metadata"].get("creationTimestamp") or "",
        is_orphan=controller_of(revision) is None,
        is_leaving=is_terminating(revision),
        spec=spec,
        form="" if broken else equality_form(spec),
        topology=found.topology if found is not None else topology,
        broken=broken,
        set_name=labels_of(revision).get(NAME_LABEL, ""),
        fingerprint=seal.fingerprint_of(revision["metadata"]["name"]),
        is_sealed=found is not None,
        edits=seal.edits_of(revision, found) if found is not None else {},
    )


def is_ours(revision: Object, lws: Object) -> bool:
    """True if the set controls the revision or may adopt it (ControllerRef rules).

    An orphan must bear the name that we would have given to its data: StatefulSets label their own revisions
    as they label our pods.
    """
    if controller_of(revision) is not None:
        return is_controlled_by(revision, lws["metadata"]["uid"])
    if is_terminating(revision) or _broken(revision) or not labels_of(revision).get(REVISION_LABEL):
        return False
    # Data whose hash is not in the name is broken.
    return (
        re.fullmatch(rf"{re.escape(stem_of(lws))}-[a-z0-9]+-[0-9]+", revision["metadata"]["name"]) is not None
    )


def recognise(record: Record, recorded: Iterable[Recorded], running: Object | None = None) -> Recorded | None:
    """The newest revision that means the same as the record and is not being deleted.

    running: the leader template in use. Revisions of earlier releases take their topology annotations
    from it; without it they match any.
    """
    equal = (each for each in recorded if not each.is_leaving and _is_equal(record, each, running))
    return newest(equal)


def free_probe(record: Record, recorded: Iterable[Recorded], running: Object | None = None) -> int:
    """The lowest number at which the key of the record is not that of another template of the set.

    0 but for a collision of hashes, or the same data with other topology annotations: two templates must
    never share a key. running: as in `recognise`.
    """
    taken = {each.key for each in recorded if not each.broken and not _is_equal(record, each, running)}
    return history.free_probe(record.key_at, taken)


def collisions_of(record: Record, probe: int, recorded: Iterable[Recorded]) -> int:
    """How many keys below `probe` were given up because other data has them.

    The same data with other topology annotations is no collision of hashes.
    """
    taken = {each.key for each in recorded if not each.broken and each.form != record.form}
    return collisions_below(record.key_at, probe, taken)


def build_revision(lws: Object, record: Record, number: int, *, probe: int = 0, key: str = "") -> Object:
    """The complete ControllerRevision.

    probe: as `free_probe` found it. key: the label of pods that run without history; without it the hash.
    """
    fingerprint = record.key_at(probe)
    name = revision_name(lws, fingerprint, number)
    # Written even when empty: that tells a set without them from a release that did not record them.
    annotations = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "", **record.topology}
    annotations |= seal.sealing(name, key or fingerprint, record.topology)
    if not key and (cause := annotations_of(lws).get(CHANGE_CAUSE_ANNOTATION)):
        annotations[CHANGE_CAUSE_ANNOTATION] = cause
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": lws["metadata"]["namespace"],
            "labels": {NAME_LABEL: lws["metadata"]["name"], REVISION_LABEL: key or fingerprint},
            "annotations": annotations,
            "ownerReferences": [owner_reference(lws)],
        },
        "revision": storable(number),
        "data": Verbatim(record.text),
    }


def restore(lws: Object, recorded: Recorded) -> Object:
    """The live set with the recorded template, network configuration and topology annotations.

    Raises ValueError for a broken revision: what it lacks must not come from the live set.
    """
    if recorded.broken:
        raise ValueError(recorded.broken)
    restored = {**lws, "spec": {**lws["spec"], **recorded.spec}}
    if recorded.topology is not None:
        own = {key: value for key, value in annotations_of(lws).items() if key not in PLACEMENT_ANNOTATIONS}
        restored["metadata"] = {**lws["metadata"], "annotations": {**own, **recorded.topology}}
    return restored


def _recorded_parts(revision: Object) -> Object:
    spec = revision["data"]["spec"]
    return {part: without_marker(spec[part]) for part in _PARTS if spec.get(part) is not None}


def _broken(revision: Object) -> str:
    name = f"ControllerRevision {revision['metadata']['name']}"
    if fault := recorded_fault(revision.get("data")):
        return f"{name}: {fault}: no group can be rebuilt from it"
    if not seal.is_of_data(revision["metadata"]["name"], revision["data"]):
        return f"{name} holds other data than its name says: it was replaced, and no group is rebuilt from it"
    return ""


def _topology(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: annotations[key] for key in PLACEMENT_ANNOTATIONS if annotations.get(key)}


def _is_equal(record: Record, each: Recorded, running: Object | None) -> bool:
    if each.broken or each.form != record.form:
        return False
    if each.topology == record.topology:
        return True
    if running is None:
        return each.topology is None
    if each.is_sealed or (each.topology is not None and labels_of(running).get(REVISION_LABEL) != each.key):
        return False
    # Nothing proves the placement of a revision without seal but what runs.
    template = SetSpec.of({"spec": record.spec}).leader_template
    return placement_given(running, template, record.topology) == record.topology


_WORDS = {
    "leaderTemplate": "leader template",
    "leaderWorkerTemplate": "",
    "networkConfig": "",
    "volumeClaimTemplates": "claim template",
    "workerTemplate": "worker template",
}


def describe(old: Record | Recorded, new: Record | Recorded) -> list[str]:
    """What changed from one to the other, a line each: `worker template container main image: a:1 → a:2`."""
    before, after = (
        {**equality_tree(each.spec), "metadata": {"annotations": each.topology or {}}} for each in (old, new)
    )
    return explain(before, after, _WORDS)
