"""Decode the stored ControllerRevisions of a set, even if they were edited or replaced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from lws.history import revision as history
from lws.history.revision import age, read
from lws.kube.metadata import annotations_of, controller_of, labels_of, name_of
from lws.leaderworkerset.revisions.encoding import keys_of, serialised, without_marker
from lws.leaderworkerset.revisions.history import (
    FORMAT,
    RECORDED_PARTS,
    Record,
    Recorded,
    placement_patch,
    seal_of,
)
from lws.leaderworkerset.revisions.shape import recorded_fault
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, REVISION_LABEL

_PROBES_TRIED = 1024
"""The maximum number of keys tried for one text, after collisions and for other placements of the same text.
"""


def parse(revision: Object) -> Recorded:
    """Decode a stored ControllerRevision without ever raising. If the revision cannot be used, its field
    `broken` contains the reason.
    """
    broken, annotations, seal = _fault(revision), annotations_of(revision), seal_of(revision)
    stored = {} if broken else revision["data"]["spec"]
    spec = {part: without_marker(stored[part]) for part in RECORDED_PARTS if stored.get(part) is not None}
    if seal is None:
        noted = None
        if EXCLUSIVE_TOPOLOGY_ANNOTATION in annotations:
            noted = {name: annotations[name] for name in PLACEMENT_ANNOTATIONS if annotations.get(name)}
        label = labels_of(revision).get(REVISION_LABEL, "")
        return read(FORMAT, revision, broken, label, Record(spec, noted))
    key, topology = seal
    edits = placement_patch(annotations, topology)
    return read(FORMAT, revision, broken, key, Record(spec, topology), is_sealed=True, edits=edits)


def is_ours(revision: Object, lws: Object) -> bool:
    """Return whether the set controls the revision or may adopt it (ControllerRef rules). Revisions of
    StatefulSets have the same labels, but are broken as revisions of a set, because their name does not
    contain the hash of the data. An orphan without a key belongs to no pods.
    """
    has_key = controller_of(revision) is not None or bool(labels_of(revision).get(REVISION_LABEL))
    return has_key and history.is_ours(FORMAT, revision, lws, _fault)


def _fault(revision: Object) -> str:
    name = f"ControllerRevision {name_of(revision)}"
    if fault := recorded_fault(revision.get("data")):
        return f"{name}: {fault}: no group can be rebuilt from it"
    if not is_of_data(name_of(revision), revision["data"]):
        return (
            f"{name} contains other data than its name says: it was replaced, and no group is rebuilt from it"
        )
    return ""


def is_of_data(name: str, data: Any) -> bool:
    """Return whether the name of a revision contains the hash of these data."""
    # The data may be large, but `keys_of` hashes them only once.
    return FORMAT.fingerprint_in(name) in islice(keys_of(serialised(data)), _PROBES_TRIED)


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
