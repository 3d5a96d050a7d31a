"""Turn one step of a slice into baselines, creates, raised counts, lowered counts, deletes.

The writes are one sequence in this order, so that a failure does not affect other slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lws.disaggregatedset import events
from lws.disaggregatedset.children.role_sets import build_child
from lws.disaggregatedset.names import Identity, child_name, identity_of
from lws.disaggregatedset.rollout.drain import Lost, most_groups
from lws.disaggregatedset.rollout.state import RoleTarget, SliceState, SliceStep
from lws.disaggregatedset.slices.state import RoleTargets, RolloutMemory
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec, Role, SlicePlacement
from lws.kube.metadata import annotations_of, without_tool_keys
from lws.kube.ownership import ownership_of
from lws.leaderworkerset.events import failed_create
from lws.runtime.actions import Action, Create, Delete, Merge, Object, Plan, Reference, merge_plans
from lws.runtime.children import Child, plan_obstacle
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION, OTHERS_INITIAL_REPLICAS_ANNOTATION
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND


@dataclass(frozen=True, slots=True)
class SliceFacts:
    """One slice of a DisaggregatedSet.

    key: the target revision.
    record: the record of the rollout to it; None if that has not begun.
    """

    snapshot: DisaggregatedSnapshot
    spec: DisaggregatedSpec
    index: int
    key: str
    record: RolloutMemory | None

    @property
    def children(self) -> tuple[ChildFacts, ...]:
        return self.snapshot.of_slice(self.index)

    @property
    def initial(self) -> Mapping[str, int]:
        """Name of a child → its desired groups when the rollout began; empty if that has not begun."""
        return self.record.initial if self.record is not None else {}

    @property
    def is_rolling(self) -> bool:
        """Whether children of another revision exist, apart from terminating children without groups."""
        return any(
            child.key != self.key and (child.present or not child.is_terminating) for child in self.children
        )

    def child(self, role: str, key: str) -> ChildFacts | None:
        """Return the child of a role at a revision; of two, the one with a slice in its name."""
        of_role = [child for child in self.children if (child.role, child.key) == (role, key)]
        return min(of_role, key=lambda child: child.is_legacy, default=None)


def plan_step(within: SliceFacts, state: SliceState, step: SliceStep) -> Plan:
    """Plan the writes of one step."""
    created, waits = _creations(within, state, step)
    actions: list[Action] = [*_baselines(within, step.starts), *created]
    raised, lowered = _counts(within, step)
    actions += [*raised, *lowered, *_drained(within, step.drained)]
    if within.is_rolling and created and len(state.missing) == len(within.spec.roles):
        started = events.rollout_started(within.snapshot.obj, within.key)
        first = replace(actions[0], announce=(started, *actions[0].announce))
        actions = [first, *actions[1:]]
    return replace(waits, sequences=(tuple(actions),) if actions else ())


def baseline(within: SliceFacts, roles: Iterable[RoleTarget]) -> RolloutMemory:
    """Build the record with which a slice's rollout begins."""
    existing = {child.name: child.desired for child in within.children if not child.is_terminating}
    initial = {**_lost_before(within, roles), **existing}
    return RolloutMemory(within.key, initial, {role.name: role.target for role in roles})


def _baselines(within: SliceFacts, starts: bool) -> Iterator[Action]:
    """Yield writes of upstream's baselines on children, also of the target revision.

    If a pass has written the record to the status but not to a child, the next pass writes it to the child.
    """
    for child in within.children:
        is_owed = starts or (within.is_rolling and child.name in within.initial)
        if child.is_terminating or not is_owed:
            continue
        others = _others(within, child.role) if child.key == within.key else None
        desired = {
            INITIAL_REPLICAS_ANNOTATION: str(within.initial.get(child.name, child.desired)),
            OTHERS_INITIAL_REPLICAS_ANNOTATION: others,
        }
        annotations = annotations_of(child.obj)
        changed = {key: value for key, value in desired.items() if annotations.get(key) != value}
        if changed:
            patch = {"metadata": {"annotations": changed}}
            why = "a rollout begins with so many groups"
            yield Merge(Reference.to(child.obj), without_tool_keys(child.obj, patch), why)


def _others(within: SliceFacts, role: str) -> str | None:
    """Return what a child records: the number of groups that its role had on other revisions when the rollout
    began. It is None unless there were several other revisions, of which some can be deleted before others.
    """
    counts = Counter[str]()
    for name, count in within.initial.items():
        identity = identity_of(within.snapshot.owner.name, name)
        if identity is not None and identity.key != within.key and identity.role == role:
            counts[identity.key] += count
    return str(counts.total()) if len(counts) > 1 and counts.total() else None


def _creations(within: SliceFacts, state: SliceState, step: SliceStep) -> tuple[list[Action], Plan]:
    """Return the creates of this step, and a plan with the reasons why other children have to wait."""
    actions: list[Action] = []
    waits = []
    for role in within.spec.roles:
        if role.name not in state.missing or role.name not in step.new:
            continue
        blocked = _name_conflict(within, role) or _too_early(within, state, role)
        if blocked is not None:
            waits.append(blocked)
            continue
        create = create_child(within, role, within.key, step.new[role.name], within.spec.placement)
        others = _others(within, role.name)
        actions.append(
            create if others is None else annotated(create, OTHERS_INITIAL_REPLICAS_ANNOTATION, others)
        )
    return actions, merge_plans(*waits)


def create_child(
    within: SliceFacts, role: Role, key: str, replicas: int, placement: SlicePlacement | None
) -> Create:
    intent = build_child(within.snapshot.obj, role, placement, (within.index, key), replicas)
    name = intent["metadata"]["name"]
    failure = failed_create(within.snapshot.obj, f"LeaderWorkerSet {name}")
    return Create(intent, why=f"role {role.name} of slice {within.index} has none", failure=failure)


def annotated(create: Create, key: str, value: str) -> Create:
    """Return the create with one more annotation."""
    metadata = create.intent["metadata"]
    annotations = {**(metadata.get("annotations") or {}), key: value}
    return replace(create, intent={**create.intent, "metadata": {**metadata, "annotations": annotations}})


def _name_conflict(within: SliceFacts, role: Role) -> Plan | None:
    """Plan what to do about another object with the name of the child; None if there is none."""
    snapshot = within.snapshot
    name = _name_of(snapshot, Identity(within.index, within.key, role.name))
    if name in snapshot.unreadable:
        return Plan(waiting_for=f"LeaderWorkerSet {name} to be readable")
    leaving = next((child.obj for child in within.children if child.name == name), None)
    stored = leaving if leaving is not None else snapshot.strangers.get((CHILD_KIND, name))
    uid = snapshot.obj["metadata"]["uid"]
    ownership = ownership_of(stored, uid, lambda obj: False, snapshot.owners_alive)
    return plan_obstacle(snapshot.owner, Child(ownership, stored, f"the former LeaderWorkerSet {name}"))


def _too_early(within: SliceFacts, state: SliceState, role: Role) -> Plan | None:
    """Plan to wait for the roles that must start earlier; in a rollout, roles do not wait for others."""
    if within.is_rolling:
        return None
    targets = {role_target.name: role_target.target for role_target in state.roles}
    for name in role.start_after:
        if targets.get(name) and not state.new.of(name).ready:
            waited_for = f"{role.name} of slice {within.index} waits for a ready group of {name} (startAfter)"
            return Plan(waiting_for=waited_for)
    return None


def _counts(within: SliceFacts, step: SliceStep) -> tuple[list[Action], list[Action]]:
    raised: list[Action] = []
    lowered: list[Action] = []
    for key, counts in ((within.key, step.new), *step.old.items()):
        for role, desired in counts.items():
            child = within.child(role, key)
            if child is None or child.is_terminating or child.desired == desired:
                continue
            announce = (events.scaled(within.snapshot.obj, child, desired),) if within.is_rolling else ()
            why = f"role {child.role} of slice {within.index} is to have {desired} groups here"
            patch = without_tool_keys(child.obj, {"spec": {"replicas": desired}})
            merge = Merge(Reference.to(child.obj), patch, why, announce)
            (raised if desired > child.desired else lowered).append(merge)
    return raised, lowered


def _drained(within: SliceFacts, keys: Iterable[str]) -> Iterator[Action]:
    for child in within.children:
        if child.key in keys and not child.is_terminating:
            announce = (events.deleted_drained(within.snapshot.obj, child),)
            why = "no group of its revision is left"
            yield Delete(Reference.to(child.obj), "Background", why, announce)


# --- Recreate deleted LeaderWorkerSets of old revisions. Every step creates missing ones of the target
# revision anyway.


def lost_children(
    targets: RoleTargets, within: SliceFacts, roles: Iterable[RoleTarget]
) -> dict[str, dict[str, Lost]]:
    """Return the deleted children that can be recreated, by key and role."""
    by_key: dict[str, dict[str, Lost]] = {}
    snapshot = within.snapshot
    for identity, lost in (*_of_rollout(within), *_of_waiting_slice(targets, within, roles)):
        recorded = targets.recorded(identity.key)
        is_recorded = recorded is not None and recorded.role(identity.role) is not None
        exists = within.child(identity.role, identity.key) is not None
        if is_recorded and not exists and not _is_rejected(snapshot, identity):
            name = _name_of(snapshot, identity)
            by_key.setdefault(identity.key, {})[identity.role] = replace(
                lost, lingering=snapshot.lingering.get(name, 0), orphaned=snapshot.orphaned.get(name, 0)
            )
    return by_key


def leftovers(within: SliceFacts, state: SliceState) -> dict[str, int]:
    """Return role → remaining groups of deleted children of old revisions that are not recreated."""
    counted = {
        _name_of(within.snapshot, Identity(within.index, revision.key, role))
        for revision in state.old
        for role, count in revision.counts.items()
        if count.is_lost
    }
    by_role = Counter[str]()
    for name, count in within.snapshot.lingering.items():
        identity = identity_of(within.snapshot.owner.name, name)
        if identity is None or identity.slice_index != within.index or identity.key == within.key:
            continue
        if name not in counted:
            by_role[identity.role] += count
    return by_role


def _lost_before(within: SliceFacts, roles: Iterable[RoleTarget]) -> dict[str, int]:
    """Return name → groups of old children deleted before the rollout begins, as the status shows them.

    They count in the baseline, except surplus groups. A revision without any child has lost none.
    """
    most = {role.name: most_groups(role) for role in roles}
    existing = {(child.key, child.role) for child in within.children}
    deleted = {}
    for key in {key for key, _ in existing} - {within.key}:
        for role, count in last_seen(within.snapshot.obj, within.index, key).items():
            if count and (key, role) not in existing:
                name = _name_of(within.snapshot, Identity(within.index, key, role))
                deleted[name] = min(count, most.get(role, count))
    return deleted


def creations(
    targets: RoleTargets, within: SliceFacts, state: SliceState, step: SliceStep
) -> Iterator[Create]:
    """Yield creates of lost children, each with the groups that the step leaves to it.

    Terminating groups count, so a child is recreated only once its predecessor's groups are deleted.
    """
    for revision in state.old:
        for name, count in revision.counts.items():
            remaining = step.old.get(revision.key, {}).get(name, count.desired)
            is_due = count.is_lost and remaining and not count.lingering
            recorded = targets.recorded(revision.key) if is_due else None
            role = recorded.role(name) if recorded is not None else None
            if recorded is not None and role is not None:
                create = create_child(within, role, revision.key, remaining, recorded.placement)
                # Upstream annotates the children with which a rollout begins in the same way.
                if count.initial is not None:
                    create = annotated(create, INITIAL_REPLICAS_ANNOTATION, str(count.initial))
                yield create


def _of_rollout(within: SliceFacts) -> Iterator[tuple[Identity, Lost]]:
    """Yield the children of other revisions with which the rollout began."""
    snapshot = within.snapshot
    for name, initial in within.initial.items():
        identity = identity_of(snapshot.owner.name, name)
        if initial and identity is not None and identity.key != within.key:
            seen = last_seen(snapshot.obj, identity.slice_index, identity.key)
            yield identity, Lost(initial, seen.get(identity.role, initial))


def _of_waiting_slice(
    targets: RoleTargets, within: SliceFacts, roles: Iterable[RoleTarget]
) -> Iterator[tuple[Identity, Lost]]:
    """Yield the children due on a slice's only revision while its rollout may not begin yet."""
    keys = {child.key for child in within.children}
    waits = within.spec.paused or within.spec.max_updating_slices is not None
    if not waits or len(keys) != 1 or within.key in keys:
        return
    (key,) = keys
    recorded = targets.recorded(key)
    for role in roles:
        recorded_role = recorded.role(role.name) if recorded is not None else None
        # A role that waits for other roles may never have been created.
        if recorded_role is not None and not recorded_role.start_after:
            yield Identity(within.index, key, role.name), Lost(None, role.target)


def _is_rejected(snapshot: DisaggregatedSnapshot, identity: Identity) -> bool:
    """Return whether no step may wait for the child: it is rejected, unreadable, or its name is taken."""
    name = _name_of(snapshot, identity)
    subject = f"cannot create {CHILD_KIND} {name}"
    exists = (CHILD_KIND, name) in snapshot.strangers or name in snapshot.unreadable
    return exists or any(rejection.subject == subject for rejection in snapshot.rejections)


def _name_of(snapshot: DisaggregatedSnapshot, identity: Identity) -> str:
    return child_name(snapshot.owner.name, replace(identity, is_legacy=False))


def last_seen(obj: Object, slice_index: int, key: str) -> dict[str, int]:
    """Read the groups of the children of a revision from the status, by role. The status may be stale, but
    counts of old revisions only fall.
    """
    counts: dict[str, int] = {}
    for of_slice in (obj.get("status") or {}).get("sliceStatuses") or ():
        for revision in of_slice.get("revisions") or ():
            if (of_slice.get("index"), revision.get("revision")) == (slice_index, key):
                counts |= {role["name"]: role.get("replicas") or 0 for role in revision.get("roles") or ()}
    return counts
