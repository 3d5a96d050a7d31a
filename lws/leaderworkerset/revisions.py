"""What does the history of a set hold, and what would be added to it, taken from it or restored out of it?

In: a set as stored and its ControllerRevisions. Out: parsed revisions, verdicts about them, new objects.
The data of a ControllerRevision is never changed once it is recorded; only its number may be raised.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

from lws.actions import Object, Reference, Verbatim
from lws.kube.comparison import explain
from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
    owner_reference,
)
from lws.leaderworkerset.canonical import (
    canonical_text,
    equality_form,
    equality_tree,
    key_of,
    serialised,
    without_marker,
)
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS, placement_annotations
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
)

_PARTS = ("leaderWorkerTemplate", "networkConfig")

CHANGE_CAUSE_ANNOTATION = "kubernetes.io/change-cause"
"""What users and tools say of a change."""

_NAME_PART = 220
"""Bytes of the set's name in the name of a revision; leaves room for hash and number within 253."""

_PROBES_TRIED = 16
"""Collisions after which an orphan is no longer taken for ours; one alone is a matter of 2^-32."""

_WORDS = {
    "leaderTemplate": "leader template",
    "leaderWorkerTemplate": "",
    "networkConfig": "",
    "volumeClaimTemplates": "claim template",
    "workerTemplate": "worker template",
}


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
    broken, told = _broken(revision), annotations_of(revision)
    spec = {} if broken else _recorded_parts(revision)
    return Recorded(
        reference=Reference.to(revision),
        number=int(revision.get("revision") or 0),
        key=labels_of(revision).get(REVISION_LABEL, ""),
        created=revision["metadata"].get("creationTimestamp") or "",
        is_orphan=controller_of(revision) is None,
        is_leaving=is_terminating(revision),
        spec=spec,
        form="" if broken else equality_form(spec),
        topology=_topology(told) if EXCLUSIVE_TOPOLOGY_ANNOTATION in told else None,
        broken=broken,
        set_name=labels_of(revision).get(NAME_LABEL, ""),
    )


def is_ours(revision: Object, lws: Object) -> bool:
    """True if the set controls the revision or may adopt it (ControllerRef rules).

    An orphan must bear the name that we would have given to its data: StatefulSets label their own revisions
    as they label our pods.
    """
    if controller_of(revision) is not None:
        return is_controlled_by(revision, lws["metadata"]["uid"])
    if is_terminating(revision) or _broken(revision):
        return False
    match = re.fullmatch(rf"{re.escape(_stem(lws))}-([a-z0-9]+)-[0-9]+", revision["metadata"]["name"])
    if match is None:
        return False
    text = serialised(revision["data"])
    return any(key_of(text, probe) == match[1] for probe in range(_PROBES_TRIED))


def find(recorded: Iterable[Recorded], key: str) -> Recorded | None:
    """The newest usable revision of that key; none has the empty key."""
    return max((each for each in recorded if each.key == key and not each.broken), key=_age, default=None)


def recognise(record: Record, recorded: Iterable[Recorded], running: Object | None = None) -> Recorded | None:
    """The newest revision that means the same as the record and is not being deleted.

    running: the leader template in use. Revisions of earlier releases take their topology annotations
    from it; without it they match any.
    """
    equal = (each for each in recorded if not each.is_leaving and _is_equal(record, each, running))
    return max(equal, key=_age, default=None)


def next_number(recorded: Iterable[Recorded]) -> int:
    """The number that makes a revision the newest."""
    return max((each.number for each in recorded), default=0) + 1


def free_probe(record: Record, recorded: Iterable[Recorded], running: Object | None = None) -> int:
    """The lowest number at which the key of the record is not that of another template of the set.

    0 but for a collision of hashes, or the same data with other topology annotations: two templates must
    never share a key. running: as in `recognise`.
    """
    taken = {each.key for each in recorded if not each.broken and not _is_equal(record, each, running)}
    return next(probe for probe in count() if record.key_at(probe) not in taken)


def build_revision(lws: Object, record: Record, number: int, *, probe: int = 0, key: str = "") -> Object:
    """The complete ControllerRevision.

    probe: as `free_probe` found it. key: the label of pods that run without history; without it the hash.
    """
    fingerprint = record.key_at(probe)
    # Written even when empty: that tells a set without them from a release that did not record them.
    annotations = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "", **record.topology}
    if not key and (cause := annotations_of(lws).get(CHANGE_CAUSE_ANNOTATION)):
        annotations[CHANGE_CAUSE_ANNOTATION] = cause
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{_stem(lws)}-{fingerprint}-{number}",
            "namespace": lws["metadata"]["namespace"],
            "labels": {NAME_LABEL: lws["metadata"]["name"], REVISION_LABEL: key or fingerprint},
            "annotations": annotations,
            "ownerReferences": [owner_reference(lws)],
        },
        "revision": number,
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


def prunable(
    recorded: Iterable[Recorded], live_keys: Collection[str], current: str, limit: int
) -> list[Recorded]:
    """Revisions that no pod needs, beyond the newest `limit` of them; oldest first.

    current: the key that the set wants. Revisions of it and of live keys, the newest one and orphans stay.
    """
    owned = sorted((each for each in recorded if not each.is_orphan and not each.is_leaving), key=_age)
    spare = [each for each in owned[:-1] if each.key != current and each.key not in live_keys]
    return spare[: max(0, len(spare) - limit)]


def describe(old: Record | Recorded, new: Record | Recorded) -> list[str]:
    """What changed from one to the other, a line each: `worker template container main image: a:1 → a:2`."""
    before, after = (
        {**equality_tree(each.spec), "metadata": {"annotations": each.topology or {}}} for each in (old, new)
    )
    return explain(before, after, _WORDS)


def _stem(lws: Object) -> str:
    name: str = lws["metadata"]["name"]
    return name[:_NAME_PART]


def _recorded_spec(revision: Object) -> Mapping[str, Any]:
    data = revision.get("data")
    spec = data.get("spec") if isinstance(data, Mapping) else None
    return spec if isinstance(spec, Mapping) else {}


def _recorded_parts(revision: Object) -> Object:
    spec = _recorded_spec(revision)
    return {part: without_marker(spec[part]) for part in _PARTS if spec.get(part) is not None}


def _broken(revision: Object) -> str:
    name, spec = f"ControllerRevision {revision['metadata']['name']}", _recorded_spec(revision)
    if not isinstance(spec.get("leaderWorkerTemplate"), Mapping):
        return f"{name} holds no leaderWorkerTemplate: no group can be rebuilt from it"
    if not isinstance(spec.get("networkConfig"), Mapping | None):
        return f"{name} holds a networkConfig that is no object: no group can be rebuilt from it"
    if not labels_of(revision).get(REVISION_LABEL):
        return f"{name} has no label {REVISION_LABEL}: nothing says which pods were made from it"
    return ""


def _topology(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: annotations[key] for key in PLACEMENT_ANNOTATIONS if annotations.get(key)}


def _is_equal(record: Record, each: Recorded, running: Object | None) -> bool:
    if each.broken or each.form != record.form:
        return False
    if each.topology is not None:
        return each.topology == record.topology
    return running is None or _topology(annotations_of(running)) == record.topology


def _age(each: Recorded) -> tuple[int, str, str]:
    return each.number, each.created, each.name
