"""Choose the target revision of a DisaggregatedSet and maintain its history, with `lws.history.plan`.

The target revision, and running states without a revision, are recorded before anything acts on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

from lws.disaggregatedset.names import identity_of
from lws.disaggregatedset.revisions.reconstruction import RunningChild, reconstruct
from lws.disaggregatedset.revisions.record import FORMAT, RecordedRoles, RolesRecord, record
from lws.history import plan as history
from lws.history.plan import Codec, Reconstruction, Target
from lws.history.revision import find, usable
from lws.kube.metadata import name_of
from lws.runtime.actions import Announce, Object, Plan, Reference
from lws.runtime.children import Owner

TargetRevision: TypeAlias = Target[RolesRecord]


class Facts(Protocol):
    """The facts of a pass about the history of a set.

    children: LeaderWorkerSets that it controls. orphans: those that it would adopt. revisions: those that it
    controls or may adopt. taken: ControllerRevisions of other owners that have names for its revisions.
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


def target_revision(facts: Facts) -> TargetRevision:
    """The target revision of a set."""
    return history.choose(_codec(facts))


def records(target: TargetRevision) -> dict[str, RolesRecord]:
    """The recorded roles by revision key."""
    return {key: revision.record for key, revision in target.records.items()}


def is_all_that_is_recorded(target: TargetRevision) -> bool:
    """Whether the target is the only revision that this pass records."""
    return target.is_new and len(target.actions) == 1 and target.content.generation is None


def plan_upkeep(facts: Facts, target: TargetRevision) -> Plan:
    """Restore edited labels, and adopt orphans; each write on its own."""
    return Plan(tuple((action,) for action in history.plan_upkeep(_codec(facts), target)))


def plan_pruning(facts: Facts, target: TargetRevision, limit: int, recorded: Collection[str] = ()) -> Plan:
    """Delete unneeded revisions, each write on its own.

    recorded: keys of children at the start of a current rollout: deleted ones are recreated.
    """
    live = _codec(facts).carried | {target.key, *recorded}
    status = facts.obj.get("status") or {}
    of_rollout = [] if live == {target.key} else [status.get("currentRevision"), status.get("updateRevision")]
    deletes = history.plan_pruning(facts.revisions, live, limit, {target.name, *map(str, of_rollout)})
    return Plan(tuple((delete,) for delete in deletes))


@dataclass(frozen=True, slots=True)
class _Orphan:
    """A LeaderWorkerSet that the set would adopt."""

    obj: Object
    role: str
    slice_index: int
    key: str


@dataclass(frozen=True, kw_only=True)
class _RolesCodec(Codec[RolesRecord]):
    """running: children, and LeaderWorkerSets that the set would adopt."""

    running: Sequence[RunningChild]

    @cached_property
    def forms(self) -> Mapping[str, str]:
        """The forms of the desired state, reused from a revision of the same spelling."""
        alike = (each.record for each in usable(self.revisions) if each.record.roles == self.desired.roles)
        return next(alike, self.desired).forms

    def is_equal(self, revision: RecordedRoles) -> bool:
        return revision.record.forms == self.forms

    def preference(self, revision: RecordedRoles) -> tuple[bool, ...]:
        # Another key would only restart groups: prefer the current target.
        former = str((self.owner.get("status") or {}).get("updateRevision") or "")
        return revision.key in self.carried, revision.name == former

    def rebuilt(self) -> list[Reconstruction[RolesRecord]]:
        by_key: dict[str, list[RunningChild]] = {}
        for child in self.running:
            by_key.setdefault(child.key, []).append(child)
        missing = {key: running for key, running in by_key.items() if find(self.revisions, key) is None}
        is_alone = len(by_key) == 1
        shown = [reconstruct(self.owner, key, running, is_alone) for key, running in missing.items()]
        rebuilt = [one for one in shown if one is not None]
        computed = self.desired.key_at(0) if rebuilt else ""
        since = {key: max(map(_created, running)) for key, running in missing.items()}
        # The one with the key that upstream would compute comes last.
        return sorted(rebuilt, key=lambda one: (one.is_desired, one.key == computed, since[one.key], one.key))

    def before(self, revisions: Sequence[RecordedRoles]) -> RecordedRoles | None:
        return revisions[-1] if revisions else None

    def changes(self, before: RecordedRoles) -> str:
        # Only the names of roles: the changes, which `lws diff` reports, take 6 ms to compute.
        former, desired = before.record, self.desired
        names = dict.fromkeys((*desired.roles, *former.roles))
        changed = (name for name in names if former.forms.get(name) != desired.forms.get(name))
        return f"changed: {', '.join(f'role {name}' for name in changed)}"

    def announce_rebuilt(self, draft: RecordedRoles, guessed: str) -> tuple[Announce, ...]:
        if not guessed:
            return ()
        note = (
            f"Recorded what runs under key {draft.key}, of which there was no history. "
            f"Its LeaderWorkerSets do not show {guessed}: taken from the set, or as they are now"
        )
        owner = Reference.to(self.owner)
        return (Announce(owner, "RevisionIncomplete", "Create", note, "Warning", draft.reference),)


def _created(child: RunningChild) -> str:
    return str(child.obj["metadata"].get("creationTimestamp") or "")


def _codec(facts: Facts) -> _RolesCodec:
    named = ((obj, identity_of(name_of(facts.obj), name_of(obj))) for obj in facts.orphans)
    orphans = [_Orphan(obj, it.role, it.slice_index, it.key) for obj, it in named if it is not None]
    running = [*facts.children, *orphans]
    return _RolesCodec(
        format=FORMAT,
        owner=facts.obj,
        adopter=facts.owner.reference if facts.owner.is_alive else None,
        revisions=facts.revisions,
        taken=facts.taken,
        desired=record(facts.obj),
        carried=frozenset(child.key for child in running),
        running=running,
    )
