"""Choose the target revision of a DisaggregatedSet and maintain its history, with `lws.history.plan`.

The target revision, and running states without a revision, are recorded before any other write depends on
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, permutations
from typing import Any, TypeAlias

from lws.disaggregatedset.names import identity_of, key_of
from lws.disaggregatedset.revisions.record import (
    FORMAT,
    RecordedRoles,
    RolesRecord,
    part_of,
    record,
    role_form,
)
from lws.disaggregatedset.revisions.shown import ADDED_LABELS, placement_shown, stripped
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import RECORDS
from lws.history import plan as history
from lws.history.plan import Codec, Reconstruction, Target
from lws.history.revision import find, usable
from lws.kube.metadata import annotations_of, labels_of, name_of, without
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.runtime.actions import Action, Announce, Object, Reference

TargetRevision: TypeAlias = Target[RolesRecord]


def target_revision(snapshot: DisaggregatedSnapshot) -> TargetRevision:
    """Choose the target revision of a set."""
    named = ((obj, identity_of(name_of(snapshot.obj), name_of(obj))) for obj in snapshot.orphans)
    orphans = [ChildFacts(obj, it.role, it.slice_index, it.key) for obj, it in named if it is not None]
    running = [*snapshot.children, *orphans]
    return history.choose(
        _RolesCodec(
            format=FORMAT,
            owner=snapshot.obj,
            adopter=snapshot.owner.owner_reference if snapshot.owner.is_alive else None,
            revisions=snapshot.revisions,
            taken_revisions=snapshot.taken_revisions,
            desired=record(snapshot.obj),
            carried=frozenset(child.key for child in running),
            running=running,
        )
    )


def plan_pruning(target: TargetRevision, limit: int, recorded: Collection[str] = ()) -> tuple[Action, ...]:
    """Delete the revisions that are not needed.

    recorded: the keys of the children with which a current rollout began, because deleted ones are recreated.
    """
    live = target.codec.carried | {target.key, *recorded}
    status = target.codec.owner.get("status") or {}
    of_rollout = [] if live == {target.key} else [status.get("currentRevision"), status.get("updateRevision")]
    named = {target.name, *map(str, of_rollout)}
    return history.plan_pruning(target.codec.revisions, live, limit, named)


def edited_children(
    children: Iterable[ChildFacts], records: Mapping[str, RecordedRoles]
) -> tuple[ChildFacts, ...]:
    """Return the children whose templates are not those of their revisions; `records` has these by key."""
    return tuple(child for child in children if _is_edited(child, records.get(child.key)))


def _is_edited(child: ChildFacts, revision: RecordedRoles | None) -> bool:
    if revision is None or child.is_terminating or not child.template_hash:
        return False
    # Labels and affinity terms of the set may have replaced those of the user, so both are compared without.
    recorded = revision.record.template_hashes.get(child.role, child.template_hash)
    return child.template_hash != recorded


@dataclass(frozen=True, kw_only=True)
class _RolesCodec(Codec[RolesRecord]):
    """The codec of roles, with which `lws.history` reads and writes the revisions of a DisaggregatedSet.

    running: the children, and the LeaderWorkerSets that the set would adopt.
    """

    running: Sequence[ChildFacts]

    @cached_property
    def forms(self) -> Mapping[str, str]:
        """The forms of the desired state, reused from a revision whose roles are spelled in the same way."""
        alike = (
            revision.record
            for revision in usable(self.revisions)
            if revision.record.roles == self.desired.roles
        )
        return next(alike, self.desired).forms

    def is_equal(self, revision: RecordedRoles) -> bool:
        return revision.record.forms == self.forms

    def preference(self, revision: RecordedRoles) -> tuple[bool, ...]:
        # Another key would only restart groups, so the current target is preferred.
        former = str((self.owner.get("status") or {}).get("updateRevision") or "")
        return revision.key in self.carried, revision.name == former

    def rebuilt(self) -> list[Reconstruction[RolesRecord]]:
        by_key: dict[str, list[ChildFacts]] = {}
        for child in self.running:
            by_key.setdefault(child.key, []).append(child)
        missing = {key: running for key, running in by_key.items() if find(self.revisions, key) is None}
        is_alone = len(by_key) == 1
        states = [reconstruct(self.owner, key, running, is_alone) for key, running in missing.items()]
        rebuilt = [state for state in states if state is not None]
        computed = self.desired.key_at(0) if rebuilt else ""
        since = {key: max(map(_created, running)) for key, running in missing.items()}
        # The revision with the key that upstream would compute comes last.
        return sorted(
            rebuilt, key=lambda state: (state.is_desired, state.key == computed, since[state.key], state.key)
        )

    def before(self, revisions: Sequence[RecordedRoles]) -> RecordedRoles | None:
        return revisions[-1] if revisions else None

    def changes(self, before: RecordedRoles) -> str:
        # List only the names of changed roles. The changes themselves, which `lws diff` reports, take 6 ms to
        # compute.
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


# --- Reconstruct a revision from the LeaderWorkerSets that were created from it, if no ControllerRevision
# records it. An exact reconstruction is proven by the key, which is a hash.


_ORDERS_TRIED = 24
"""The maximum number of orders of roles to try: all orders of four roles, the likeliest orders of more."""


def reconstruct(
    obj: Object, key: str, running: Iterable[ChildFacts], is_alone: bool = True
) -> Reconstruction[RolesRecord] | None:
    """Reconstruct a revision from `running`, the children of its key; None if none of them can be read.

    is_alone: whether no child has another key. A role without a child was then deleted, not added since.
    """
    readable = (child for child in running if not spec_fault(child.obj))
    by_role = {child.role: child for child in sorted(readable, key=_age, reverse=True)}
    if not by_role:
        return None
    desired = record(obj)
    placement = placement_shown(min(by_role.values(), key=_age).obj["spec"])
    if key_of(desired.roles) == key:
        return Reconstruction(key, RolesRecord(desired.parts, placement), True)
    observed = _in_order(desired, by_role)
    live = {part["name"]: part for part in desired.parts}
    both = observed.keys() & live.keys()
    equal = {name for name in both if _form(observed[name]["spec"]) == _form(live[name]["spec"])}
    spelled = {name: live[name] if name in equal else part for name, part in observed.items()}
    lost = sorted(live.keys() - observed.keys())
    for parts in (spelled, observed):
        if (proven := _proven(key, parts)) is not None:
            return Reconstruction(key, RolesRecord(proven, placement), not lost and equal == observed.keys())
    if equal == observed.keys() and (not lost or is_alone):
        guessed = f"the templates of {', '.join(lost)}" if lost else ""
        return Reconstruction(key, RolesRecord(desired.parts, placement), True, guessed)
    guessed = "the order of its roles, and labels of its pods in whose place there are labels of the set"
    return Reconstruction(key, RolesRecord(tuple(spelled.values()), placement), False, guessed)


def _in_order(desired: RolesRecord, by_role: Mapping[str, ChildFacts]) -> dict[str, Object]:
    """Return the roles that children show: the set's in its order, then others by their creation."""
    in_spec = [name for name in desired.roles if name in by_role]
    others = sorted(by_role.keys() - set(in_spec), key=lambda name: (_created(by_role[name]), name))
    return {name: _part_shown(name, by_role[name].obj) for name in (*in_spec, *others)}


def _proven(key: str, parts: Mapping[str, Object]) -> tuple[Object, ...] | None:
    """Return the roles in the order in which they hash to the key; None if no tried order does."""
    for order in islice(permutations(parts.values()), _ORDERS_TRIED):
        if key_of({part["name"]: part["spec"] for part in order}) == key:
            return order
    return None


def _age(child: ChildFacts) -> tuple[str, int]:
    """Return the sort key for age: the oldest is most reliable, as later ones may be manual copies."""
    return _created(child), child.slice_index


def _created(child: ChildFacts) -> str:
    return str(child.obj["metadata"].get("creationTimestamp") or "")


def _part_shown(role: str, child: Object) -> dict[str, Any]:
    """Return the role from which the child was created, as far as the child shows it."""
    metadata = {
        "labels": without(labels_of(child), ADDED_LABELS),
        "annotations": without(annotations_of(child), RECORDS),
    }
    present = {field: values for field, values in metadata.items() if values}
    return part_of({"name": role, "spec": stripped(child["spec"]), "metadata": present or None})


def _form(spec: Object) -> str:
    """Return a text that is equal for a user's spec and for the spec of the child created from it."""
    return role_form(stripped(spec))
