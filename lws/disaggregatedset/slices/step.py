"""Turn one step of a slice into writes, in order: baselines, creations, raised counts, lowered counts,
deletions.

They are one sequence: what fails in it does not hold up other slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lws.disaggregatedset import events
from lws.disaggregatedset.children.role_sets import build_child
from lws.disaggregatedset.names import Identity, child_name, identity_of
from lws.disaggregatedset.rollout.drain import Lost, most_groups
from lws.disaggregatedset.rollout.state import SliceState, SliceStep
from lws.disaggregatedset.slices.state import Roles, RoleTargets, RolloutMemory, others_at_start
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec, Role, SlicePlacement
from lws.kube.metadata import annotations_of, is_mapping, without_tools_own
from lws.kube.ownership import ownership_of
from lws.runtime.actions import Action, Announce, Create, Delete, Merge, Plan, Reference, together
from lws.runtime.children import Child, plan_obstacle
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION, OTHERS_INITIAL_REPLICAS_ANNOTATION
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND


@dataclass(frozen=True, slots=True)
class SliceFacts:
    """One slice. key: the target revision. memory: of its rollout."""

    snapshot: DisaggregatedSnapshot
    spec: DisaggregatedSpec
    index: int
    key: str
    memory: RolloutMemory | None = None

    @property
    def children(self) -> tuple[ChildFacts, ...]:
        return self.snapshot.of_slice(self.index)

    @property
    def is_rolling(self) -> bool:
        """Something of another revision is left, and not merely on its way out without any groups."""
        return any(
            child.key != self.key and (child.existing or not child.is_leaving) for child in self.children
        )

    def child(self, role: str, key: str) -> ChildFacts | None:
        """The child of a role at a revision; the one with a slice in its name, where there are two."""
        of_role = [child for child in self.children if (child.role, child.key) == (role, key)]
        return min(of_role, key=lambda each: each.is_legacy, default=None)


def plan_step(within: SliceFacts, state: SliceState, step: SliceStep) -> Plan:
    """The writes of one step."""
    created, waits = _creations(within, state, step)
    actions: list[Action] = [*_baselines(within, step.starts), *created]
    raised, lowered = _counts(within, step)
    actions += [*raised, *lowered, *_drained(within, step.drained)]
    if within.is_rolling and created and len(state.missing) == len(within.spec.roles):
        started = events.rollout_started(within.snapshot.obj, within.key)
        actions = [_announcing(actions[0], started), *actions[1:]]
    return replace(waits, sequences=(tuple(actions),) if actions else ())


def baseline(within: SliceFacts, roles: Roles, lost: Mapping[str, int]) -> RolloutMemory:
    """The record when the rollout of a slice begins. lost: groups of deleted children."""
    initial = {**lost, **{child.name: child.wanted for child in within.children if not child.is_leaving}}
    return RolloutMemory(within.key, initial, {target.name: target.target for target in roles.targets})


def _baselines(within: SliceFacts, starts: bool) -> Iterator[Action]:
    """As the original writes them, and on children that the target revision has already, too. What a pass has
    remembered in the status and could not write on a child, the next one writes.
    """
    memory = within.memory
    initial = memory.initial if memory is not None and memory.key == within.key else {}
    for child in within.children:
        is_owed = starts or (within.is_rolling and child.name in initial)
        if child.is_leaving or not is_owed:
            continue
        others = _others(within, child.role) if child.key == within.key else None
        wanted = {
            INITIAL_REPLICAS_ANNOTATION: str(initial.get(child.name, child.wanted)),
            OTHERS_INITIAL_REPLICAS_ANNOTATION: others,
        }
        known = annotations_of(child.obj)
        changed = {key: value for key, value in wanted.items() if known.get(key) != value}
        if changed:
            patch = {"metadata": {"annotations": changed}}
            why = "a rollout begins with so many groups"
            yield Merge(Reference.to(child.obj), without_tools_own(child.obj, patch), why)


def _others(within: SliceFacts, role: str) -> str | None:
    """The record of a child about the other revisions; None if there is nothing to record."""
    set_name, memory = within.snapshot.obj["metadata"]["name"], within.memory
    is_of_this = memory is not None and memory.key == within.key
    count = others_at_start(set_name, memory, role) if memory is not None and is_of_this else 0
    return str(count) if count else None


def _creations(within: SliceFacts, state: SliceState, step: SliceStep) -> tuple[list[Action], Plan]:
    """Children to create now, and the reasons that delay others."""
    actions: list[Action] = []
    waits = []
    for role in within.spec.roles:
        if role.name not in state.missing or role.name not in step.new:
            continue
        blocked = _obstacle(within, role) or _too_early(within, state, role)
        if blocked is not None:
            waits.append(blocked)
            continue
        create = create_child(within, role, within.key, step.new[role.name], within.spec.placement)
        others = _others(within, role.name)
        actions.append(
            create if others is None else annotated(create, OTHERS_INITIAL_REPLICAS_ANNOTATION, others)
        )
    return actions, together(*waits)


def create_child(
    within: SliceFacts, role: Role, key: str, replicas: int, placement: SlicePlacement | None
) -> Create:
    """Create the LeaderWorkerSet of a role."""
    intent = build_child(within.snapshot.obj, role, placement, (within.index, key), replicas)
    name = intent["metadata"]["name"]
    failure = events.failed_create(within.snapshot.obj, f"LeaderWorkerSet {name}")
    return Create(intent, why=f"role {role.name} of slice {within.index} has none", failure=failure)


def annotated(create: Create, key: str, value: str) -> Create:
    """A creation with the annotations to record."""
    metadata = create.intent["metadata"]
    annotations = {**(metadata.get("annotations") or {}), key: value}
    return replace(create, intent={**create.intent, "metadata": {**metadata, "annotations": annotations}})


def _obstacle(within: SliceFacts, role: Role) -> Plan | None:
    """Whatever else has the name that the child needs."""
    snapshot = within.snapshot
    name = child_name(snapshot.obj["metadata"]["name"], Identity(within.index, within.key, role.name))
    if name in snapshot.unreadable:
        return Plan(waiting_for=f"LeaderWorkerSet {name} to be readable")
    leaving = next((child.obj for child in within.children if child.name == name), None)
    stored = leaving if leaving is not None else snapshot.strangers.get((CHILD_KIND, name))
    uid = snapshot.obj["metadata"]["uid"]
    ownership = ownership_of(stored, uid, lambda obj: False, snapshot.owners_alive)
    return plan_obstacle(snapshot.owner, Child(ownership, stored, f"the former LeaderWorkerSet {name}"))


def _too_early(within: SliceFacts, state: SliceState, role: Role) -> Plan | None:
    """Roles that must start first; a rollout waits for none."""
    if within.is_rolling:
        return None
    counts = {each.name: state.new.of(each.name) for each in state.roles}
    targets = {each.name: each.target for each in state.roles}
    for name in role.start_after:
        if targets.get(name) and not counts[name].ready:
            waited_for = f"{role.name} of slice {within.index} waits for a ready group of {name} (startAfter)"
            return Plan(waiting_for=waited_for)
    return None


def _counts(within: SliceFacts, step: SliceStep) -> tuple[list[Action], list[Action]]:
    """Counts that rise, and counts that fall."""
    raised: list[Action] = []
    lowered: list[Action] = []
    for key, counts in ((within.key, step.new), *step.old.items()):
        for role, wanted in counts.items():
            child = within.child(role, key)
            if child is None or child.is_leaving or child.wanted == wanted:
                continue
            (raised if wanted > child.wanted else lowered).append(_scaled(within, child, wanted))
    return raised, lowered


def _scaled(within: SliceFacts, child: ChildFacts, wanted: int) -> Merge:
    announce = (events.scaled(within.snapshot.obj, child, wanted),) if within.is_rolling else ()
    why = f"role {child.role} of slice {within.index} is to have {wanted} groups here"
    patch = without_tools_own(child.obj, {"spec": {"replicas": wanted}})
    return Merge(Reference.to(child.obj), patch, why, announce)


def _drained(within: SliceFacts, keys: Iterable[str]) -> Iterator[Action]:
    for child in within.children:
        if child.key in keys and not child.is_leaving:
            announce = (events.deleted_drained(within.snapshot.obj, child),)
            why = "no group of its revision is left"
            yield Delete(Reference.to(child.obj), "Background", why, announce)


def _announcing(action: Action, announce: Announce) -> Action:
    return replace(action, announce=(announce, *action.announce))


# --- Find LeaderWorkerSets of old revisions that a slice has lost, and create them again. Lost children of
# the target revision are not included: every step creates those anyway.


def lost_children(wanted: RoleTargets, within: SliceFacts, roles: Roles) -> dict[str, dict[str, Lost]]:
    """Deleted children that can be recreated, by key and role."""
    found: dict[str, dict[str, Lost]] = {}
    for identity, known in (*_of_rollout(within), *_of_waiting_slice(wanted, within, roles)):
        recorded = wanted.recorded(identity.key)
        is_known = recorded is not None and recorded.role(identity.role) is not None
        is_there = any((child.role, child.key) == (identity.role, identity.key) for child in within.children)
        if is_known and not is_there and not _is_refused(within.snapshot, identity):
            name = _name_of(within.snapshot, identity)
            lingering, orphaned = (
                each.get(name, 0) for each in (within.snapshot.lingering, within.snapshot.orphaned)
            )
            found.setdefault(identity.key, {})[identity.role] = replace(
                known, lingering=lingering, orphaned=orphaned
            )
    return found


def leftovers(within: SliceFacts, state: SliceState) -> dict[str, int]:
    """Role → groups that are left of deleted children of old revisions which do not come back."""
    set_name, found = within.snapshot.obj["metadata"]["name"], dict[str, int]()
    counted = {
        child_name(set_name, Identity(within.index, revision.key, role))
        for revision in state.old
        for role, count in revision.counts.items()
        if count.is_lost
    }
    for name, count in within.snapshot.lingering.items():
        identity = identity_of(set_name, name)
        if identity is None or identity.slice_index != within.index or identity.key == within.key:
            continue
        if name not in counted:
            found[identity.role] = found.get(identity.role, 0) + count
    return found


def lost_before(within: SliceFacts, roles: Roles) -> dict[str, int]:
    """By name, children of old revisions that the status saw when the rollout begins, and that are gone:
    they belong to what it begins with, but for groups that are not wanted any more. Of a revision that is
    gone as a whole nothing is lost.
    """
    most = {target.name: most_groups(target) for target in roles.targets}
    set_name = within.snapshot.obj["metadata"]["name"]
    there = {(child.key, child.role) for child in within.children}
    found = {}
    for key in {key for key, _ in there} - {within.key}:
        for role, count in last_seen(within.snapshot.obj, within.index, key).items():
            if count and (key, role) not in there:
                name = child_name(set_name, Identity(within.index, key, role))
                found[name] = min(count, most.get(role, count))
    return found


def creations(
    wanted: RoleTargets, within: SliceFacts, state: SliceState, step: SliceStep
) -> Iterator[Create]:
    """What makes them anew, with what the step leaves of them, once nothing is left of the former ones:
    groups that terminate count.
    """
    for revision in state.old:
        for name, count in revision.counts.items():
            left = step.old.get(revision.key, {}).get(name, count.wanted)
            recorded = wanted.recorded(revision.key) if count.is_lost and left else None
            role = recorded.role(name) if recorded is not None else None
            identity = Identity(within.index, revision.key, name)
            if _name_of(within.snapshot, identity) in within.snapshot.lingering:
                continue
            if recorded is not None and role is not None:
                create = create_child(within, role, revision.key, left, recorded.placement)
                # As the original writes it on children that a rollout begins with.
                known = count.initial is not None
                yield annotated(create, INITIAL_REPLICAS_ANNOTATION, str(count.initial)) if known else create


def _of_rollout(within: SliceFacts) -> Iterator[tuple[Identity, Lost]]:
    """Children of other revisions with which the rollout began."""
    snapshot, memory = within.snapshot, within.memory
    if memory is None or memory.key != within.key:
        return
    for name, initial in memory.initial.items():
        identity = identity_of(snapshot.obj["metadata"]["name"], name)
        if initial and identity is not None and identity.key != within.key:
            seen = last_seen(snapshot.obj, identity.slice_index, identity.key)
            yield identity, Lost(initial, seen.get(identity.role, initial))


def _of_waiting_slice(
    wanted: RoleTargets, within: SliceFacts, roles: Roles
) -> Iterator[tuple[Identity, Lost]]:
    """Those of the one revision on which a slice stays until its rollout may begin."""
    keys = {child.key for child in within.children}
    waits = within.spec.paused or within.spec.max_updating_slices is not None
    if not waits or len(keys) != 1 or within.key in keys:
        return
    (key,) = keys
    recorded = wanted.recorded(key)
    for role in roles.targets:
        known = recorded.role(role.name) if recorded is not None else None
        # One that waits for others may never have been made.
        if known is not None and not known.start_after:
            yield Identity(within.index, key, role.name), Lost(None, role.target)


def _is_refused(snapshot: DisaggregatedSnapshot, identity: Identity) -> bool:
    """A stranger has the name, the API server does not take the child, or it is there and cannot be read: no
    step can wait for it.
    """
    name = _name_of(snapshot, identity)
    subject = f"cannot create {CHILD_KIND} {name}"
    is_there = (CHILD_KIND, name) in snapshot.strangers or name in snapshot.unreadable
    return is_there or any(obstruction.subject == subject for obstruction in snapshot.obstructions)


def _name_of(snapshot: DisaggregatedSnapshot, identity: Identity) -> str:
    """The name of the recreated child."""
    return child_name(snapshot.obj["metadata"]["name"], replace(identity, is_legacy=False))


def last_seen(obj: Mapping[str, Any], slice_index: int, key: str) -> dict[str, int]:
    """The groups that the status last said the children of a revision had, by role; it may be behind, and old
    counts only fall.
    """
    counts = {}
    for of_slice in _entries(obj.get("status"), "sliceStatuses", "index", slice_index):
        for revision in _entries(of_slice, "revisions", "revision", key):
            for role in _entries(revision, "roles"):
                count = role.get("replicas", 0)
                if isinstance(role.get("name"), str) and type(count) is int:
                    counts[role["name"]] = count
    return counts


def _entries(holder: Any, field: str, key: str = "", value: object = None) -> Iterator[Mapping[str, Any]]:
    """Those of a list that say this of themselves; all by default."""
    known = holder.get(field) if is_mapping(holder) else None
    for each in known if isinstance(known, list) else ():
        if is_mapping(each) and (not key or each.get(key) == value):
            yield each
