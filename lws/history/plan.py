"""Choose the target revision of a set, and plan all writes to its history.

The algorithm is the same for every kind of workload. It follows the Kubernetes design “Controller History”:
`choose` creates revisions, `plan_revision_repairs` repairs and adopts them, `plan_pruning` deletes them.
Each kind supplies a `Codec`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Generic

from lws.history.revision import (
    HIGHEST_NUMBER,
    C,
    Format,
    Place,
    Revision,
    age,
    build,
    draft,
    edited_labels,
    free_place,
    next_number,
    storable,
    usable,
)
from lws.kube.metadata import controller_of, metadata_of, name_of
from lws.kube.ownership import existing_note
from lws.runtime.actions import Action, Announce, Create, Delete, Merge, Object, Reference, SetOwner


@dataclass(frozen=True, slots=True)
class Reconstruction(Generic[C]):
    """The state of running objects under a key that no revision records.

    is_desired: whether the state equals the desired state; it is then recorded as spelled in the set.
    guessed: the parts of the state that could not be derived, in words; empty if there are none.
    """

    key: str
    record: C
    is_desired: bool
    guessed: str = ""


@dataclass(frozen=True, kw_only=True)
class Codec(ABC, Generic[C]):
    """The history of one set in one pass, and how its kind compares revisions.

    owner: the set.
    adopter: the owner reference for orphans; None if the set must not adopt.
    revisions: those that the set controls or may adopt.
    taken_revisions: ControllerRevisions of other owners whose names the set could use.
    desired: the state that the spec describes.
    carried: keys of running objects; one that is neither recorded nor reconstructed is not reused.
    """

    format: Format[C]
    owner: Object
    adopter: Object | None
    revisions: Sequence[Revision[C]]
    taken_revisions: Sequence[Object]
    desired: C
    carried: frozenset[str] = frozenset()

    @abstractmethod
    def is_equal(self, revision: Revision[C]) -> bool:
        """Return whether a usable revision is equivalent to the desired state."""

    def is_same_data(self, revision: Revision[C]) -> bool:
        """Return whether a usable revision with the same hash has the same data and is no collision."""
        return self.is_equal(revision)

    @abstractmethod
    def preference(self, revision: Revision[C]) -> tuple[bool, ...]:
        """Return a sort key: the highest restarts no pods. Of equal keys, the newest revision is chosen."""

    @abstractmethod
    def rebuilt(self) -> Iterable[Reconstruction[C]]:
        """Return the running states without a revision; the last one is recorded as the newest revision."""

    def fingerprint(self, rebuilt: Reconstruction[C]) -> str:
        """Return the hash for the name of the revision that records a running state."""
        return rebuilt.key

    @abstractmethod
    def before(self, revisions: Sequence[Revision[C]]) -> Revision[C] | None:
        """Return the revision that the desired state replaces. revisions: reconstructed ones, then by age."""

    @abstractmethod
    def changes(self, before: Revision[C]) -> str:
        """Describe the changes from the revision `before` to the desired state."""

    def announce_new(self, draft: Revision[C], before: Revision[C] | None) -> tuple[Announce, ...]:
        """Return the Events to emit if the target revision is recorded."""
        return ()

    @abstractmethod
    def announce_rebuilt(self, draft: Revision[C], guessed: str) -> tuple[Announce, ...]:
        """Return the Events about a revision rebuilt from running pods. guessed: see `Reconstruction`."""

    def edited_annotations(self, revision: Revision[C], target: str) -> Mapping[str, str | None]:
        """Return the patch that repairs the recorded annotations. target: name of the target revision."""
        return revision.edits

    def announce_edited(self, revision: Revision[C], edited: Collection[str]) -> tuple[Announce, ...]:
        """Return the Events about repaired labels and annotations. The name label is never among `edited`."""
        return ()


@dataclass(frozen=True, slots=True)
class Target(Generic[C]):
    """The target revision.

    codec: the history that it was chosen from.
    records: revisions by key, including the target and those that `actions` record.
    actions: writes that must precede any action on the target.
    collisions: the new `status.collisionCount`; None if the status names the target already, or the target
      has met no hash collision.
    """

    codec: Codec[C]
    content: Revision[C]
    records: Mapping[str, Revision[C]]
    actions: tuple[Action, ...] = ()
    collisions: int | None = None

    @property
    def key(self) -> str:
        return self.content.key

    @property
    def name(self) -> str:
        return self.content.name

    @property
    def revision(self) -> Reference:
        return self.content.reference

    @property
    def is_new(self) -> bool:
        return not self.content.uid


def choose(codec: Codec[C]) -> Target[C]:
    """Reuse an equal revision of any age, and record a new one only if there is none.

    Running states without a revision are recorded first. If one of them equals the desired state, its
    revision becomes the target, unless an equal existing revision is preferred.
    """
    filled, creates, is_desired = _filled(codec)
    records = {revision.key: revision for revision in (*usable(codec.revisions), *filled)}
    existing = recognise(codec.revisions, codec.is_equal, codec.preference)
    if is_desired:
        preference = codec.preference(filled[-1])
        if existing is None or (any(preference) and preference >= codec.preference(existing)):
            return Target(codec, filled[-1], records, tuple(creates))
    if existing is None:
        return _record(codec, filled, creates, records)
    reuse = plan_reuse(existing, next_number(codec.revisions) - 1 + len(filled), codec.adopter)
    # Two revisions may share a key. The target takes precedence.
    records = {**records, existing.key: existing}
    return Target(codec, existing, records, (*creates, *reuse), _collisions_of(codec, existing))


def recognise(
    revisions: Iterable[Revision[C]],
    is_equal: Callable[[Revision[C]], bool],
    preference: Callable[[Revision[C]], tuple[bool, ...]] = lambda revision: (),
) -> Revision[C] | None:
    """Return the most preferred, then newest, of the equal, usable, not terminating revisions; else None."""
    equal = (
        revision
        for revision in revisions
        if not revision.is_terminating and not revision.broken and is_equal(revision)
    )
    return max(equal, key=lambda revision: (preference(revision), age(revision)), default=None)


def plan_reuse(existing: Revision[C], newest: int, owner: Object | None) -> tuple[Action, ...]:
    """Make a revision newer than number `newest` under its old key. `owner` adopts an orphan, unless None."""
    patch: dict[str, object] = {}
    why = "an orphan of the set is adopted"
    if existing.number < min(newest, HIGHEST_NUMBER):
        patch["revision"] = storable(newest + 1)
        why = f"the spec matches revision {existing.number} again"
    if existing.is_orphan:
        # One write adopts an orphan and raises its number.
        return (SetOwner(existing.reference, owner, why, patch=patch),) if owner is not None else ()
    return (Merge(existing.reference, patch, why=why),) if patch else ()


def _filled(codec: Codec[C]) -> tuple[list[Revision[C]], list[Create], bool]:
    """Record the running states without a revision. Report also whether the last one is the desired state."""
    filled, creates, is_desired = list[Revision[C]](), list[Create](), False
    generation = metadata_of(codec.owner).get("generation", 0)
    for rebuilt in codec.rebuilt():
        fingerprint = codec.fingerprint(rebuilt)
        place = _place(codec, fingerprint, filled)
        revision = draft(codec.owner, fingerprint, place.number, rebuilt.record, rebuilt.key, generation)
        why = f"{codec.format.children} run under key {rebuilt.key}, which no revision records"
        announce = codec.announce_rebuilt(revision, rebuilt.guessed)
        creates.append(_create(codec, revision, place, why, announce))
        filled.append(revision)
        is_desired = rebuilt.is_desired
    return filled, creates, is_desired


def _record(
    codec: Codec[C],
    filled: Sequence[Revision[C]],
    creates: Sequence[Create],
    records: Mapping[str, Revision[C]],
) -> Target[C]:
    history = [*filled, *usable(codec.revisions)]
    key_at, unexplained = codec.desired.key_at, codec.carried - records.keys()
    taken_keys = unexplained | {revision.key for revision in history if not codec.is_equal(revision)}
    probe = next(probe for probe in count() if key_at(probe) not in taken_keys)
    collisions = _collisions(codec, history, unexplained, probe)
    before = codec.before(history)
    why = codec.changes(before) if before is not None else "the first revision of the set"
    place = _place(codec, key_at(probe), filled)
    revision = draft(codec.owner, key_at(probe), place.number, codec.desired)
    create = _create(codec, revision, place, why, codec.announce_new(revision, before))
    records = {**records, revision.key: revision}
    return Target(codec, revision, records, (*creates, create), collisions)


def _collisions_of(codec: Codec[C], existing: Revision[C]) -> int | None:
    """Return the new `status.collisionCount` if the status does not name the existing target yet: the process
    may have ended between the create and the status.
    """
    if (codec.owner.get("status") or {}).get("updateRevision") == existing.name:
        return None
    history = usable(codec.revisions)
    probes = (probe for probe in range(len(history)) if codec.desired.key_at(probe) == existing.key)
    return _collisions(codec, history, frozenset(), next(probes, 0))


def _collisions(
    codec: Codec[C], history: Sequence[Revision[C]], unexplained: Collection[str], probe: int
) -> int | None:
    """Return the new `status.collisionCount` if the target has the key of this probe; None if no probe below
    met another revision. Nothing is added up, because a pass is repeated if its writes fail.
    """
    # Keys of the same data were skipped, too, but they are no collisions.
    of_others = {*unexplained, *(revision.key for revision in history if not codec.is_same_data(revision))}
    collided = sum(codec.desired.key_at(lower) in of_others for lower in range(probe))
    stored = (codec.owner.get("status") or {}).get("collisionCount")
    return max(stored if type(stored) is int else 0, collided) if collided else None


def _place(codec: Codec[C], fingerprint: str, filled: Sequence[Revision[C]]) -> Place:
    lowest = filled[-1].number + 1 if filled else next_number(codec.revisions)
    taken_names = {*map(name_of, codec.taken_revisions), *(revision.name for revision in codec.revisions)}
    return free_place(codec.owner, fingerprint, lowest, taken_names)


def _create(
    codec: Codec[C], revision: Revision[C], place: Place, why: str, announce: tuple[Announce, ...]
) -> Create:
    """Return the create, with an Event for each name that was skipped and will not be garbage-collected."""
    owner, former_set = codec.owner, (codec.owner["kind"], name_of(codec.owner))
    for existing in codec.taken_revisions:
        controller = controller_of(existing) or {}
        is_of_a_former_set = (controller.get("kind"), controller.get("name")) == former_set
        if name_of(existing) in place.skipped and not is_of_a_former_set:
            note = (
                f"{existing_note(existing)}: the revision is recorded as {revision.name} instead, with the "
                f"same key; {name_of(existing)} is left untouched"
            )
            about, related = Reference.to(owner), Reference.to(existing)
            announce = (*announce, Announce(about, "NameClash", "Create", note, "Warning", related))
    return Create(build(codec.format, owner, revision), why=why, announce=announce)


def plan_revision_repairs(target: Target[C]) -> tuple[Action, ...]:
    """Repair edited metadata of the set's revisions, and adopt all orphans except the target."""
    codec = target.codec
    own = (revision for revision in codec.revisions if not (revision.is_orphan or revision.is_terminating))
    repairs = (_repair(codec, revision, target.name) for revision in own)
    actions: list[Action] = [repair for repair in repairs if repair is not None]
    if codec.adopter is not None:
        orphans = (
            revision for revision in codec.revisions if revision.is_orphan and revision.name != target.name
        )
        # An orphaned history is adopted as a whole (ControllerRef rules).
        actions += (
            SetOwner(orphan.reference, codec.adopter, why=f"revision {orphan.number} has no owner")
            for orphan in orphans
        )
    return tuple(actions)


def _repair(codec: Codec[C], revision: Revision[C], target: str) -> Merge | None:
    labels = edited_labels(codec.format, codec.owner, revision)
    annotations = codec.edited_annotations(revision, target)
    edited = {*labels, *annotations}
    if not edited:
        return None
    patch = {part: values for part, values in (("labels", labels), ("annotations", annotations)) if values}
    announce = codec.announce_edited(revision, edited - {codec.format.name_label})
    why = f"edited: {', '.join(sorted(edited))}"
    return Merge(revision.reference, {"metadata": patch}, why=why, announce=announce)


def plan_pruning(
    revisions: Iterable[Revision[C]], live_keys: Collection[str], limit: int, named: Collection[str] = ()
) -> tuple[Action, ...]:
    """Delete the unused revisions in excess of `limit`, oldest first, in every state of a rollout.

    Broken revisions come last, because users may want to inspect them. The newest revision, orphans,
    revisions in `named` and usable revisions in `live_keys` are never pruned.
    live_keys: keys of running objects, of objects that may be recreated, and of the target.
    named: names of revisions in the status.
    """
    owned = (revision for revision in revisions if not (revision.is_orphan or revision.is_terminating))
    spare = [revision for revision in sorted(owned, key=age)[:-1] if revision.name not in named]
    spare = [revision for revision in spare if revision.broken or revision.key not in live_keys]
    spare.sort(key=lambda revision: bool(revision.broken))
    return tuple(
        Delete(revision.reference, "Background", why=f"no pod is of revision {revision.number} any more")
        for revision in spare[: max(0, len(spare) - limit)]
    )


def former_name(target: Target[C], keys: Iterable[str]) -> str:
    """Return the name for an unset `status.currentRevision`: of the first former revision among `keys`."""
    others = (key for key in keys if key != target.key and key in target.records)
    return next((target.records[key].name for key in others), target.name)
