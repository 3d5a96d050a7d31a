"""Choose the target revision of a set, and plan all writes to its history.

One algorithm for every kind, after the Kubernetes design “Controller History”: `choose` decides what is
recorded, `plan_upkeep` repairs and adopts, `plan_pruning` deletes. A kind hands in a `Codec`, which knows
what its revisions mean.
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
    """What runs under a key that no revision records.

    is_wanted: it is what the set asks for; then the record is spelled as the set spells it. guessed: parts
    that nothing shows, in words; empty if there are none.
    """

    key: str
    record: C
    is_wanted: bool
    guessed: str = ""


@dataclass(frozen=True, kw_only=True)
class Codec(ABC, Generic[C]):
    """What a kind knows about the history of one set in one pass.

    owner: the set. adopter: the reference that orphans get; None while the set must not adopt. revisions:
    those that the set controls or may adopt. taken: ControllerRevisions of other owners that have names which
    revisions of the set were to get. desired: what the set asks for now. carried: keys that run; those that
    are neither recorded nor reconstructed are given to no other template.
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
        """Whether it is no collision if a usable revision has the same hash."""
        return self.is_equal(revision)

    @abstractmethod
    def preference(self, revision: Revision[C]) -> tuple[bool, ...]:
        """Which of several equal revisions restarts nothing; the highest wins, before the newest."""

    @abstractmethod
    def rebuilt(self) -> Iterable[Reconstruction[C]]:
        """What runs unrecorded; the last one is recorded as the newest."""

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
        """Events about the revision of what runs unrecorded."""

    def edited_annotations(self, revision: Revision[C], target: str) -> Mapping[str, str | None]:
        """The patch that restores annotations as recorded. target: name of the target revision."""
        return revision.edits

    def announce_edited(self, revision: Revision[C], edited: Collection[str]) -> tuple[Announce, ...]:
        """Events about labels and annotations that are restored; the name label is none of them."""
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
        """Revision key of what is made from it."""
        return self.content.key

    @property
    def name(self) -> str:
        """The name of its ControllerRevision."""
        return self.content.name

    @property
    def revision(self) -> Reference:
        """Its ControllerRevision."""
        return self.content.reference

    @property
    def is_new(self) -> bool:
        """Whether this pass records the target revision."""
        return not self.content.uid


@dataclass(frozen=True, slots=True)
class _Fill(Generic[C]):
    """The revision of what runs unrecorded. is_wanted: as in `Reconstruction`."""

    revision: Revision[C]
    create: Create
    is_wanted: bool


def choose(codec: Codec[C]) -> Target[C]:
    """Reuse an equal revision of any age; record a new one only if there is none.

    What runs without a revision is recorded first. If that is what the set asks for, it becomes the target,
    unless an equal revision is preferred.
    """
    fills = _fills(codec)
    filled, creates = [fill.revision for fill in fills], [fill.create for fill in fills]
    records = {revision.key: revision for revision in (*usable(codec.revisions), *filled)}
    existing = recognise(codec.revisions, codec.is_equal, codec.preference)
    if fills and fills[-1].is_wanted and _prevails(codec, filled[-1], existing):
        return Target(filled[-1], records, tuple(creates))
    if existing is None:
        return _record(codec, filled, creates, records)
    reuse = plan_reuse(existing, next_number(codec.revisions) - 1 + len(fills), codec.adopter)
    # Two revisions may share a key.
    return Target(existing, {**records, existing.key: existing}, (*creates, *reuse))


def _prevails(codec: Codec[C], filled: Revision[C], existing: Revision[C] | None) -> bool:
    preference = codec.preference(filled)
    return existing is None or (any(preference) and preference >= codec.preference(existing))


def recognise(
    revisions: Iterable[Revision[C]],
    is_equal: Callable[[Revision[C]], bool],
    preference: Callable[[Revision[C]], tuple[bool, ...]] = lambda revision: (),
) -> Revision[C] | None:
    """The newest of the preferred usable revisions that are equal and not being deleted."""
    equal = (
        revision
        for revision in revisions
        if not revision.is_leaving and not revision.broken and is_equal(revision)
    )
    return max(equal, key=lambda revision: (preference(revision), age(revision)), default=None)


def plan_reuse(existing: Revision[C], newest: int, owner: Object | None) -> tuple[Action, ...]:
    """Make a revision the newest (its key stays), and adopt it if it is an orphan.

    newest: the highest number there is. owner: the reference that an orphan gets; None while none may be
    adopted.
    """
    patch: dict[str, object] = {}
    why = "an orphan of the set is adopted"
    if existing.number < min(newest, HIGHEST_NUMBER):
        patch["revision"] = storable(newest + 1)
        why = f"the set asks again for what revision {existing.number} holds"
    if existing.is_orphan:
        # An orphan gets its owner with the first write.
        return (SetOwner(existing.reference, owner, why, patch=patch),) if owner is not None else ()
    return (Merge(existing.reference, patch, why=why),) if patch else ()


def _fills(codec: Codec[C]) -> list[_Fill[C]]:
    """Missing revisions to record, each with a higher number than the one before."""
    fills: list[_Fill[C]] = []
    generation = metadata_of(codec.owner).get("generation", 0)
    for rebuilt in codec.rebuilt():
        place = _place(codec, codec.fingerprint(rebuilt), [fill.revision for fill in fills])
        revision = draft(
            codec.owner, codec.fingerprint(rebuilt), place.number, rebuilt.record, rebuilt.key, generation
        )
        why = f"{codec.format.made} run under key {rebuilt.key}, which no revision records"
        create = _create(codec, revision, place, why, codec.announce_rebuilt(revision, rebuilt.guessed))
        fills.append(_Fill(revision, create, rebuilt.is_wanted))
    return fills


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
    return Target(revision, records, (*creates, create), _collisions(codec.owner, collided))


def _place(codec: Codec[C], fingerprint: str, filled: Sequence[Revision[C]]) -> Place:
    """Number and name of a revision that is recorded after those."""
    lowest = filled[-1].number + 1 if filled else next_number(codec.revisions)
    taken = {*map(name_of, codec.taken), *(revision.name for revision in codec.revisions)}
    return free_place(codec.owner, fingerprint, lowest, taken)


def _create(
    codec: Codec[C], revision: Revision[C], place: Place, why: str, announce: tuple[Announce, ...]
) -> Create:
    """The write that records a revision, which reports each name that another owner has once.

    Revisions left by a deleted set of the same name are not reported: they are garbage collected.
    """
    passed = (stranger for stranger in codec.taken if name_of(stranger) in place.passed)
    clashes = (
        _passed_over(codec.owner, stranger, revision.reference)
        for stranger in passed
        if not _is_of_a_former_set(stranger, codec.owner)
    )
    return Create(build(codec.format, codec.owner, revision), why=why, announce=(*announce, *clashes))


def _passed_over(owner: Object, stranger: Object, instead: Reference) -> Announce:
    note = (
        f"{existing_note(stranger)}: the revision is recorded as {instead.name} instead, with the same key; "
        f"{name_of(stranger)} is left untouched"
    )
    return Announce(Reference.to(owner), "NameClash", "Create", note, "Warning", Reference.to(stranger))


def _is_of_a_former_set(revision: Object, owner: Object) -> bool:
    controller = controller_of(revision) or {}
    return (controller.get("kind"), controller.get("name")) == (owner["kind"], name_of(owner))


def _collisions(owner: Object, collisions: int) -> int | None:
    # Not a sum: a pass is repeated if its writes fail.
    stored = (owner.get("status") or {}).get("collisionCount")
    return max(stored if type(stored) is int else 0, collisions) if collisions else None


def plan_upkeep(codec: Codec[C], target: Target[C]) -> tuple[Action, ...]:
    """Restore edited metadata of the set's revisions, and adopt orphans beside the target."""
    own = (revision for revision in codec.revisions if not (revision.is_orphan or revision.is_leaving))
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
    """Revisions that are neither running nor wanted, beyond the newest `limit` of them; oldest first, broken
    ones last: users may want to see them.

    live_keys: of what runs, may be recreated, or is wanted. named: revisions that the status names. Both
    stay, and so do the newest one and orphans.
    """
    owned = (revision for revision in revisions if not (revision.is_orphan or revision.is_leaving))
    spare = [revision for revision in sorted(owned, key=age)[:-1] if revision.name not in named]
    spare = [revision for revision in spare if revision.broken or revision.key not in live_keys]
    spare.sort(key=lambda revision: bool(revision.broken))
    return spare[: max(0, len(spare) - limit)]


def former_name(target: Target[C], keys: Iterable[str]) -> str:
    """`status.currentRevision` of a set that has none: the revision that it is leaving.

    keys: of what runs, in the order of preference.
    """
    others = (key for key in keys if key != target.key and key in target.records)
    return next((target.records[key].name for key in others), target.name)


def keys_of_others(revisions: Iterable[Revision[C]], is_equal: Callable[[Revision[C]], bool]) -> set[str]:
    """Keys of usable revisions that are not equal."""
    return {revision.key for revision in revisions if not revision.broken and not is_equal(revision)}


def free_probe(key_at: Callable[[int], str], taken: Container[str]) -> int:
    """The lowest number at which the key is not that of another template: two must never share one."""
    return next(probe for probe in count() if key_at(probe) not in taken)


def collisions_below(key_at: Callable[[int], str], probe: int, taken: Container[str]) -> int:
    """How many keys below `probe` were skipped because other data has them."""
    return sum(key_at(lower) in taken for lower in range(probe))
