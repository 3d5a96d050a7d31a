"""Choose the target revision of a set, and plan all writes to its history.

One algorithm for every kind, after the Kubernetes design “Controller History”: `choose` creates revisions,
`plan_upkeep` repairs and adopts them, `plan_pruning` deletes them. Each kind supplies a `Codec`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
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
    """A running state under a key that no revision records.

    is_desired: it equals the desired state; then it is recorded as spelled in the set. guessed: the parts
    that could not be derived, in words; empty if there are none.
    """

    key: str
    record: C
    is_desired: bool
    guessed: str = ""


@dataclass(frozen=True, kw_only=True)
class Codec(ABC, Generic[C]):
    """The history of one set in one pass, and how its kind compares revisions.

    owner: the set. adopter: the owner reference for orphans; None while the set must not adopt. revisions:
    those that the set controls or may adopt. taken: ControllerRevisions of other owners that have names for
    revisions of the set. desired: the state that the spec describes. carried: keys of running objects; those
    that are neither recorded nor reconstructed are not reused.
    """

    format: Format[C]
    owner: Object
    adopter: Object | None
    revisions: Sequence[Revision[C]]
    taken: Sequence[Object]
    desired: C
    carried: frozenset[str] = frozenset()

    @abstractmethod
    def is_equal(self, revision: Revision[C]) -> bool:
        """Whether a usable revision means the same as the desired state."""

    def is_same_data(self, revision: Revision[C]) -> bool:
        """Whether a usable revision with the same hash is no collision."""
        return self.is_equal(revision)

    @abstractmethod
    def preference(self, revision: Revision[C]) -> tuple[bool, ...]:
        """Sort key among equal revisions: the highest restarts nothing; then the newest is chosen."""

    @abstractmethod
    def rebuilt(self) -> Iterable[Reconstruction[C]]:
        """Running states without a revision; the last one is recorded as the newest."""

    def fingerprint(self, rebuilt: Reconstruction[C]) -> str:
        """The hash in the name of its revision."""
        return rebuilt.key

    @abstractmethod
    def before(self, revisions: Sequence[Revision[C]]) -> Revision[C] | None:
        """The revision that the desired state replaces. revisions: reconstructed ones, then by age."""

    @abstractmethod
    def changes(self, before: Revision[C]) -> str:
        """What changes from that revision to the desired state, in words."""

    def announce_new(self, draft: Revision[C], before: Revision[C] | None) -> tuple[Announce, ...]:
        """Events about the target revision, if it is recorded."""
        return ()

    @abstractmethod
    def announce_rebuilt(self, draft: Revision[C], guessed: str) -> tuple[Announce, ...]:
        """Events about a revision rebuilt from running pods that had none. guessed: see `Reconstruction`."""

    def edited_annotations(self, revision: Revision[C], target: str) -> Mapping[str, str | None]:
        """The patch that restores annotations as recorded. target: name of the target revision."""
        return revision.edits

    def announce_edited(self, revision: Revision[C], edited: Collection[str]) -> tuple[Announce, ...]:
        """Events about restored labels and annotations, except the name label."""
        return ()


@dataclass(frozen=True, slots=True)
class Target(Generic[C]):
    """The target revision.

    content: the revision itself. records: revisions by key, the target and those that `actions` record
    included. actions: writes that must precede any action on the target. collisions: number of hash
    collisions when it was recorded; None if it was not recorded now.
    """

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
        """Whether this pass records the target revision."""
        return not self.content.uid


def choose(codec: Codec[C]) -> Target[C]:
    """Reuse an equal revision of any age; record a new one only if there is none.

    Running states without a revision are recorded first. One that equals the desired state becomes the
    target, unless an equal revision is preferred.
    """
    filled, creates, is_desired = _filled(codec)
    records = {revision.key: revision for revision in (*usable(codec.revisions), *filled)}
    existing = recognise(codec.revisions, codec.is_equal, codec.preference)
    if is_desired:
        preference = codec.preference(filled[-1])
        if existing is None or (any(preference) and preference >= codec.preference(existing)):
            return Target(filled[-1], records, tuple(creates))
    if existing is None:
        return _record(codec, filled, creates, records)
    reuse = plan_reuse(existing, next_number(codec.revisions) - 1 + len(filled), codec.adopter)
    # Two revisions may share a key.
    return Target(existing, {**records, existing.key: existing}, (*creates, *reuse))


def recognise(
    revisions: Iterable[Revision[C]],
    is_equal: Callable[[Revision[C]], bool],
    preference: Callable[[Revision[C]], tuple[bool, ...]] = lambda revision: (),
) -> Revision[C] | None:
    """The newest of the preferred usable revisions that are equal and not being deleted."""
    equal = (
        revision
        for revision in revisions
        if not revision.is_terminating and not revision.broken and is_equal(revision)
    )
    return max(equal, key=lambda revision: (preference(revision), age(revision)), default=None)


def plan_reuse(existing: Revision[C], newest: int, owner: Object | None) -> tuple[Action, ...]:
    """Make a revision the newest (its key stays), and adopt it if it is an orphan.

    newest: the highest number of the history. owner: the owner reference for an orphan; None while the set
    must not adopt.
    """
    patch: dict[str, object] = {}
    why = "an orphan of the set is adopted"
    if existing.number < min(newest, HIGHEST_NUMBER):
        patch["revision"] = storable(newest + 1)
        why = f"the spec matches revision {existing.number} again"
    if existing.is_orphan:
        # The write that adopts an orphan also raises its number.
        return (SetOwner(existing.reference, owner, why, patch=patch),) if owner is not None else ()
    return (Merge(existing.reference, patch, why=why),) if patch else ()


def _filled(codec: Codec[C]) -> tuple[list[Revision[C]], list[Create], bool]:
    """Missing revisions to record, each with a higher number than the one before, their creates, and whether
    the last one equals the desired state.
    """
    filled, creates, is_desired = list[Revision[C]](), list[Create](), False
    generation = metadata_of(codec.owner).get("generation", 0)
    for rebuilt in codec.rebuilt():
        place = _place(codec, codec.fingerprint(rebuilt), filled)
        revision = draft(
            codec.owner, codec.fingerprint(rebuilt), place.number, rebuilt.record, rebuilt.key, generation
        )
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
    """Record the desired state under the first key that no other template has."""
    history = [*filled, *usable(codec.revisions)]
    key_at, unexplained = codec.desired.key_at, codec.carried - records.keys()
    probe = free_probe(key_at, unexplained | keys_of_others(history, codec.is_equal))
    collided = collisions_below(key_at, probe, unexplained | keys_of_others(history, codec.is_same_data))
    before = codec.before(history)
    why = codec.changes(before) if before is not None else "the first revision of the set"
    place = _place(codec, key_at(probe), filled)
    revision = draft(codec.owner, key_at(probe), place.number, codec.desired)
    create = _create(codec, revision, place, why, codec.announce_new(revision, before))
    records = {**records, revision.key: revision}
    # Not added up, because a pass is repeated if its writes fail.
    stored = (codec.owner.get("status") or {}).get("collisionCount")
    collisions = max(stored if type(stored) is int else 0, collided) if collided else None
    return Target(revision, records, (*creates, create), collisions)


def _place(codec: Codec[C], fingerprint: str, filled: Sequence[Revision[C]]) -> Place:
    """Number and name of a revision that is recorded after those."""
    lowest = filled[-1].number + 1 if filled else next_number(codec.revisions)
    taken = {*map(name_of, codec.taken), *(revision.name for revision in codec.revisions)}
    return free_place(codec.owner, fingerprint, lowest, taken)


def _create(
    codec: Codec[C], revision: Revision[C], place: Place, why: str, announce: tuple[Announce, ...]
) -> Create:
    """The create of a revision, with an Event for each name that belongs to another owner.

    Revisions of a deleted set of the same name are not reported: they are garbage collected.
    """
    owner = codec.owner
    for other in codec.taken:
        controller = controller_of(other) or {}
        is_of_a_former_set = (controller.get("kind"), controller.get("name")) == (
            owner["kind"],
            name_of(owner),
        )
        if name_of(other) in place.skipped and not is_of_a_former_set:
            note = (
                f"{existing_note(other)}: the revision is recorded as {revision.name} instead, with the same "
                f"key; {name_of(other)} is left untouched"
            )
            about, related = Reference.to(owner), Reference.to(other)
            announce = (*announce, Announce(about, "NameClash", "Create", note, "Warning", related))
    return Create(build(codec.format, owner, revision), why=why, announce=announce)


def plan_upkeep(codec: Codec[C], target: Target[C]) -> tuple[Action, ...]:
    """Restore edited metadata of the set's revisions, and adopt orphans except the target."""
    own = (revision for revision in codec.revisions if not (revision.is_orphan or revision.is_terminating))
    repairs = (_repair(codec, revision, target.name) for revision in own)
    actions: list[Action] = [repair for repair in repairs if repair is not None]
    if codec.adopter is not None:
        orphans = (revision for revision in codec.revisions if revision.is_orphan)
        actions += plan_adoption((orphan for orphan in orphans if orphan.name != target.name), codec.adopter)
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


def plan_adoption(orphans: Iterable[Revision[C]], owner: Object) -> tuple[Action, ...]:
    """Adopt an orphaned history as a whole (ControllerRef rules)."""
    return tuple(
        SetOwner(orphan.reference, owner, why=f"revision {orphan.number} has no owner") for orphan in orphans
    )


def plan_pruning(
    revisions: Iterable[Revision[C]], live_keys: Collection[str], limit: int, named: Collection[str] = ()
) -> tuple[Action, ...]:
    """Delete unneeded revisions, whether a rollout is done, in progress, paused or stuck."""
    return tuple(
        Delete(revision.reference, "Background", why=f"no pod is of revision {revision.number} any more")
        for revision in prunable(revisions, live_keys, limit, named)
    )


def prunable(
    revisions: Iterable[Revision[C]], live_keys: Collection[str], limit: int, named: Collection[str] = ()
) -> list[Revision[C]]:
    """Unused revisions beyond the newest `limit` of them; oldest first, broken ones last, because users may
    want to see them.

    live_keys: keys of running objects, of those that may be recreated, and of the target. named: revisions in
    the status. Both stay, and so do the newest one and orphans.
    """
    owned = (revision for revision in revisions if not (revision.is_orphan or revision.is_terminating))
    spare = [revision for revision in sorted(owned, key=age)[:-1] if revision.name not in named]
    spare = [revision for revision in spare if revision.broken or revision.key not in live_keys]
    spare.sort(key=lambda revision: bool(revision.broken))
    return spare[: max(0, len(spare) - limit)]


def former_name(target: Target[C], keys: Iterable[str]) -> str:
    """The previous revision, for a `status.currentRevision` that is not set.

    keys: of running objects, in the order of preference.
    """
    others = (key for key in keys if key != target.key and key in target.records)
    return next((target.records[key].name for key in others), target.name)


def keys_of_others(revisions: Iterable[Revision[C]], is_equal: Callable[[Revision[C]], bool]) -> set[str]:
    """Keys of usable revisions that are not equal."""
    return {revision.key for revision in revisions if not revision.broken and not is_equal(revision)}


def free_probe(key_at: Callable[[int], str], taken: Container[str]) -> int:
    """The lowest number at which the key does not belong to another template."""
    return next(probe for probe in count() if key_at(probe) not in taken)


def collisions_below(key_at: Callable[[int], str], probe: int, taken: Container[str]) -> int:
    """Number of keys below `probe` that were skipped because they belong to other data."""
    return sum(key_at(lower) in taken for lower in range(probe))
