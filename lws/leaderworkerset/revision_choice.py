"""Which revision does the set want now, and what must be written before anything acts on it?

In: a SetSnapshot. Out: a Choice: the key, and at most one write that records it; and what may be pruned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lws.actions import Action, Create, Delete, Merge, Object, Reference
from lws.kube.metadata import labels_of, owner_reference
from lws.kube.ownership import Standing
from lws.leaderworkerset import announcements, spec
from lws.leaderworkerset.revisions import (
    Recorded,
    build_revision,
    describe,
    find,
    free_probe,
    next_number,
    prunable,
    recognise,
    record,
)
from lws.leaderworkerset.snapshot import SetSnapshot
from lws_api.leaderworkerset.v1 import REVISION_LABEL


@dataclass(frozen=True, slots=True)
class Choice:
    """The wanted revision.

    key: what leaders and workers are to carry. name: of its ControllerRevision. revision: the object, once
    it is stored. size_of: pods per group for each recorded key. actions: what records it, before anything
    acts on it. collisions: how many hashes collided when it was recorded; None where nothing was.
    """

    key: str
    name: str
    size_of: Mapping[str, int]
    revision: Reference
    actions: tuple[Action, ...] = ()
    collisions: int | None = None


def choose_revision(snapshot: SetSnapshot, standing: Standing) -> Choice:
    """Reuse an equal revision, whatever its age; record a new one only if there is none.

    standing: of the leader StatefulSet; only one of ours, or one about to be, says which key is running.
    """
    leader = snapshot.leader if standing in (Standing.OURS, Standing.ORPHAN) else None
    template = leader["spec"]["template"] if leader is not None else None
    known = recognise(record(snapshot.lws), snapshot.revisions, template)
    return _reused(snapshot, known) if known is not None else _recorded(snapshot, leader)


def _reused(snapshot: SetSnapshot, known: Recorded) -> Choice:
    """Adopt it if it is an orphan, make it the newest if it is not (Controller History); its key stays."""
    patch: dict[str, object] = {}
    if known.is_orphan and snapshot.is_set_alive:
        patch["metadata"] = {"ownerReferences": [owner_reference(snapshot.lws)]}
    why = "an orphan of the set is adopted"
    if known.number < next_number(snapshot.revisions) - 1:
        patch["revision"] = next_number(snapshot.revisions)
        why = f"the set asks again for what revision {known.number} holds"
    actions = (Merge(known.reference, patch, why=why),) if patch else ()
    return Choice(known.key, known.name, _sizes(snapshot.revisions), known.reference, actions)


def _recorded(snapshot: SetSnapshot, leader: Object | None) -> Choice:
    lws, wanted = snapshot.lws, record(snapshot.lws)
    running = labels_of(leader).get(REVISION_LABEL, "") if leader is not None else ""
    before = find(snapshot.revisions, running)
    # Pods of an earlier release run under a key of which no history is left: they are taken to be what is
    # asked for.
    backfilled = running if before is None else ""
    template = leader["spec"]["template"] if leader is not None else None
    probe = free_probe(wanted, snapshot.revisions, template)
    intent = build_revision(lws, wanted, next_number(snapshot.revisions), probe=probe, key=backfilled)
    key, name = backfilled or wanted.key_at(probe), intent["metadata"]["name"]
    occasion = "a newly created LeaderWorkerSet"
    why = "the first revision of the set"
    if backfilled:
        occasion, why = "existing LeaderWorkerSet", f"pods run under key {running}, which no revision records"
    elif before is not None:
        occasion, why = "updated LWS", f"template changed: {'; '.join(describe(before, wanted)[:3])}"
    reference = Reference.to(intent)
    create = Create(
        intent, why=why, announce=(announcements.creating_revision(lws, reference, key, occasion),)
    )
    sizes = {**_sizes(snapshot.revisions), key: spec.size_of(lws)}
    return Choice(key, name, sizes, reference, (create,), _collisions(lws, probe))


def former_revision(snapshot: SetSnapshot, choice: Choice) -> str | None:
    """What `status.currentRevision` says while an update is under way; None: what it says already.

    It stays what it was until the update is done (StatefulSet API). Where nothing says what that was, groups
    that are still on another revision do.
    """
    if (snapshot.lws.get("status") or {}).get("currentRevision"):
        return None
    keys = [labels_of(group.leader).get(REVISION_LABEL, "") for group in snapshot.groups]
    former = (find(snapshot.revisions, key) for key in keys if key != choice.key)
    return next((recorded.name for recorded in former if recorded is not None), choice.name)


def plan_pruning(snapshot: SetSnapshot, choice: Choice) -> tuple[Action, ...]:
    """Revisions that nothing needs any more; called once a rollout is done."""
    return tuple(
        Delete(each.reference, "Background", why=f"no pod is of revision {each.number} any more")
        for each in prunable(
            snapshot.revisions, snapshot.live_keys, choice.key, spec.history_limit_of(snapshot.lws)
        )
    )


def _sizes(recorded: tuple[Recorded, ...]) -> dict[str, int]:
    return {each.key: spec.recorded_size(each.spec) for each in recorded if not each.broken}


def _collisions(lws: Object, probe: int) -> int | None:
    if probe == 0:
        return None
    return int((lws.get("status") or {}).get("collisionCount") or 0) + probe
