"""Choose the target revision of a set, and plan all writes to its history.

One algorithm for every kind, after the Kubernetes design “Controller History”: `choose` decides what is
recorded, `plan_upkeep` repairs and adopts, `plan_pruning` deletes. A kind hands in a `Codec`, which knows
what its revisions mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Generic

from lws.history.revision import (
    HIGHEST_NUMBER,
    C,
    Draft,
    Format,
    R,
    Revision,
    age,
    build,
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


@dataclass(frozen=True)
class Codec(ABC, Generic[R, C]):
    """What a kind knows about the history of one set in one pass.

    owner: the set. adopter: the reference that orphans get; None while the set must not adopt. revisions:
    those that the set controls or may adopt. taken: ControllerRevisions of other owners that have names which
    revisions of the set were to get.
    """

    format: Format[C]
    owner: Object
    adopter: Object | None
    revisions: Sequence[R]
    taken: Sequence[Object]

    @property
    @abstractmethod
    def desired(self) -> C:
        """What the set asks for now."""

    @abstractmethod
    def key_at(self, probe: int) -> str:
        """The key of the desired state after that many collisions."""

    @abstractmethod
    def is_equal(self, revision: R) -> bool:
        """Whether a usable revision means the same as the desired state."""

    def is_same_data(self, revision: R) -> bool:
        """Whether it is no collision if a usable revision has the same hash."""
        return self.is_equal(revision)

    @abstractmethod
    def preference(self, revision: R) -> tuple[bool, ...]:
        """Which of several equal revisions restarts nothing; the highest wins, before the newest."""

    @abstractmethod
    def keeps(self, existing: R, rebuilt: Reconstruction[C]) -> bool:
        """Whether an equal revision stays the target although the same runs unrecorded under another key."""

    @abstractmethod
    def rebuilt(self) -> Iterable[Reconstruction[C]]:
        """What runs unrecorded; the last one is recorded as the newest."""

    def fingerprint(self, rebuilt: Reconstruction[C]) -> str:
        """The hash in the name of its revision."""
        return rebuilt.key

    def unexplained(self, recorded: Container[str]) -> Collection[str]:
        """Keys that run, but are neither recorded nor reconstructed: no other template may get them."""
        return ()

    @abstractmethod
    def decode(self, draft: Draft[C]) -> R:
        """The revision that a draft becomes, before it is stored."""

    @abstractmethod
    def before(self, revisions: Sequence[R]) -> R | None:
        """The revision that the desired state replaces. revisions: reconstructed ones, then by age."""

    @abstractmethod
    def changes(self, before: R) -> str:
        """What changes from that revision to the desired state, in words."""

    def announce_new(self, revision: Reference, key: str, before: R | None) -> tuple[Announce, ...]:
        """Events about the target revision, if it is recorded."""
        return ()

    @abstractmethod
    def announce_rebuilt(self, revision: Reference, rebuilt: Reconstruction[C]) -> tuple[Announce, ...]:
        """Events about the revision of what runs unrecorded."""

    def edited_annotations(self, revision: R, target: str) -> Mapping[str, str | None]:
        """The patch that restores annotations as recorded. target: name of the target revision."""
        return {}

    def announce_edited(self, revision: R, edited: Collection[str]) -> tuple[Announce, ...]:
        """Events about labels and annotations that are restored; the name label is none of them."""
        return ()


@dataclass(frozen=True, slots=True)
class Target(Generic[R]):
    """The target revision.

    key: revision key of what is made from it. name: of its ControllerRevision. revision: that object, without
    UID until it is stored. records: revisions by key, the target and those that `actions` record included.
    actions: writes that must precede any action on the target. collisions: number of hash collisions when it
    was recorded; None if it was not recorded now. filled: by key, names of missing revisions that `actions`
    record.
    """

    key: str
    name: str
    revision: Reference
    records: Mapping[str, R]
    actions: tuple[Action, ...] = ()
    collisions: int | None = None
    filled: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        """Whether this pass records the target revision."""
        return not self.revision.uid

    @property
    def content(self) -> R:
        """The target revision, decoded."""
        return self.records[self.key]


@dataclass(frozen=True, slots=True)
class _Fill(Generic[R, C]):
    """A missing revision of what runs. number: the number in its name."""

    rebuilt: Reconstruction[C]
    revision: R
    create: Create
    number: int

    @property
    def name(self) -> str:
        return name_of(self.create.intent)


def choose(codec: Codec[R, C]) -> Target[R]:
    """Reuse an equal revision of any age; record a new one only if there is none.

    What runs without a revision is recorded first. If that is what the set asks for, it becomes the target,
    unless an equal revision stays it.
    """
    fills = _fills(codec)
    existing = recognise(codec.revisions, codec.is_equal, codec.preference)
    records = {revision.key: revision for revision in usable(codec.revisions)}
    records |= {fill.rebuilt.key: fill.revision for fill in fills}
    last = fills[-1] if fills else None
    if (
        last is not None
        and last.rebuilt.is_wanted
        and (existing is None or not codec.keeps(existing, last.rebuilt))
    ):
        target = Target(last.rebuilt.key, last.name, Reference.to(last.create.intent), records)
    elif existing is not None:
        actions = plan_reuse(existing, next_number(codec.revisions) - 1 + len(fills), codec.adopter)
        # Two revisions may share a key.
        records[existing.key] = existing
        target = Target(existing.key, existing.name, existing.reference, records, actions)
    else:
        target = _record(codec, fills, records)
    return replace(
        target,
        actions=(*(fill.create for fill in fills), *target.actions),
        filled={fill.rebuilt.key: fill.name for fill in fills},
    )


def recognise(
    revisions: Iterable[R],
    is_equal: Callable[[R], bool],
    preference: Callable[[R], tuple[bool, ...]] = lambda revision: (),
) -> R | None:
    """The newest of the preferred usable revisions that are equal and not being deleted."""
    equal = (
        revision
        for revision in revisions
        if not revision.is_leaving and not revision.broken and is_equal(revision)
    )
    return max(equal, key=lambda revision: (preference(revision), age(revision)), default=None)


def plan_reuse(existing: Revision, newest: int, owner: Object | None) -> tuple[Action, ...]:
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


def _fills(codec: Codec[R, C]) -> list[_Fill[R, C]]:
    """Missing revisions to record, each with a higher number than the one before."""
    fills: list[_Fill[R, C]] = []
    generation = metadata_of(codec.owner).get("generation", 0)
    for rebuilt in codec.rebuilt():
        why = f"{codec.format.made} run under key {rebuilt.key}, which no revision records"
        draft = Draft(rebuilt.record, rebuilt.key, codec.fingerprint(rebuilt), generation)
        create, number = _create(codec, draft, fills, why)
        announce = codec.announce_rebuilt(Reference.to(create.intent), rebuilt)
        create = replace(create, announce=(*announce, *create.announce))
        fills.append(_Fill(rebuilt, codec.decode(draft), create, number))
    return fills


def _record(codec: Codec[R, C], fills: Sequence[_Fill[R, C]], records: Mapping[str, R]) -> Target[R]:
    """Record the desired state under the first key that no other template has."""
    history = [*(fill.revision for fill in fills), *usable(codec.revisions)]
    unexplained = frozenset(codec.unexplained(records.keys()))
    probe = free_probe(codec.key_at, unexplained | keys_of_others(history, codec.is_equal))
    others = unexplained | keys_of_others(history, codec.is_same_data)
    collisions = collisions_below(codec.key_at, probe, others)
    key, before = codec.key_at(probe), codec.before(history)
    why = codec.changes(before) if before is not None else "the first revision of the set"
    draft = Draft(codec.desired, key, key)
    create, _ = _create(codec, draft, fills, why)
    reference = Reference.to(create.intent)
    create = replace(create, announce=(*codec.announce_new(reference, key, before), *create.announce))
    records = {**records, key: codec.decode(draft)}
    return Target(key, reference.name, reference, records, (create,), _collisions(codec.owner, collisions))


def _create(
    codec: Codec[R, C], draft: Draft[C], fills: Sequence[_Fill[R, C]], why: str
) -> tuple[Create, int]:
    """The write that records a draft after `fills`, and the number in its name.

    Each name that another owner has is reported once. Revisions left by a deleted set of the same name are
    not reported: they are garbage collected.
    """
    owner = codec.owner
    lowest = fills[-1].number + 1 if fills else next_number(codec.revisions)
    taken = {*map(name_of, codec.taken), *(revision.name for revision in codec.revisions)}
    place = free_place(owner, draft.fingerprint, lowest, taken)
    intent = build(codec.format, owner, draft, place.number)
    announce = tuple(
        _passed_over(owner, stranger, Reference.to(intent))
        for stranger in codec.taken
        if name_of(stranger) in place.passed and not _is_of_a_former_set(stranger, owner)
    )
    return Create(intent, why=why, announce=announce), place.number


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


def plan_upkeep(codec: Codec[R, C], target: Target[R]) -> tuple[Action, ...]:
    """Restore edited metadata of the set's revisions, and adopt orphans beside the target."""
    own = (revision for revision in codec.revisions if not (revision.is_orphan or revision.is_leaving))
    repairs = (_repair(codec, revision, target.name) for revision in own)
    actions: list[Action] = [repair for repair in repairs if repair is not None]
    if codec.adopter is not None:
        orphans = (revision for revision in codec.revisions if revision.is_orphan)
        actions += plan_adoption((orphan for orphan in orphans if orphan.name != target.name), codec.adopter)
    return tuple(actions)


def _repair(codec: Codec[R, C], revision: R, target: str) -> Merge | None:
    labels = edited_labels(codec.format, codec.owner, revision)
    annotations = codec.edited_annotations(revision, target)
    edited = {*labels, *annotations}
    if not edited:
        return None
    patch = {part: values for part, values in (("labels", labels), ("annotations", annotations)) if values}
    announce = codec.announce_edited(revision, edited - {codec.format.name_label})
    why = f"edited: {', '.join(sorted(edited))}"
    return Merge(revision.reference, {"metadata": patch}, why=why, announce=announce)


def plan_adoption(orphans: Iterable[Revision], owner: Object) -> tuple[Action, ...]:
    """Adopt an orphaned history as a whole (ControllerRef rules)."""
    return tuple(
        SetOwner(orphan.reference, owner, why=f"revision {orphan.number} has no owner") for orphan in orphans
    )


def plan_pruning(
    revisions: Iterable[Revision], live_keys: Collection[str], limit: int, named: Collection[str] = ()
) -> tuple[Action, ...]:
    """Delete unneeded revisions, whether a rollout is done, in progress, paused or stuck."""
    return tuple(
        Delete(revision.reference, "Background", why=f"no pod is of revision {revision.number} any more")
        for revision in prunable(revisions, live_keys, limit, named)
    )


def prunable(
    revisions: Iterable[R], live_keys: Collection[str], limit: int, named: Collection[str] = ()
) -> list[R]:
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


def former_name(names: Mapping[str, str], keys: Iterable[str], target: Target[R]) -> str:
    """`status.currentRevision` of a set that has none: the revision that it is leaving.

    names: of revisions, by key. keys: of what runs, in the order of preference.
    """
    return next((names[key] for key in keys if key != target.key and key in names), target.name)


def keys_of_others(revisions: Iterable[R], is_equal: Callable[[R], bool]) -> set[str]:
    """Keys of usable revisions that are not equal."""
    return {revision.key for revision in revisions if not revision.broken and not is_equal(revision)}


def free_probe(key_at: Callable[[int], str], taken: Container[str]) -> int:
    """The lowest number at which the key is not that of another template: two must never share one."""
    return next(probe for probe in count() if key_at(probe) not in taken)


def collisions_below(key_at: Callable[[int], str], probe: int, taken: Container[str]) -> int:
    """How many keys below `probe` were skipped because other data has them."""
    return sum(key_at(lower) in taken for lower in range(probe))
