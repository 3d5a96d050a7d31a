"""Parse, build, compare and restore the ControllerRevisions of a set, and prove how they were recorded.

The data of a ControllerRevision never changes once it is recorded: the hash in its name proves it. The API
server accepts edits of its metadata: a checksum annotation, the seal, proves key and placement.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

from lws.history import revision as history
from lws.history.revision import Format, Revision, age, build, checksum, draft, read
from lws.kube.comparison import explain
from lws.kube.metadata import annotations_of, controller_of, is_mapping, labels_of, name_of
from lws.leaderworkerset.revisions.encoding import (
    canonical_text,
    equality_form,
    equality_tree,
    key_of,
    keys_of,
    serialised,
    without_marker,
)
from lws.leaderworkerset.revisions.shape import recorded_fault
from lws.leaderworkerset.spec import (
    PLACEMENT_ANNOTATIONS,
    SetSpec,
    placement_annotations,
    placement_given,
)
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
)

_PARTS = ("leaderWorkerTemplate", "networkConfig")


@dataclass(frozen=True, eq=False)
class Record:
    """What a set asks for now, in the terms of its history.

    spec: `leaderWorkerTemplate` and `networkConfig`, as the user spelled them.
    topology: annotations that say where groups run; they change pods as the spec does. None if an earlier
    release recorded none.
    """

    spec: Object
    topology: Mapping[str, str] | None

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
        """The key that pods carry, unless another template has it already ."""
        return self.key_at(0)

    def key_at(self, probe: int) -> str:
        """The key after that many collisions."""
        return key_of(self.text, probe)


Recorded: TypeAlias = Revision[Record]


def record(lws: Object) -> Record:
    """The record of the set as it is now; nothing is computed before it is asked for."""
    spec = lws["spec"]
    return Record({part: spec.get(part) for part in _PARTS}, placement_annotations(lws))


def parse(revision: Object) -> Recorded:
    """The decoded revision. One that cannot be used says why in `broken`; stored objects never raise."""
    broken, annotations, seal = _fault(revision), annotations_of(revision), seal_of(revision)
    spec = {} if broken else _recorded_parts(revision)
    if seal is None:
        topology = _topology(annotations) if EXCLUSIVE_TOPOLOGY_ANNOTATION in annotations else None
        return read(
            FORMAT, revision, broken, labels_of(revision).get(REVISION_LABEL, ""), Record(spec, topology)
        )
    edits = placement_patch(annotations, seal.topology)
    return read(FORMAT, revision, broken, seal.key, Record(spec, seal.topology), is_sealed=True, edits=edits)


def is_ours(revision: Object, lws: Object) -> bool:
    """True if the set controls the revision or may adopt it (ControllerRef rules).

    StatefulSets label their own revisions as they label our pods: data whose hash is not in the name is
    broken. An orphan without key belongs to no pods.
    """
    has_key = controller_of(revision) is not None or bool(labels_of(revision).get(REVISION_LABEL))
    return has_key and history.is_ours(FORMAT, revision, lws)


def build_revision(lws: Object, record: Record, number: int, *, probe: int = 0, key: str = "") -> Object:
    """The complete ControllerRevision.

    probe: the number of collisions. key: the label of pods that run without history; without it the hash.
    """
    fingerprint = record.key_at(probe)
    generation = lws["metadata"].get("generation", 0) if key else None
    return build(FORMAT, lws, draft(lws, fingerprint, number, record, key, generation))


def is_equal(record: Record, revision: Recorded, running: Object | None) -> bool:
    """Whether a revision means the same as the record.

    running: the leader template in use. Revisions of earlier releases take their topology annotations from
    it; without it they match any.
    """
    topology = revision.record.topology
    if revision.record.form != record.form:
        return False
    if topology == record.topology:
        return True
    if running is None:
        return topology is None
    is_running = labels_of(running).get(REVISION_LABEL) == revision.key
    if revision.is_sealed or (topology is not None and not is_running):
        return False
    # Only what runs proves the placement of a revision without seal.
    template = SetSpec.of({"spec": record.spec}).leader_template
    return placement_given(running, template, record.topology or {}) == record.topology


def restore(lws: Object, recorded: Recorded) -> Object:
    """The live set with the recorded template, network configuration and topology annotations.

    Raises ValueError for a broken revision: what it lacks must not come from the live set.
    """
    if recorded.broken:
        raise ValueError(recorded.broken)
    topology = recorded.record.topology
    restored = {**lws, "spec": {**lws["spec"], **recorded.record.spec}}
    if topology is not None:
        own = {key: value for key, value in annotations_of(lws).items() if key not in PLACEMENT_ANNOTATIONS}
        restored["metadata"] = {**lws["metadata"], "annotations": {**own, **topology}}
    return restored


_WORDS = {
    "leaderTemplate": "leader template",
    "leaderWorkerTemplate": "",
    "networkConfig": "",
    "volumeClaimTemplates": "claim template",
    "workerTemplate": "worker template",
}


def describe(old: Record, new: Record) -> list[str]:
    """What changed from one to the other, a line each: `worker template container main image: a:1 → a:2`."""
    before, after = (
        {**equality_tree(state.spec), "metadata": {"annotations": state.topology or {}}}
        for state in (old, new)
    )
    return explain(before, after, _WORDS)


def _recorded_parts(revision: Object) -> Object:
    spec = revision["data"]["spec"]
    return {part: without_marker(spec[part]) for part in _PARTS if spec.get(part) is not None}


def _topology(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: annotations[key] for key in PLACEMENT_ANNOTATIONS if annotations.get(key)}


def _fault(revision: Object) -> str:
    name = f"ControllerRevision {name_of(revision)}"
    if fault := recorded_fault(revision.get("data")):
        return f"{name}: {fault}: no group can be rebuilt from it"
    if not is_of_data(name_of(revision), revision["data"]):
        return f"{name} holds other data than its name says: it was replaced, and no group is rebuilt from it"
    return ""


# Seals.

SEAL_ANNOTATION = "leaderworkerset.sigs.k8s.io/revision-record"
"""Key and placement of a revision, with a sum over both and its name. Releases before had none."""

_PROBES_TRIED = 1024
"""Keys that one text may have had to give up: to collisions, and to itself with another placement."""


@dataclass(frozen=True, slots=True)
class Seal:
    """As recorded. key: the label of pods. topology: annotations that say where groups run."""

    key: str
    topology: Mapping[str, str]


def is_of_data(name: str, data: Any) -> bool:
    """Whether the name of a revision holds the hash of these data."""
    # The data may be of any size: they are read once, however many keys are tried.
    return FORMAT.fingerprint_in(name) in islice(keys_of(serialised(data)), _PROBES_TRIED)


def sealing(name: str, key: str, topology: Mapping[str, str]) -> dict[str, str]:
    """The annotation that a new revision gets."""
    noted = {"key": key, "sum": _sum(name, key, topology), "topology": dict(topology)}
    return {SEAL_ANNOTATION: serialised(noted)}


def seal_of(revision: Object) -> Seal | None:
    """The seal of a revision; None if it has none that holds."""
    noted = checksum(revision, SEAL_ANNOTATION)
    key, topology = noted.get("key"), noted.get("topology")
    if not isinstance(key, str) or not key or not is_mapping(topology):
        return None
    return Seal(key, topology) if noted.get("sum") == _sum(name_of(revision), key, topology) else None


def placement_patch(stored: Mapping[str, str], recorded: Mapping[str, str]) -> dict[str, str | None]:
    """The patch of annotations that leads from what is stored to what was recorded."""
    desired = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "", **recorded}
    edited = (key for key in PLACEMENT_ANNOTATIONS if (stored.get(key) or "") != desired.get(key, ""))
    return {key: desired.get(key) for key in edited}


def _sum(name: str, key: str, topology: Mapping[str, str]) -> str:
    return key_of(serialised([name, key, dict(topology)]))


def _annotations(draft: Recorded) -> dict[str, str]:
    # Written even when empty: that tells a set without them from a release that did not record them.
    topology = draft.record.topology or {}
    return {EXCLUSIVE_TOPOLOGY_ANNOTATION: "", **topology, **sealing(draft.name, draft.key, topology)}


FORMAT = Format(NAME_LABEL, REVISION_LABEL, "[a-z0-9]+", _annotations, _fault)


# Keys of revisions whose label is not the hash in their name. Two kinds have another label: revisions that
# record what ran before there was a history, whose pods carry an older key, and revisions whose label was
# edited. A seal tells which, or else what runs.


def identified(revisions: Iterable[Recorded], carried: Callable[[], Collection[str]]) -> tuple[Recorded, ...]:
    """Determine the key of each revision.

    carried: returns the keys that anything of the set carries or is recreated with; only called if a key is
    uncertain.
    """
    parsed = tuple(revisions)
    if all(map(_is_certain, parsed)):
        return parsed
    keys = carried()
    return tuple(
        revision if _is_certain(revision) else _identified(revision, parsed, keys) for revision in parsed
    )


def _is_certain(revision: Recorded) -> bool:
    return bool(revision.broken) or revision.is_sealed or revision.key == _hash_of(revision)


def _identified(revision: Recorded, parsed: Collection[Recorded], carried: Collection[str]) -> Recorded:
    others = [other for other in parsed if other is not revision and not other.broken]
    certain = [other for other in others if _is_certain(other)]
    # The data hash to the key that runs, and no other revision certainly has that key.
    is_running = _hash_of(revision) in carried and all(other.key != _hash_of(revision) for other in certain)
    has_it = any(_has_that_key(other, revision) for other in others) or _gives_way(revision, others, carried)
    if is_running or has_it:
        return replace(revision, key=_hash_of(revision))
    if revision.key:
        return revision
    why = f"has no label {REVISION_LABEL}: nothing says which pods were made from it"
    return replace(revision, broken=f"ControllerRevision {revision.name} {why}")


def _has_that_key(other: Recorded, revision: Recorded) -> bool:
    """The key by the label of `revision` is that of another template: by its hash, where its own label says
    something else.
    """
    key = other.key if _is_certain(other) else _hash_of(other)
    return key == revision.key and _is_unlike(other, revision)


def _gives_way(revision: Recorded, others: Iterable[Recorded], carried: Collection[str]) -> bool:
    """Another template has the same label, which at most one was recorded with: the newest that nothing runs
    by its hash, if anything runs by the label.
    """
    rivals = [
        other
        for other in others
        if other.key == revision.key and revision.key and _is_unlike(other, revision)
    ]
    if rivals and revision.key not in carried:
        return True
    return any(_hash_of(other) not in carried and age(other) > age(revision) for other in rivals)


def _is_unlike(other: Recorded, revision: Recorded) -> bool:
    return (other.record.form, other.record.topology) != (revision.record.form, revision.record.topology)


def _hash_of(revision: Recorded) -> str:
    return FORMAT.fingerprint_in(revision.name)
