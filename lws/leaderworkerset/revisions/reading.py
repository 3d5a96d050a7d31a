"""Decode the stored ControllerRevisions of a set, even if they were edited or replaced."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import Any, TypeAlias

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
    uncertain = [revision for revision in parsed if not _is_certain(revision)]
    if not uncertain:
        return parsed
    claims = _Claims.of(parsed, uncertain, carried())
    return tuple(revision if _is_certain(revision) else _identified(revision, claims) for revision in parsed)


def _is_certain(revision: Recorded) -> bool:
    return bool(revision.broken) or revision.is_sealed or revision.key == _hash_of(revision)


_Content: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Claims:
    """Which usable revisions claim which keys. The tables have only the labels of uncertain revisions as
    keys, and a lookup takes the same time for any number of revisions.

    carried: as in `identified`. certain: the keys of certain revisions. holders: the contents of the
    revisions that have the key; if the key of a revision is uncertain, its hash counts as its key. labelled:
    the contents of the uncertain revisions that have the key as their label. newest: of those whose hash is
    the key of no object, the ages and contents of the two newest with different contents.
    """

    carried: Collection[str]
    certain: Collection[str]
    holders: Mapping[str, Collection[_Content]]
    labelled: Mapping[str, Collection[_Content]]
    newest: Mapping[str, Collection[tuple[_Content, tuple[int, str, str]]]]

    @classmethod
    def of(
        cls, parsed: Iterable[Recorded], uncertain: Iterable[Recorded], carried: Collection[str]
    ) -> _Claims:
        certain = [revision for revision in parsed if not revision.broken and _is_certain(revision)]
        by_label, holders = defaultdict[str, list[Recorded]](list), defaultdict[str, set[_Content]](set)
        for revision in uncertain:
            by_label[revision.key].append(revision)
        keyed = [(revision.key, revision) for revision in certain]
        keyed += [(_hash_of(revision), revision) for revision in uncertain]
        for key, revision in keyed:
            if key in by_label:
                holders[key].add(_content_of(revision))
        return cls(
            carried,
            frozenset(revision.key for revision in certain),
            holders,
            {key: set(map(_content_of, revisions)) for key, revisions in by_label.items() if key},
            {key: _newest(revisions, carried) for key, revisions in by_label.items() if key},
        )


def _newest(
    revisions: Iterable[Recorded], carried: Collection[str]
) -> list[tuple[_Content, tuple[int, str, str]]]:
    ages = {
        _content_of(revision): age(revision)
        for revision in sorted(revisions, key=age)
        if _hash_of(revision) not in carried
    }
    return sorted(ages.items(), key=itemgetter(1))[-2:]


def _identified(revision: Recorded, claims: _Claims) -> Recorded:
    key = _hash_of(revision)
    # The hash of the data is the key of running objects, and no other revision certainly has that key.
    is_running = key in claims.carried and key not in claims.certain
    if is_running or _is_of_another(revision, claims) or _gives_way(revision, claims):
        return replace(revision, key=key)
    if revision.key:
        return revision
    why = f"has no label {REVISION_LABEL}: nothing shows which pods were created from it"
    return replace(revision, broken=f"ControllerRevision {revision.name} {why}")


def _is_of_another(revision: Recorded, claims: _Claims) -> bool:
    """Return whether the label of the revision is the key of another one, which has other content."""
    content = _content_of(revision)
    return any(other != content for other in claims.holders.get(revision.key, ()))


def _gives_way(revision: Recorded, claims: _Claims) -> bool:
    """Return whether the label of `revision` rather belongs to a rival with the same label and other content.
    If no object has the label as its key, `revision` gives way to any rival. Otherwise it gives way to a
    newer rival whose hash is the key of no object: it was recorded for pods with the key in its label.
    """
    content = _content_of(revision)
    has_rival = any(other != content for other in claims.labelled.get(revision.key, ()))
    if has_rival and revision.key not in claims.carried:
        return True
    return any(
        other != content and newest > age(revision) for other, newest in claims.newest.get(revision.key, ())
    )


def _content_of(revision: Recorded) -> _Content:
    return revision.record.form, serialised(revision.record.topology)


def _hash_of(revision: Recorded) -> str:
    return FORMAT.fingerprint_in(revision.name)
