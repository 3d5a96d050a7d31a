"""Parse, build, compare and restore the ControllerRevisions of a set, and detect edits of them.

The API server rejects changes of the data of a ControllerRevision. The name contains the hash of the data, so
a replaced revision is detected. The API server accepts edits of the metadata, so an annotation with a
checksum, the seal, shows edits of key and placement.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

from lws.history import revision as history
from lws.history.revision import Format, Revision, age, checksum, read
from lws.kube.comparison import explain
from lws.kube.metadata import annotations_of, controller_of, is_mapping, labels_of, name_of, without
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
    LABEL_PREFIX,
    NAME_LABEL,
    REVISION_LABEL,
)

_PARTS = ("leaderWorkerTemplate", "networkConfig")


@dataclass(frozen=True, eq=False)
class Record:
    """The content of a revision.
    spec: `leaderWorkerTemplate` and `networkConfig`, in the notation of the user. topology: the placement
    annotations, which change pods as the spec does; None if an earlier release has not recorded them.
    """

    spec: Object
    topology: Mapping[str, str] | None

    @cached_property
    def text(self) -> str:
        """The `data` to record, byte for byte."""
        return canonical_text(self.spec)

    @cached_property
    def form(self) -> str:
        """A text that is the same for equivalent specs."""
        return equality_form(self.spec)

    @cached_property
    def key(self) -> str:
        """The revision key, unless another template has this key already."""
        return self.key_at(0)

    def key_at(self, probe: int) -> str:
        """Return the revision key after that many collisions."""
        return key_of(self.text, probe)


Recorded: TypeAlias = Revision[Record]


def record(lws: Object) -> Record:
    """Return the record of the current spec; its text, form and key are computed when they are first used."""
    spec = lws["spec"]
    return Record({part: spec.get(part) for part in _PARTS}, placement_annotations(lws))


def parse(revision: Object) -> Recorded:
    """Decode a stored ControllerRevision without ever raising. If the revision cannot be used, its field
    `broken` contains the reason.
    """
    broken, annotations, seal = _fault(revision), annotations_of(revision), seal_of(revision)
    stored = {} if broken else revision["data"]["spec"]
    spec = {part: without_marker(stored[part]) for part in _PARTS if stored.get(part) is not None}
    if seal is None:
        topology = None
        if EXCLUSIVE_TOPOLOGY_ANNOTATION in annotations:
            topology = {key: annotations[key] for key in PLACEMENT_ANNOTATIONS if annotations.get(key)}
        return read(
            FORMAT, revision, broken, labels_of(revision).get(REVISION_LABEL, ""), Record(spec, topology)
        )
    edits = placement_patch(annotations, seal.topology)
    return read(FORMAT, revision, broken, seal.key, Record(spec, seal.topology), is_sealed=True, edits=edits)


def is_ours(revision: Object, lws: Object) -> bool:
    """Return whether the set controls the revision or may adopt it (ControllerRef rules). Revisions of
    StatefulSets have the same labels, but are broken as revisions of a set, because their name does not
    contain the hash of the data. An orphan without a key belongs to no pods.
    """
    has_key = controller_of(revision) is not None or bool(labels_of(revision).get(REVISION_LABEL))
    return has_key and history.is_ours(FORMAT, revision, lws)


def is_equal(record: Record, revision: Recorded, running: Object | None) -> bool:
    """Return whether a revision is equivalent to the record. running: the leader template in use, which shows
    the topology annotations of revisions of earlier releases; if it is None, these match any topology.
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
    # Only the running template shows the placement of a revision without a seal.
    template = SetSpec.of({"spec": record.spec}).leader_template
    return placement_given(running, template, record.topology or {}) == record.topology


def restore(lws: Object, recorded: Recorded) -> Object:
    """Return the live set with the recorded template, network configuration and topology annotations. Raises
    ValueError for a broken revision, because missing parts must not be taken from the live set.
    """
    if recorded.broken:
        raise ValueError(recorded.broken)
    topology = recorded.record.topology
    restored = {**lws, "spec": {**lws["spec"], **recorded.record.spec}}
    if topology is not None:
        own = without(annotations_of(lws), PLACEMENT_ANNOTATIONS)
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
    """Describe the changes, one per line, as in `worker template container main image: a:1 → a:2`."""
    before, after = (
        {**equality_tree(state.spec), "metadata": {"annotations": state.topology or {}}}
        for state in (old, new)
    )
    return explain(before, after, _WORDS)


def _fault(revision: Object) -> str:
    name = f"ControllerRevision {name_of(revision)}"
    if fault := recorded_fault(revision.get("data")):
        return f"{name}: {fault}: no group can be rebuilt from it"
    if not is_of_data(name_of(revision), revision["data"]):
        return (
            f"{name} contains other data than its name says: it was replaced, and no group is rebuilt from it"
        )
    return ""


# --- Seals: annotations that show edits of the metadata of a revision.

SEAL_ANNOTATION = f"{LABEL_PREFIX}/revision-record"
"""Annotation with the key and placement of a revision, and a checksum of these and its name.

Early releases did not write it.
"""

_PROBES_TRIED = 1024
"""The maximum number of keys tried for one text, after collisions and for other placements of the same text.
"""


@dataclass(frozen=True, slots=True)
class Seal:
    """The recorded key and placement annotations of a revision."""

    key: str
    topology: Mapping[str, str]


def is_of_data(name: str, data: Any) -> bool:
    """Return whether the name of a revision contains the hash of these data."""
    # The data may be large, but `keys_of` hashes them only once.
    return FORMAT.fingerprint_in(name) in islice(keys_of(serialised(data)), _PROBES_TRIED)


def sealing(name: str, key: str, topology: Mapping[str, str]) -> dict[str, str]:
    """Return the annotation that seals a new revision."""
    content = {"key": key, "sum": _sum(name, key, topology), "topology": dict(topology)}
    return {SEAL_ANNOTATION: serialised(content)}


def seal_of(revision: Object) -> Seal | None:
    """Return the seal of a revision; None if it has none, or its checksum is wrong."""
    content = checksum(revision, SEAL_ANNOTATION)
    key, topology = content.get("key"), content.get("topology")
    if not isinstance(key, str) or not key or not is_mapping(topology):
        return None
    return Seal(key, topology) if content.get("sum") == _sum(name_of(revision), key, topology) else None


def placement_patch(stored: Mapping[str, str], recorded: Mapping[str, str]) -> dict[str, str | None]:
    """Return the patch that repairs the recorded placement annotations; empty if they were not edited."""
    desired = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "", **recorded}
    edited = (key for key in PLACEMENT_ANNOTATIONS if (stored.get(key) or "") != desired.get(key, ""))
    return {key: desired.get(key) for key in edited}


def _sum(name: str, key: str, topology: Mapping[str, str]) -> str:
    return key_of(serialised([name, key, dict(topology)]))


def _annotations(draft: Recorded) -> dict[str, str]:
    # The annotation is written even if empty, to distinguish a set without topology from a release that did
    # not record it.
    topology = draft.record.topology or {}
    return {EXCLUSIVE_TOPOLOGY_ANNOTATION: "", **topology, **sealing(draft.name, draft.key, topology)}


FORMAT = Format(NAME_LABEL, REVISION_LABEL, "[a-z0-9]+", _annotations, _fault)


# --- Find the keys of revisions whose label is not the hash in their name. Either such a revision was
# recorded for pods that were running before and have an older key, or its label was edited. The seal shows
# which is true; without a seal, the running pods do.


def identified(revisions: Iterable[Recorded], carried: Callable[[], Collection[str]]) -> tuple[Recorded, ...]:
    """Determine the key of each revision. carried: a function that returns the keys of the objects of the set
    and of recreated leaders; only called if a key is uncertain.
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
    # The hash of the data is the key of running objects, and no other revision certainly has that key.
    is_running = _hash_of(revision) in carried and all(other.key != _hash_of(revision) for other in certain)
    has_it = any(_has_that_key(other, revision) for other in others) or _gives_way(revision, others, carried)
    if is_running or has_it:
        return replace(revision, key=_hash_of(revision))
    if revision.key:
        return revision
    why = f"has no label {REVISION_LABEL}: nothing shows which pods were created from it"
    return replace(revision, broken=f"ControllerRevision {revision.name} {why}")


def _has_that_key(other: Recorded, revision: Recorded) -> bool:
    """Return whether the label of `revision` is the key of `other`, which has other content. If the key of
    `other` is uncertain, its hash is compared instead.
    """
    key = other.key if _is_certain(other) else _hash_of(other)
    return key == revision.key and _is_unlike(other, revision)


def _gives_way(revision: Recorded, others: Iterable[Recorded], carried: Collection[str]) -> bool:
    """Return whether the label of `revision` rather belongs to a rival with the same label and other content.
    If no object has the label as its key, `revision` gives way to any rival. Otherwise it gives way to a
    newer rival whose hash is the key of no object: it was recorded for pods with the key in its label.
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
