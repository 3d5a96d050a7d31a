"""Model ControllerRevisions, stored as a kind's `Format` says: fields, names, labels and their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

import orjson

from lws.kube.metadata import (
    annotations_of,
    child_metadata,
    controller_of,
    is_controlled_by,
    is_mapping,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    uid_of,
)
from lws.runtime.actions import Object, Reference, Verbatim

CHANGE_CAUSE_ANNOTATION = "kubernetes.io/change-cause"
"""Annotation in which users and tools describe a change."""

HIGHEST_NUMBER = 2**63 - 1
"""The largest `revision` that a ControllerRevision can have (int64)."""


class Content(Protocol):
    """A target state. text: the `data` that records the state, byte for byte."""

    @property
    def text(self) -> str: ...

    def key_at(self, probe: int) -> str:
        """Return the revision key after `probe` collisions."""


C = TypeVar("C", bound=Content)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Revision(Generic[C]):
    """A decoded ControllerRevision, or one to create, whose reference has no UID.

    number: the field `revision`; the newest revision has the highest number. key: the revision key, a label
    of all objects created from the revision. created: the creation time in RFC 3339. labels: the stored
    labels for the name of the set and the key. broken: why the revision cannot be used, in words; empty if it
    can. generation: that of the set if the record was rebuilt from running objects; None otherwise.
    is_sealed: whether a checksum proves the metadata of the revision. edits: the patch that repairs its
    annotations.
    """

    reference: Reference
    number: int
    key: str
    record: C
    created: str = ""
    is_orphan: bool = False
    is_terminating: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    broken: str = ""
    generation: int | None = None
    is_sealed: bool = False
    edits: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.reference.name

    @property
    def uid(self) -> str:
        return self.reference.uid


@dataclass(frozen=True, slots=True)
class Format(Generic[C]):
    """How a kind stores its revisions.

    name_label, key_label: labels for the name of the set and the revision key. fingerprint: the pattern of
    the hash in names. annotations: returns those of a new revision. children: what messages call the objects
    created from a revision.
    """

    name_label: str
    key_label: str
    fingerprint: str
    annotations: Callable[[Revision[C]], Mapping[str, str]]
    children: str = "pods"
    blocks_deletion: bool = True

    def labels(self, owner: Object, key: str) -> dict[str, str]:
        """Return the labels of a revision with this key."""
        return {self.name_label: name_of(owner), self.key_label: key}

    def fingerprint_in(self, name: str) -> str:
        """Return the hash in the name of a revision, which is immutable; empty if the name has no hash."""
        match = re.fullmatch(rf"(?s).+-({self.fingerprint})-[0-9]+", name)
        return match[1] if match is not None else ""


def draft(
    owner: Object, fingerprint: str, number: int, record: C, key: str = "", generation: int | None = None
) -> Revision[C]:
    """Return a revision to create. key: the fingerprint if empty."""
    name = revision_name(owner, fingerprint, number)
    reference = Reference("apps/v1", "ControllerRevision", namespace_of(owner), name)
    return Revision(
        reference=reference, number=number, key=key or fingerprint, record=record, generation=generation
    )


def build(format: Format[C], owner: Object, draft: Revision[C]) -> dict[str, Any]:
    """Build the complete ControllerRevision to create."""
    annotations = dict(format.annotations(draft))
    cause = annotations_of(owner).get(CHANGE_CAUSE_ANNOTATION)
    if cause and draft.generation is None:
        annotations[CHANGE_CAUSE_ANNOTATION] = cause
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": child_metadata(
            owner, draft.name, format.labels(owner, draft.key), annotations, format.blocks_deletion
        ),
        "revision": storable(draft.number),
        "data": Verbatim(draft.record.text),
    }


def read(format: Format[C], stored: Object, broken: str, key: str, record: C, **proven: Any) -> Revision[C]:
    """Return a decoded ControllerRevision; never raises. proven: fields that its checksum proves."""
    number, labels = stored.get("revision"), labels_of(stored)
    return Revision(
        reference=Reference.to(stored),
        number=number if type(number) is int else 0,
        key=key,
        record=record,
        created=str(metadata_of(stored).get("creationTimestamp") or ""),
        is_orphan=controller_of(stored) is None,
        is_terminating=is_terminating(stored),
        labels={label: labels[label] for label in (format.name_label, format.key_label) if labels.get(label)},
        broken=broken,
        **proven,
    )


def checksum(revision: Object, annotation: str) -> Object:
    """Return the decoded checksum annotation of a stored revision; empty if it cannot be read."""
    try:
        # Unlike json, it accepts no text that cannot be encoded.
        noted = orjson.loads(annotations_of(revision).get(annotation, ""))
    except orjson.JSONDecodeError:
        return {}
    return noted if is_mapping(noted) else {}


def is_ours(format: Format[C], revision: Object, owner: Object, fault: Callable[[Object], str]) -> bool:
    """Return whether the set controls the revision, or may adopt it by its name (ControllerRef rules).
    fault: returns why a stored revision cannot be used; empty if it can.
    """
    if controller_of(revision) is not None:
        return is_controlled_by(revision, uid_of(owner))
    is_named = re.fullmatch(rf"{re.escape(stem_of(owner))}-{format.fingerprint}-[0-9]+", name_of(revision))
    return is_named is not None and not is_terminating(revision) and not fault(revision)


def edited_labels(format: Format[C], owner: Object, revision: Revision[C]) -> dict[str, str]:
    """Return the labels to repair. Watches select revisions by the name label, users by both labels."""
    desired = format.labels(owner, revision.key)
    return {label: value for label, value in desired.items() if value and revision.labels.get(label) != value}


def age(revision: Revision[C]) -> tuple[int, str, str]:
    """Return the sort key from the oldest to the newest revision: by number first, never by time alone."""
    return revision.number, revision.created, revision.name


def usable(revisions: Iterable[Revision[C]]) -> list[Revision[C]]:
    """Return the revisions that are not broken, oldest first."""
    return sorted((revision for revision in revisions if not revision.broken), key=age)


def newest(revisions: Iterable[Revision[C]]) -> Revision[C] | None:
    """Return the newest revision; None if there is none."""
    return max(revisions, key=age, default=None)


def find(revisions: Iterable[Revision[C]], key: str) -> Revision[C] | None:
    """Return the newest usable revision with this key, or None. No revision has the empty key."""
    return newest(revision for revision in revisions if revision.key == key and not revision.broken)


def next_number(revisions: Iterable[Revision[C]]) -> int:
    """Return the number that makes a revision the newest. It may exceed `HIGHEST_NUMBER`."""
    return max((revision.number for revision in revisions), default=0) + 1


def storable(number: int) -> int:
    """Return the number, at most `HIGHEST_NUMBER`, which a user may have set; ties are sorted by creation."""
    return min(number, HIGHEST_NUMBER)


_NAME_PART = 220
"""Maximum bytes of the owner's name in the name of a revision, so that hash and number fit into 253."""

_IN_A_ROW = 3
"""Number of names to try one by one. Each taken name costs a failed write and a backoff."""


def stem_of(owner: Object) -> str:
    """Return the prefix of the names of an owner's revisions."""
    return name_of(owner)[:_NAME_PART]


def revision_name(owner: Object, fingerprint: str, number: int) -> str:
    """Return the name of a revision: `<owner>-<hash>-<number>`."""
    return f"{stem_of(owner)}-{fingerprint}-{number}"


@dataclass(frozen=True, slots=True)
class Place:
    """The number of a new revision whose name is free. skipped: the taken names before it."""

    number: int
    skipped: tuple[str, ...] = ()


def free_place(owner: Object, fingerprint: str, number: int, taken: Container[str]) -> Place:
    """Return the first number from `number` on whose name is free. After a few attempts, the steps grow.

    Only the number changes. The key stays, because pods carry it and upstream computes it too.
    """
    attempts = (number + (step if step < _IN_A_ROW else 1 << (step - 1)) for step in count())
    free, skipped = next(attempts), list[str]()
    while (name := revision_name(owner, fingerprint, free)) in taken:
        skipped.append(name)
        free = next(attempts)
    return Place(free, tuple(skipped))
