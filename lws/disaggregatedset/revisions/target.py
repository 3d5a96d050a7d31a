"""Decide the target revision of a DisaggregatedSet, and the writes that must precede any action on it.

Out: a Target: the key, the content of each revision, and the writes that record the target and whatever runs
unrecorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lws.disaggregatedset.key import key_of
from lws.disaggregatedset.names import identity_of
from lws.disaggregatedset.revisions.reconstruction import RolesReconstruction, RunningChild, reconstruct
from lws.disaggregatedset.revisions.record import RecordedRoles, RolesRecord, build_revision, record
from lws.history import age, collisions_below, find, free_place, free_probe, next_number, plan_reuse
from lws.kube.metadata import controller_of
from lws.kube.ownership import existing_note
from lws.runtime.actions import Action, Announce, Create, Object, Reference
from lws.runtime.children import Owner


class Facts(Protocol):
    """What a pass knows of a set, as far as its history goes.

    children: LeaderWorkerSets that it controls. orphans: those that it would adopt. revisions: those that it
    controls or may adopt. taken: ControllerRevisions of others that have names which its own were to get.
    """

    @property
    def obj(self) -> Object: ...
    @property
    def owner(self) -> Owner: ...
    @property
    def children(self) -> Sequence[RunningChild]: ...
    @property
    def orphans(self) -> Sequence[Object]: ...
    @property
    def revisions(self) -> Sequence[RecordedRoles]: ...
    @property
    def taken(self) -> Sequence[Object]: ...


@dataclass(frozen=True, slots=True)
class TargetRevision:
    """The target revision.

    key: what children are to carry. name: of its ControllerRevision. revision: that object, once stored.
    records: what children of each key are made from, those of the target included. generation: that of the
    set for which the target was read off what ran; None where it was not. actions: what records it, before
    anything acts on it. collisions: how many hashes collided when it was recorded; None where nothing was.
    """

    key: str
    name: str
    revision: Reference
    records: Mapping[str, RolesRecord]
    generation: int | None = None
    actions: tuple[Action, ...] = ()
    collisions: int | None = None

    @property
    def record(self) -> RolesRecord:
        """What children of the target are made from."""
        return self.records[self.key]

    @property
    def is_new(self) -> bool:
        """The target revision is recorded in this very pass."""
        return not self.revision.uid

    @property
    def is_all_that_is_recorded(self) -> bool:
        """It is new, and whatever runs has been recorded before."""
        return self.is_new and len(self.actions) == 1 and self.generation is None


@dataclass(frozen=True, slots=True)
class _Orphan:
    """A LeaderWorkerSet that the set would adopt."""

    obj: Object
    role: str
    slice_index: int
    key: str


@dataclass(frozen=True, slots=True)
class _New:
    """What is about to be recorded. generation: as in `build_revision`."""

    record: RolesRecord
    key: str
    why: str
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class _Fill:
    """A revision that children carry and that nothing records."""

    made: RolesReconstruction
    create: Create
    number: int

    @property
    def name(self) -> str:
        name: str = self.create.intent["metadata"]["name"]
        return name


def target_revision(facts: Facts) -> TargetRevision:
    """Reuse an equal revision, whatever its age; record a new one only if there is none. What runs without a
    revision is recorded first.
    """
    fills = _fills(facts)
    wanted = record(facts.obj)
    known = _recognised(facts, wanted)
    records = {each.key: each.record for each in _usable(facts)}
    records |= {fill.made.key: fill.made.record for fill in fills}
    last = fills[-1] if fills else None
    if last is not None and last.made.is_wanted and not (known is not None and _is_current(facts, known)):
        intent = last.create.intent
        generation = facts.obj["metadata"].get("generation", 0)
        chosen = TargetRevision(last.made.key, last.name, Reference.to(intent), records, generation)
    elif known is not None:
        owner = facts.owner.reference if facts.owner.is_alive else None
        newest = next_number(facts.revisions) - 1 + len(fills)
        actions = plan_reuse(known, newest, owner)
        # Of one key there may be two revisions: where the first cannot be read any more.
        records[known.key] = known.record
        chosen = TargetRevision(known.key, known.name, known.reference, records, known.generation, actions)
    else:
        chosen = _recorded(facts, wanted, fills, records)
    return replace(chosen, actions=(*(fill.create for fill in fills), *chosen.actions))


def carried_keys(facts: Facts) -> frozenset[str]:
    """The keys of everything that runs, and of what the set would adopt."""
    return frozenset(each.key for each in _running(facts))


def _recognised(facts: Facts, wanted: RolesRecord) -> RecordedRoles | None:
    """The newest revision that means the same; where several do, nothing is restarted for the sake of another
    key, and what was wanted before stays wanted.
    """
    usable = _usable(facts)
    # What is spelled alike has its forms worked out already; those of a set would be worked out in each pass.
    alike = next((each.record for each in usable if each.record.roles == wanted.roles), wanted)
    equal = (each for each in usable if not each.is_leaving and each.record.forms == alike.forms)
    carried, former = carried_keys(facts), _former(facts)
    return max(equal, key=lambda each: (each.key in carried, each.name == former, age(each)), default=None)


def _is_current(facts: Facts, known: RecordedRoles) -> bool:
    return known.name == _former(facts) and known.key in carried_keys(facts)


def _recorded(
    facts: Facts, wanted: RolesRecord, fills: Sequence[_Fill], records: Mapping[str, RolesRecord]
) -> TargetRevision:
    history = [*records.items(), *((each.key, each.record) for each in _usable(facts))]
    unlike = {key for key, held in history if held.forms != wanted.forms}
    # Nothing shows what is behind the other keys that run.
    taken = unlike | (carried_keys(facts) - records.keys())
    probe = free_probe(lambda each: key_of(wanted.roles, each), taken)
    collided = collisions_below(lambda each: key_of(wanted.roles, each), probe, taken)
    key = key_of(wanted.roles, probe)
    why = "the first revision of the set"
    if history:
        _, before = history[-1]
        why = f"changed: {', '.join(_changed(before, wanted))}"
    create, _ = _create(facts, _New(wanted, key, why), fills)
    reference = Reference.to(create.intent)
    records = {**records, key: wanted}
    collisions = _collisions(facts, collided)
    return TargetRevision(key, reference.name, reference, records, actions=(create,), collisions=collisions)


def _changed(before: RolesRecord, after: RolesRecord) -> Iterator[str]:
    """Which roles. What changed in them, which `lws diff` says, takes 6 ms to find out: ten times a pass."""
    for name in dict.fromkeys((*after.roles, *before.roles)):
        if before.forms.get(name) != after.forms.get(name):
            yield f"role {name}"


def _collisions(facts: Facts, collided: int) -> int | None:
    # Not a sum: a pass whose writes fail is repeated.
    stored = (facts.obj.get("status") or {}).get("collisionCount")
    return max(stored if type(stored) is int else 0, collided) if collided else None


def _fills(facts: Facts) -> list[_Fill]:
    """The one that the set asks for comes last, and that whose key the original would compute after others:
    the last one recorded is the newest.
    """
    by_key: dict[str, list[RunningChild]] = {}
    for each in _running(facts):
        by_key.setdefault(each.key, []).append(each)
    missing = {key: of_key for key, of_key in by_key.items() if find(facts.revisions, key) is None}
    is_alone = len(by_key) == 1
    made = [reconstruct(facts.obj, key, of_key, is_alone) for key, of_key in missing.items()]
    shown = [each for each in made if each is not None]
    computed = key_of(record(facts.obj).roles) if shown else ""
    shown.sort(key=lambda each: (each.is_wanted, each.key == computed, _since(by_key[each.key]), each.key))
    fills: list[_Fill] = []
    for found in shown:
        generation = facts.obj["metadata"].get("generation", 0)
        why = f"LeaderWorkerSets run under key {found.key}, which no revision records"
        create, number = _create(facts, _New(found.record, found.key, why, generation), fills)
        if found.guessed:
            guess = _guessed(facts.obj, Reference.to(create.intent), found)
            create = replace(create, announce=(guess, *create.announce))
        fills.append(_Fill(found, create, number))
    return fills


def _create(facts: Facts, new: _New, fills: Sequence[_Fill]) -> tuple[Create, int]:
    """What records it after these, and its number."""
    lowest = fills[-1].number + 1 if fills else next_number(facts.revisions)
    taken = {each["metadata"]["name"] for each in facts.taken} | {each.name for each in facts.revisions}
    place = free_place(facts.obj, new.key, lowest, taken)
    intent = build_revision(facts.obj, new.record, new.key, place.number, new.generation)
    strangers = (each for each in facts.taken if each["metadata"]["name"] in place.passed)
    announce = tuple(
        _passed_over(facts.obj, each, Reference.to(intent))
        for each in strangers
        if not _is_of_a_former_set(each, facts.owner)
    )
    return Create(intent, why=new.why, announce=announce), place.number


def _running(facts: Facts) -> Collection[RunningChild]:
    name = facts.obj["metadata"]["name"]
    found = ((each, identity_of(name, each["metadata"]["name"])) for each in facts.orphans)
    orphans = [_Orphan(each, it.role, it.slice_index, it.key) for each, it in found if it is not None]
    return [*facts.children, *orphans]


def _usable(facts: Facts) -> Sequence[RecordedRoles]:
    """Oldest first."""
    return sorted((each for each in facts.revisions if not each.broken), key=age)


def _former(facts: Facts) -> str:
    """The name of the revision that was wanted before, as the status remembers it."""
    return str((facts.obj.get("status") or {}).get("updateRevision") or "")


def _since(children: Iterable[RunningChild]) -> str:
    return max(str(each.obj["metadata"].get("creationTimestamp") or "") for each in children)


def _is_of_a_former_set(revision: Object, owner: Owner) -> bool:
    controller = controller_of(revision) or {}
    return (controller.get("kind"), controller.get("name")) == (owner.kind, owner.name)


def _guessed(obj: Object, revision: Reference, made: RolesReconstruction) -> Announce:
    note = (
        f"Recorded what runs under key {made.key}, of which there was no history. Its LeaderWorkerSets do "
        f"not show {made.guessed}: taken from the set, or as they are now"
    )
    return Announce(Reference.to(obj), "RevisionIncomplete", "Create", note, "Warning", revision)


def _passed_over(obj: Object, stranger: Object, instead: Reference) -> Announce:
    note = (
        f"{existing_note(stranger)}: the revision is recorded as {instead.name} instead, with the same key; "
        f"{stranger['metadata']['name']} is left untouched"
    )
    return Announce(Reference.to(obj), "NameClash", "Create", note, "Warning", Reference.to(stranger))
