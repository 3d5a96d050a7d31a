"""Turn one step of a slice into writes, in order: baselines, creations, raised counts, lowered counts,
deletions.

They are one sequence: what fails in it does not hold up other slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lws.disaggregatedset import events
from lws.disaggregatedset.children.role_sets import build_child
from lws.disaggregatedset.names import Identity, child_name
from lws.disaggregatedset.rollout.state import SliceState, SliceStep
from lws.disaggregatedset.slices.state import Roles, RolloutMemory, others_at_start
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec, Role, SlicePlacement
from lws.kube.metadata import annotations_of, without_tools_own
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
        return any(each.key != self.key and (each.existing or not each.is_leaving) for each in self.children)

    def child(self, role: str, key: str) -> ChildFacts | None:
        """The child of a role at a revision; the one with a slice in its name, where there are two."""
        of_role = [each for each in self.children if (each.role, each.key) == (role, key)]
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
    """What is remembered when the rollout of a slice begins. lost: groups of children that are gone."""
    initial = {**lost, **{each.name: each.wanted for each in within.children if not each.is_leaving}}
    return RolloutMemory(within.key, initial, {each.name: each.target for each in roles.targets})


def _baselines(within: SliceFacts, starts: bool) -> Iterator[Action]:
    """As the original writes them, and on children that the target revision has already, too. What a pass has
    remembered in the status and could not write on a child, the next one writes.
    """
    memory = within.memory
    initial = memory.initial if memory is not None and memory.key == within.key else {}
    for each in within.children:
        is_owed = starts or (within.is_rolling and each.name in initial)
        if each.is_leaving or not is_owed:
            continue
        others = _others(within, each.role) if each.key == within.key else None
        wanted = {
            INITIAL_REPLICAS_ANNOTATION: str(initial.get(each.name, each.wanted)),
            OTHERS_INITIAL_REPLICAS_ANNOTATION: others,
        }
        known = annotations_of(each.obj)
        changed = {key: value for key, value in wanted.items() if known.get(key) != value}
        if changed:
            patch = {"metadata": {"annotations": changed}}
            why = "a rollout begins with so many groups"
            yield Merge(Reference.to(each.obj), without_tools_own(each.obj, patch), why)


def _others(within: SliceFacts, role: str) -> str | None:
    """What a child of the target revision remembers of the others; None where that is nothing."""
    set_name, memory = within.snapshot.obj["metadata"]["name"], within.memory
    is_of_this = memory is not None and memory.key == within.key
    count = others_at_start(set_name, memory, role) if memory is not None and is_of_this else 0
    return str(count) if count else None


def _creations(within: SliceFacts, state: SliceState, step: SliceStep) -> tuple[list[Action], Plan]:
    """Children that are made now, and what keeps others from it."""
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
    """What makes the LeaderWorkerSet of a role."""
    intent = build_child(within.snapshot.obj, role, placement, (within.index, key), replicas)
    name = intent["metadata"]["name"]
    failure = events.failed_create(within.snapshot.obj, f"LeaderWorkerSet {name}")
    return Create(intent, why=f"role {role.name} of slice {within.index} has none", failure=failure)


def annotated(create: Create, key: str, value: str) -> Create:
    """What makes a child, with what it is to remember."""
    metadata = create.intent["metadata"]
    annotations = {**(metadata.get("annotations") or {}), key: value}
    return replace(create, intent={**create.intent, "metadata": {**metadata, "annotations": annotations}})


def _obstacle(within: SliceFacts, role: Role) -> Plan | None:
    """Whatever else has the name that the child needs."""
    snapshot = within.snapshot
    name = child_name(snapshot.obj["metadata"]["name"], Identity(within.index, within.key, role.name))
    if name in snapshot.unreadable:
        return Plan(waiting_for=f"LeaderWorkerSet {name} to be readable")
    leaving = next((each.obj for each in within.children if each.name == name), None)
    stored = leaving if leaving is not None else snapshot.strangers.get((CHILD_KIND, name))
    uid = snapshot.obj["metadata"]["uid"]
    ownership = ownership_of(stored, uid, lambda obj: False, snapshot.owners_alive)
    return plan_obstacle(snapshot.owner, Child(ownership, stored, f"the former LeaderWorkerSet {name}"))


def _too_early(within: SliceFacts, state: SliceState, role: Role) -> Plan | None:
    """Roles that come first; a rollout waits for nobody."""
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
