"""Choose the target revision of a set, and plan the writes to its history: record, adopt, restore, prune.

The target revision, and any revision that runs without a record, is recorded before anything acts on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lws import history as reuse
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
from lws.runtime.actions import Action, Announce, Create, Delete, Merge, Object, Reference
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL, REVISION_LABEL


@dataclass(frozen=True, slots=True)
class Choice:
    """The target revision.

    key: revision key for leaders and workers. name: of its ControllerRevision. revision: the object, without
    UID until it is stored. size_of: pods per group for each recorded key. actions: writes that record it,
    before anything acts on it. collisions: number of hash collisions when it was recorded; None if it was not
    recorded now. filled: by key, names of missing revisions of running pods that `actions` record.
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
        """Whether this pass records the target revision."""
        return not self.revision.uid


@dataclass(frozen=True, slots=True)
class _Fill:
    """A missing revision of running pods. number: the number in its name."""

    rebuilt: Reconstruction
    create: Create
    number: int

    @property
    def key(self) -> str:
        return self.rebuilt.key

    @property
    def name(self) -> str:
        name: str = self.create.intent["metadata"]["name"]
        return name


def choose_revision(snapshot: SetSnapshot, ownership: Ownership) -> Choice:
    """Reuse an equal revision of any age; record a new one only if there is none.

    Running templates without a revision are recorded first. ownership: of the leader StatefulSet; only one
    that is ours, or about to be adopted, shows which key is running.
    """
    leader = snapshot.leader if ownership in (Ownership.OURS, Ownership.ORPHAN) else None
    template = leader["spec"]["template"] if leader is not None else None
    running = _running_key(leader, snapshot.revisions)
    fills = _fills(snapshot, leader, running)
    desired = record(snapshot.lws)
    # If several are equal, prefer the running one: another key would only restart groups.
    running_now = [revision for revision in snapshot.revisions if revision.key == running]
    existing = recognise(desired, running_now, template) or recognise(desired, snapshot.revisions, template)
    newest = fills[-1] if fills else None
    if newest is not None and newest.rebuilt.is_wanted and (existing is None or newest.key == running):
        chosen = Choice(
            newest.key, newest.name, _sizes(snapshot.revisions), Reference.to(newest.create.intent)
        )
    elif existing is not None:
        chosen = _reused(snapshot, existing, len(fills))
    else:
        chosen = _recorded(snapshot, template, running, fills)
    if not fills:
        return chosen
    return replace(
        chosen,
        actions=(*(fill.create for fill in fills), *chosen.actions),
        size_of={**chosen.size_of, **{fill.key: recorded_size(fill.rebuilt.record.spec) for fill in fills}},
        filled={fill.key: fill.name for fill in fills},
    )


def equal_keys(snapshot: SetSnapshot, choice: Choice) -> frozenset[str]:
    """Other keys of recorded revisions that are equal to the target: moving their groups changes nothing."""
    desired = record(snapshot.lws)
    others = (revision for revision in snapshot.revisions if revision.key != choice.key)
    return frozenset(revision.key for revision in others if recognise(desired, (revision,)) is not None)


def _reused(snapshot: SetSnapshot, existing: Recorded, fills: int) -> Choice:
    owner = owner_reference(snapshot.lws) if snapshot.is_set_alive else None
    actions = reuse.plan_reuse(existing, next_number(snapshot.revisions) - 1 + fills, owner)
    return Choice(existing.key, existing.name, _sizes(snapshot.revisions), existing.reference, actions)


def _recorded(snapshot: SetSnapshot, template: Object | None, running: str, fills: Sequence[_Fill]) -> Choice:
    lws, desired = snapshot.lws, record(snapshot.lws)
    history = (*snapshot.revisions, *(as_recorded(lws, fill.rebuilt) for fill in fills))
    before = find(history, running)
    probe = free_probe(desired, history, template)
    place = _place(snapshot, desired.key_at(probe), fills)
    intent = build_revision(lws, desired, place.number, probe=probe)
    key, name, reference = desired.key_at(probe), intent["metadata"]["name"], Reference.to(intent)
    occasion, why = "a newly created LeaderWorkerSet", "the first revision of the set"
    if before is not None:
        occasion, why = "updated LWS", f"template changed: {'; '.join(describe(before, desired)[:3])}"
    announce = events.creating_revision(lws, reference, key, occasion)
    create = Create(intent, why=why, announce=(announce, *_passed(snapshot, place, reference)))
    sizes = {**_sizes(snapshot.revisions), key: snapshot.spec.size}
    collisions = _collisions(lws, collisions_of(desired, probe, history))
    return Choice(key, name, sizes, reference, (create,), collisions)


def _running_key(leader: Object | None, recorded: Sequence[Recorded]) -> str:
    """The key of new leaders: the template determines it even if the StatefulSet's label was edited."""
    if leader is None:
        return ""
    own, inner = (labels_of(obj).get(REVISION_LABEL, "") for obj in (leader, leader["spec"]["template"]))
    return inner if find(recorded, inner) is not None else own


def _fills(snapshot: SetSnapshot, leader: Object | None, running: str) -> list[_Fill]:
    """Missing revisions to record; the target revision comes last and thus becomes the newest."""
    shown = {running.key: running for running in snapshot.unrecorded if running.leader is not None}
    template = leader["spec"]["template"] if leader is not None else {}
    if leader is not None and labels_of(template).get(REVISION_LABEL) == running:
        shown.setdefault(running, Running(running, template, claim_templates_of(leader)))
    missing = [
        templates
        for templates in shown.values()
        if templates.key and find(snapshot.revisions, templates.key) is None
    ]
    rebuilt = [one for templates in missing if (one := reconstruct(snapshot.lws, templates)) is not None]
    rebuilt.sort(key=lambda one: (one.is_wanted, one.key == running, one.key))
    fills: list[_Fill] = []
    for one in rebuilt:
        place = _place(snapshot, one.record.key, fills)
        fills.append(_Fill(one, _fill(snapshot, one, place), place.number))
    return fills


def _fill(snapshot: SetSnapshot, rebuilt: Reconstruction, place: Place) -> Create:
    lws = snapshot.lws
    intent = build_revision(lws, rebuilt.record, place.number, key=rebuilt.key)
    reference = Reference.to(intent)
    announce = [events.creating_revision(lws, reference, rebuilt.key, "existing LeaderWorkerSet")]
    if rebuilt.guessed:
        announce.append(events.guessed_revision(lws, reference, rebuilt.key, rebuilt.guessed))
    announce += _passed(snapshot, place, reference)
    why = f"pods run under key {rebuilt.key}, which no revision records"
    return Create(intent, why=why, announce=tuple(announce))


def former_revision(snapshot: SetSnapshot, choice: Choice) -> str | None:
    """Value of `status.currentRevision` during an update; None to keep the stored value.

    The value does not change until the update is done, as in the StatefulSet API. If none is stored, use the
    revision of a group that is not updated yet; without such a group, the revision that the leader
    StatefulSet would recreate leaders with.
    """
    if (snapshot.lws.get("status") or {}).get("currentRevision"):
        return None
    usable = sorted(
        (revision for revision in snapshot.revisions if not revision.broken),
        key=lambda revision: revision.number,
    )
    names = {**{revision.key: revision.name for revision in usable}, **choice.filled}
    running = [labels_of(group.leader).get(REVISION_LABEL, "") for group in snapshot.groups]
    held = [revision.key for revision in reversed(usable) if revision.key in snapshot.live_keys]
    return next((names[key] for key in (*running, *held) if key != choice.key and key in names), choice.name)


def plan_adoption(snapshot: SetSnapshot, choice: Choice) -> tuple[Action, ...]:
    """Adopt orphaned revisions (ControllerRef rules), and restore edited metadata of revisions."""
    own = (revision for revision in snapshot.revisions if not (revision.is_orphan or revision.is_leaving))
    restored = tuple(
        merge for revision in own if (merge := _put_back(snapshot, choice, revision)) is not None
    )
    if not snapshot.is_set_alive:
        return restored
    orphans = (
        revision for revision in snapshot.revisions if revision.is_orphan and revision.name != choice.name
    )
    return (*restored, *reuse.plan_adoption(orphans, owner_reference(snapshot.lws)))


def _put_back(snapshot: SetSnapshot, choice: Choice, revision: Recorded) -> Merge | None:
    """Restore key and placement as recorded, and the name label: watches select revisions by that label."""
    name, edits = name_of(snapshot.lws), dict(revision.edits)
    if revision.name == choice.name and revision.topology is not None and not revision.is_sealed:
        # It was recognised by the running template; its annotations are not what was recorded.
        edits |= _given(annotations=placement_patch(revision.topology, snapshot.spec.placement))
    fields = [field for part in edits.values() for field in part]
    announce = (events.edited_revision(snapshot.lws, revision.reference, fields),) if fields else ()
    if revision.set_name != name:
        edits["labels"] = {**edits.get("labels", {}), NAME_LABEL: name}
        fields.append(NAME_LABEL)
    if not edits:
        return None
    why = f"edited: {', '.join(sorted(fields))}"
    return Merge(revision.reference, {"metadata": edits}, why=why, announce=announce)


def _given(**parts: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {field: part for field, part in parts.items() if part}


def plan_pruning(snapshot: SetSnapshot, choice: Choice, named: Sequence[str]) -> tuple[Action, ...]:
    """Delete unneeded revisions, whether a rollout is done, in progress, paused or stuck.

    named: revisions recorded in the status until the rollout is done.
    """
    if not snapshot.knows_live_keys:
        return ()
    needed, limit = snapshot.live_keys | {choice.key}, snapshot.spec.history_limit
    return tuple(
        Delete(revision.reference, "Background", why=f"no pod is of revision {revision.number} any more")
        for revision in prunable(snapshot.revisions, needed, limit, named)
    )


def _sizes(recorded: tuple[Recorded, ...]) -> dict[str, int]:
    return {revision.key: recorded_size(revision.spec) for revision in recorded if not revision.broken}


def _collisions(lws: Object, collided: int) -> int | None:
    # Not a sum: a pass is repeated if its writes fail.
    stored = int((lws.get("status") or {}).get("collisionCount") or 0)
    return max(stored, collided) if collided else None


def _place(snapshot: SetSnapshot, fingerprint: str, fills: Sequence[_Fill]) -> Place:
    """Name and number of a revision that is recorded after `fills`."""
    lowest = fills[-1].number + 1 if fills else next_number(snapshot.revisions)
    taken = {each["metadata"]["name"] for each in snapshot.taken} | {each.name for each in snapshot.revisions}
    return free_place(snapshot.lws, fingerprint, lowest, taken)


def _passed(snapshot: SetSnapshot, place: Place, instead: Reference) -> tuple[Announce, ...]:
    """Report each name that another owner has taken once, with the write that uses another name.

    Revisions left by a deleted set of this name are not reported: they are garbage collected.
    """
    passed = (revision for revision in snapshot.taken if revision["metadata"]["name"] in place.passed)
    strangers = (revision for revision in passed if not _is_of_a_former_set(revision, snapshot.lws))
    return tuple(events.passed_over(snapshot.lws, revision, instead) for revision in strangers)


def _is_of_a_former_set(revision: Object, lws: Object) -> bool:
    controller = controller_of(revision) or {}
    return (controller.get("kind"), controller.get("name")) == (KIND, name_of(lws))
