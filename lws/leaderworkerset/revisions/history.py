"""Record, compare and restore the state of a set that a ControllerRevision contains.

The API server rejects changes of the data of a ControllerRevision. The name contains the hash of the data, so
a replaced revision is detected. The API server accepts edits of the metadata, so an annotation with a
checksum, the seal, shows edits of key and placement. `reading.py` detects both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from lws.history.revision import Format, Revision, checksum
from lws.kube.comparison import explain
from lws.kube.metadata import annotations_of, is_mapping, labels_of, name_of, without
from lws.leaderworkerset.revisions.encoding import (
    canonical_text,
    claims_form,
    equality_form,
    equality_tree,
    key_at,
    key_of,
    serialised,
    text_hash,
)
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

RECORDED_PARTS = ("leaderWorkerTemplate", "networkConfig")


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
    def claims(self) -> str:
        """A text that is the same for equivalent claim templates, which no StatefulSet can change."""
        return claims_form(self.spec["leaderWorkerTemplate"].get("volumeClaimTemplates") or ())

    @cached_property
    def key(self) -> str:
        """The revision key, unless another template has this key already."""
        return self.key_at(0)

    def key_at(self, probe: int) -> str:
        """Return the revision key after that many collisions."""
        return key_at(self._hash, probe)

    @cached_property
    def _hash(self) -> int:
        return text_hash(self.text)


Recorded: TypeAlias = Revision[Record]


def record(lws: Object) -> Record:
    """Return the record of the current spec; its text, form and key are computed when they are first used."""
    spec = lws["spec"]
    return Record({part: spec.get(part) for part in RECORDED_PARTS}, placement_annotations(lws))


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


# --- Seals: annotations that show edits of the metadata of a revision.

SEAL_ANNOTATION = f"{LABEL_PREFIX}/revision-record"
"""Annotation with the key and placement of a revision, and a checksum of these and its name.

Early releases did not write it.
"""


def sealing(name: str, key: str, topology: Mapping[str, str]) -> dict[str, str]:
    """Return the annotation that seals a new revision."""
    content = {"key": key, "sum": _sum(name, key, topology), "topology": dict(topology)}
    return {SEAL_ANNOTATION: serialised(content)}


def seal_of(revision: Object) -> tuple[str, Mapping[str, str]] | None:
    """Return the key and the placement annotations that the seal of a revision records; None if it has no
    seal, or the checksum is wrong.
    """
    content = checksum(revision, SEAL_ANNOTATION)
    key, topology = content.get("key"), content.get("topology")
    if not isinstance(key, str) or not key or not is_mapping(topology):
        return None
    if not all(isinstance(value, str) for value in topology.values()):
        return None
    return (key, topology) if content.get("sum") == _sum(name_of(revision), key, topology) else None


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


FORMAT = Format(NAME_LABEL, REVISION_LABEL, "[a-z0-9]+", _annotations)
