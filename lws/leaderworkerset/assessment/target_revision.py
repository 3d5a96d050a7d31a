"""Decide the target revision of a set, and the writes that must precede any action on it.

Out: a Choice: the key, the writes that record it and whatever runs unrecorded, and what may be pruned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lws import history as reuse
from lws.actions import Action, Announce, Create, Delete, Merge, Object, Reference
from lws.history import Place, find, free_place, next_number, prunable
from lws.kube.metadata import controller_of, labels_of, name_of, owner_reference
from lws.kube.ownership import Ownership
from lws.leaderworkerset import events
from lws.leaderworkerset.revisions.history import (
    Recorded,
    build_revision,
    collisions_of,
    describe,
    free_probe,
    recognise,
    record,
)
from lws.leaderworkerset.revisions.recovery import (
    Reconstruction,
    Running,
    as_recorded,
    claim_templates_of,
    reconstruct,
)
from lws.leaderworkerset.revisions.seal import placement_patch
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import recorded_size
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL, REVISION_LABEL


@dataclass(frozen=True, slots=True)
class Choice:
    """The target revision.

    key: what leaders and workers are to carry. name: of its ControllerRevision. revision: the object, once
    it is stored. size_of: pods per group for each recorded key. actions: what records it, before anything
    acts on it. collisions: how many hashes collided when it was recorded; None where nothing was. filled: by
    key, names of revisions of what runs, that `actions` record because they were missing.
    """

    key: str
    name: str
    size_of: Mapping[str, int]
    revision: Reference
    actions: tuple[Action, ...] = ()
    collisions: int | None = None
    filled: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        """The target revision is recorded in this very pass."""
        return not self.revision.uid


@dataclass(frozen=True, slots=True)
class _Fill:
    """A revision that pods run under and that nothing records. number: that of its name."""

    made: Reconstruction
    create: Create
    number: int

    @property
    def key(self) -> str:
        return self.made.key

    @property
    def name(self) -> str:
        name: str = self.create.intent["metadata"]["name"]
        return name


def choose_revision(snapshot: SetSnapshot, ownership: Ownership) -> Choice:
    """Reuse an equal revision, whatever its age; record a new one only if there is none. What runs without a
    revision is recorded first.

    ownership: of the leader StatefulSet; only one of ours, or one about to be, says which key is running.
    """
    leader = snapshot.leader if ownership in (Ownership.OURS, Ownership.ORPHAN) else None
    template = leader["spec"]["template"] if leader is not None else None
    running = _running_key(leader, snapshot.revisions)
    fills = _fills(snapshot, leader, running)
    wanted = record(snapshot.lws)
    # Where several are equal, nothing is restarted for the sake of another key.
    running_now = [each for each in snapshot.revisions if each.key == running]
    known = recognise(wanted, running_now, template) or recognise(wanted, snapshot.revisions, template)
    newest = fills[-1] if fills else None
    if newest is not None and newest.made.is_wanted and (known is None or newest.key == running):
        chosen = Choice(
            newest.key, newest.name, _sizes(snapshot.revisions), Reference.to(newest.create.intent)
        )
    elif known is not None:
        chosen = _reused(snapshot, known, len(fills))
    else:
        chosen = _recorded(snapshot, template, running, fills)
    if not fills:
        return chosen
    return replace(
        chosen,
        actions=(*(fill.create for fill in fills), *chosen.actions),
        size_of={**chosen.size_of, **{fill.key: recorded_size(fill.made.record.spec) for fill in fills}},
        filled={fill.key: fill.name for fill in fills},
    )


def equal_keys(snapshot: SetSnapshot, choice: Choice) -> frozenset[str]:
    """Keys of recorded revisions that mean the same as the wanted one and have another key: a group of theirs
    gains nothing by moving on.
    """
    wanted = record(snapshot.lws)
    others = (each for each in snapshot.revisions if each.key != choice.key)
    return frozenset(each.key for each in others if recognise(wanted, (each,)) is not None)


def _reused(snapshot: SetSnapshot, known: Recorded, fills: int) -> Choice:
    owner = owner_reference(snapshot.lws) if snapshot.is_set_alive else None
    actions = reuse.plan_reuse(known, next_number(snapshot.revisions) - 1 + fills, owner)
    return Choice(known.key, known.name, _sizes(snapshot.revisions), known.reference, actions)


def _recorded(snapshot: SetSnapshot, template: Object | None, running: str, fills: Sequence[_Fill]) -> Choice:
    lws, wanted = snapshot.lws, record(snapshot.lws)
    history = (*snapshot.revisions, *(as_recorded(lws, fill.made) for fill in fills))
    before = find(history, running)
    probe = free_probe(wanted, history, template)
    place = _place(snapshot, wanted.key_at(probe), fills)
    intent = build_revision(lws, wanted, place.number, probe=probe)
    key, name, reference = wanted.key_at(probe), intent["metadata"]["name"], Reference.to(intent)
    occasion, why = "a newly created LeaderWorkerSet", "the first revision of the set"
    if before is not None:
        occasion, why = "updated LWS", f"template changed: {'; '.join(describe(before, wanted)[:3])}"
    announce = events.creating_revision(lws, reference, key, occasion)
    create = Create(intent, why=why, announce=(announce, *_passed(snapshot, place, reference)))
    sizes = {**_sizes(snapshot.revisions), key: snapshot.spec.size}
    collisions = _collisions(lws, collisions_of(wanted, probe, history))
    return Choice(key, name, sizes, reference, (create,), collisions)


def _running_key(leader: Object | None, recorded: Sequence[Recorded]) -> str:
    """The key that leaders come up with: the template says it, whatever the StatefulSet's label was edited
    to.
    """
    if leader is None:
        return ""
    told, carried = (labels_of(each).get(REVISION_LABEL, "") for each in (leader, leader["spec"]["template"]))
    return carried if find(recorded, carried) is not None else told


def _fills(snapshot: SetSnapshot, leader: Object | None, running: str) -> list[_Fill]:
    """The one that the set asks for comes last: the last one recorded is the newest."""
    shown = {each.key: each for each in snapshot.unrecorded if each.leader is not None}
    template = leader["spec"]["template"] if leader is not None else {}
    if leader is not None and labels_of(template).get(REVISION_LABEL) == running:
        shown.setdefault(running, Running(running, template, claim_templates_of(leader)))
    missing = [each for each in shown.values() if each.key and find(snapshot.revisions, each.key) is None]
    made = [found for each in missing if (found := reconstruct(snapshot.lws, each)) is not None]
    made.sort(key=lambda each: (each.is_wanted, each.key == running, each.key))
    fills: list[_Fill] = []
    for each in made:
        place = _place(snapshot, each.record.key, fills)
        fills.append(_Fill(each, _fill(snapshot, each, place), place.number))
    return fills


def _fill(snapshot: SetSnapshot, made: Reconstruction, place: Place) -> Create:
    lws = snapshot.lws
    intent = build_revision(lws, made.record, place.number, key=made.key)
    reference = Reference.to(intent)
    announce = [events.creating_revision(lws, reference, made.key, "existing LeaderWorkerSet")]
    if made.guessed:
        announce.append(events.guessed_revision(lws, reference, made.key, made.guessed))
    announce += _passed(snapshot, place, reference)
    why = f"pods run under key {made.key}, which no revision records"
    return Create(intent, why=why, announce=tuple(announce))


def former_revision(snapshot: SetSnapshot, choice: Choice) -> str | None:
    """What `status.currentRevision` says while an update is under way; None: what it says already.

    It stays what it was until the update is done (StatefulSet API). Where nothing says what that was, groups
    that are still on another revision do; when the last one has gone, the template that the leader
    StatefulSet would bring lost leaders back with.
    """
    if (snapshot.lws.get("status") or {}).get("currentRevision"):
        return None
    usable = sorted((each for each in snapshot.revisions if not each.broken), key=lambda each: each.number)
    names = {**{each.key: each.name for each in usable}, **choice.filled}
    running = [labels_of(group.leader).get(REVISION_LABEL, "") for group in snapshot.groups]
    held = [each.key for each in reversed(usable) if each.key in snapshot.live_keys]
    return next((names[key] for key in (*running, *held) if key != choice.key and key in names), choice.name)


def plan_adoption(snapshot: SetSnapshot, choice: Choice) -> tuple[Action, ...]:
    """The rest of an orphaned history comes along with the target revision (ControllerRef rules), and what
    was edited of a revision is put back.
    """
    own = (each for each in snapshot.revisions if not (each.is_orphan or each.is_leaving))
    mended = tuple(merge for each in own if (merge := _put_back(snapshot, choice, each)) is not None)
    if not snapshot.is_set_alive:
        return mended
    orphans = (each for each in snapshot.revisions if each.is_orphan and each.name != choice.name)
    return (*mended, *reuse.plan_adoption(orphans, owner_reference(snapshot.lws)))


def _put_back(snapshot: SetSnapshot, choice: Choice, each: Recorded) -> Merge | None:
    """Key and placement as they were recorded, and the name label: without it no stream shows a revision."""
    name, edits = name_of(snapshot.lws), dict(each.edits)
    if each.name == choice.name and each.topology is not None and not each.is_sealed:
        # Recognised by what runs: what its annotations say was not recorded.
        edits |= _given(annotations=placement_patch(each.topology, snapshot.spec.placement))
    fields = [field for part in edits.values() for field in part]
    announce = (events.edited_revision(snapshot.lws, each.reference, fields),) if fields else ()
    if each.set_name != name:
        edits["labels"] = {**edits.get("labels", {}), NAME_LABEL: name}
        fields.append(NAME_LABEL)
    if not edits:
        return None
    why = f"edited: {', '.join(sorted(fields))}"
    return Merge(each.reference, {"metadata": edits}, why=why, announce=announce)


def _given(**parts: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {field: part for field, part in parts.items() if part}


def plan_pruning(snapshot: SetSnapshot, choice: Choice, named: Sequence[str]) -> tuple[Action, ...]:
    """Revisions that nothing needs any more, whether a rollout is done, under way, paused or stuck.

    named: those that the status remembers for as long as the rollout is not done.
    """
    if not snapshot.knows_live_keys:
        return ()
    needed, limit = snapshot.live_keys | {choice.key}, snapshot.spec.history_limit
    return tuple(
        Delete(each.reference, "Background", why=f"no pod is of revision {each.number} any more")
        for each in prunable(snapshot.revisions, needed, limit, named)
    )


def _sizes(recorded: tuple[Recorded, ...]) -> dict[str, int]:
    return {each.key: recorded_size(each.spec) for each in recorded if not each.broken}


def _collisions(lws: Object, collided: int) -> int | None:
    # Not a sum: a pass whose writes fail is repeated.
    known = int((lws.get("status") or {}).get("collisionCount") or 0)
    return max(known, collided) if collided else None


def _place(snapshot: SetSnapshot, fingerprint: str, fills: Sequence[_Fill]) -> Place:
    """Where a revision goes that is recorded after these."""
    lowest = fills[-1].number + 1 if fills else next_number(snapshot.revisions)
    taken = {each["metadata"]["name"] for each in snapshot.taken} | {each.name for each in snapshot.revisions}
    return free_place(snapshot.lws, fingerprint, lowest, taken)


def _passed(snapshot: SetSnapshot, place: Place, instead: Reference) -> tuple[Announce, ...]:
    """Names of strangers that were passed over, told once: with the write that does without them. What a
    former set of this name has left goes by itself, and is nobody's concern.
    """
    passed = (each for each in snapshot.taken if each["metadata"]["name"] in place.passed)
    strangers = (each for each in passed if not _is_of_a_former_set(each, snapshot.lws))
    return tuple(events.passed_over(snapshot.lws, each, instead) for each in strangers)


def _is_of_a_former_set(revision: Object, lws: Object) -> bool:
    controller = controller_of(revision) or {}
    return (controller.get("kind"), controller.get("name")) == (KIND, name_of(lws))
