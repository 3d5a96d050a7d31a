"""Choose the target revision of a set and maintain its history, with `lws.history.plan`.

The target revision, and any revision that runs without a record, is recorded before anything acts on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from lws.history import plan as history
from lws.history.plan import Codec, Reconstruction, Target
from lws.history.revision import find, usable
from lws.kube.metadata import labels_of, owner_reference
from lws.kube.ownership import Ownership, may_adopt
from lws.leaderworkerset import events
from lws.leaderworkerset.revisions.history import (
    FORMAT,
    Record,
    Recorded,
    describe,
    is_equal,
    placement_patch,
    record,
)
from lws.leaderworkerset.revisions.recovery import Running, claim_templates_of, reconstruct
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import recorded_size
from lws.runtime.actions import Action, Announce, Object
from lws_api.leaderworkerset.v1 import REVISION_LABEL

TargetRevision: TypeAlias = Target[Record]


def choose_revision(snapshot: SetSnapshot, ownership: Ownership) -> TargetRevision:
    """Return the target revision of a set. ownership: ownership of the leader StatefulSet. Only a StatefulSet
    that is ours, or about to be adopted, shows which key is running.
    """
    lws = snapshot.lws
    return history.choose(
        _SetCodec(
            format=FORMAT,
            owner=lws,
            adopter=owner_reference(lws) if may_adopt(lws, snapshot.set_read_live) else None,
            revisions=snapshot.revisions,
            taken_revisions=snapshot.taken_revisions,
            desired=record(lws),
            snapshot=snapshot,
            leaders=snapshot.leaders if ownership in (Ownership.OURS, Ownership.ORPHAN) else None,
        )
    )


def sizes(target: TargetRevision) -> dict[str, int]:
    """Return the pods per group for each recorded key."""
    return {key: recorded_size(revision.record.spec) for key, revision in target.records.items()}


def equal_keys(snapshot: SetSnapshot, target: TargetRevision) -> frozenset[str]:
    """Return other keys whose recorded revision equals the target: moving their groups changes nothing."""
    desired = record(snapshot.lws)
    others = (revision for revision in snapshot.revisions if revision.key != target.key)
    return frozenset(
        revision.key
        for revision in others
        if not revision.is_terminating and is_equal(desired, revision, None)
    )


def former_revision(snapshot: SetSnapshot, target: TargetRevision) -> str | None:
    """Return the value of `status.currentRevision` during an update; None to keep the stored value.

    The value does not change until the update is done, as in the StatefulSet API. If none is stored, use the
    revision of a group that is not updated yet; without such a group, use the revision that the leader
    StatefulSet would recreate leaders with.
    """
    if (snapshot.lws.get("status") or {}).get("currentRevision"):
        return None
    running = [labels_of(group.leader).get(REVISION_LABEL, "") for group in snapshot.groups]
    recorded = [revision.key for revision in reversed(usable(snapshot.revisions))]
    return history.former_name(target, (*running, *(key for key in recorded if key in snapshot.live_keys)))


def plan_pruning(snapshot: SetSnapshot, target: TargetRevision, named: Sequence[str]) -> tuple[Action, ...]:
    """Delete unneeded revisions. named: revisions recorded in the status until the rollout is done."""
    if (live := _live_keys(snapshot, target)) is None:
        return ()
    return history.plan_pruning(snapshot.revisions, live, snapshot.spec.history_limit, named)


def counted_revisions(snapshot: SetSnapshot, target: TargetRevision, is_done: bool) -> frozenset[str] | None:
    """Return the keys of the revisions whose restart counts are needed; None if unknown.

    Many rollouts may begin and none be done, as with a partition or a pause. Without this limit, the counts
    would outgrow the 256 KiB that all annotations of an object may have. is_done: whether every group is
    ready on the target revision.
    """
    if is_done:
        return frozenset({target.key})
    return _live_keys(snapshot, target) if snapshot.leaders is not None else None


def _live_keys(snapshot: SetSnapshot, target: TargetRevision) -> frozenset[str] | None:
    """Return the keys of revisions that objects of the set have or may get; None if unknown."""
    return snapshot.live_keys | {target.key} if snapshot.knows_live_keys else None


@dataclass(frozen=True, kw_only=True)
class _SetCodec(Codec[Record]):
    """Codec for the revisions of a set. leaders: the leader StatefulSet, if it shows what is running."""

    snapshot: SetSnapshot
    leaders: Object | None

    @cached_property
    def template(self) -> Object | None:
        return self.leaders["spec"]["template"] if self.leaders is not None else None

    @cached_property
    def running(self) -> str:
        """The key of new leaders: the template determines it even if the StatefulSet's label was edited."""
        label, key = (labels_of(obj or {}).get(REVISION_LABEL, "") for obj in (self.leaders, self.template))
        return key if find(self.revisions, key) is not None else label

    def is_equal(self, revision: Recorded) -> bool:
        return is_equal(self.desired, revision, self.template)

    def is_same_data(self, revision: Recorded) -> bool:
        # The same data with other topology annotations is no hash collision.
        return revision.record.form == self.desired.form

    def preference(self, revision: Recorded) -> tuple[bool, ...]:
        # Any other key would only restart groups.
        return (revision.key == self.running,)

    def rebuilt(self) -> list[Reconstruction[Record]]:
        unrecorded = self.snapshot.unrecorded_templates
        running = {template.key: template for template in unrecorded if template.leader is not None}
        if self.leaders is not None and labels_of(self.template or {}).get(REVISION_LABEL) == self.running:
            claims = claim_templates_of(self.leaders)
            running.setdefault(self.running, Running(self.running, self.template, claims))
        missing = (key for key in running if key and find(self.revisions, key) is None)
        rebuilt = [draft for key in missing if (draft := reconstruct(self.owner, running[key])) is not None]
        return sorted(rebuilt, key=lambda draft: (draft.is_desired, draft.key == self.running, draft.key))

    def fingerprint(self, rebuilt: Reconstruction[Record]) -> str:
        return rebuilt.record.key

    def before(self, revisions: Iterable[Recorded]) -> Recorded | None:
        return find(revisions, self.running)

    def changes(self, before: Recorded) -> str:
        return f"template changed: {'; '.join(describe(before.record, self.desired)[:3])}"

    def announce_new(self, draft: Recorded, before: Recorded | None) -> tuple[Announce, ...]:
        occasion = "a newly created LeaderWorkerSet" if before is None else "updated LWS"
        return (events.creating_revision(self.owner, draft.reference, draft.key, occasion),)

    def announce_rebuilt(self, draft: Recorded, guessed: str) -> tuple[Announce, ...]:
        subject = self.owner, draft.reference, draft.key
        creating = events.creating_revision(*subject, "existing LeaderWorkerSet")
        return (creating, events.guessed_revision(*subject, guessed)) if guessed else (creating,)

    def edited_annotations(self, revision: Recorded, target: str) -> Mapping[str, str | None]:
        topology = revision.record.topology
        if revision.name == target and topology is not None and not revision.is_sealed:
            # The running template identified this revision: its annotations differ from what was recorded.
            return placement_patch(topology, self.snapshot.spec.placement)
        return revision.edits

    def announce_edited(self, revision: Recorded, edited: Collection[str]) -> tuple[Announce, ...]:
        return (events.edited_revision(self.owner, revision.reference, edited),) if edited else ()
