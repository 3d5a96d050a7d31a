"""Plan each slice of a DisaggregatedSet, and decide which slices may begin a rollout.

Out: for each slice a plan of its own, and what to remember of its rollout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lws import timing
from lws.disaggregatedset import events
from lws.disaggregatedset.rollout.drain import with_lost
from lws.disaggregatedset.rollout.planner import is_settled, next_step
from lws.disaggregatedset.rollout.state import PAUSED, SliceState
from lws.disaggregatedset.slices.state import (
    Roles,
    RoleTargets,
    RolloutMemory,
    gone_since,
    gone_unseen,
    newest_first,
    remembered,
    slice_state,
)
from lws.disaggregatedset.slices.step import (
    SliceFacts,
    baseline,
    creations,
    last_seen,
    leftovers,
    lost_before,
    lost_children,
    plan_step,
)
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec, Role
from lws.runtime.actions import Delete, Plan, Reference, soonest, together

_OTHERS_FIRST = "other slices are in their rollout, and no more may be at a time (maxUpdatingSlices)"
_NO_ROOM = "other slices are in their rollout, and the status has no room to remember that of another one"


@dataclass(frozen=True, slots=True)
class Course:
    """What one slice does in this pass. memory: of its rollout, None where it is in none. why_waiting: what
    keeps its rollout waiting for the user or for other slices, with its roles; mostly empty.
    """

    index: int
    plan: Plan
    memory: RolloutMemory | None
    is_rolling: bool
    why_waiting: str = ""


@dataclass(frozen=True, slots=True)
class _Standing:
    """The state of a slice before its step."""

    wanted: RoleTargets
    slice: SliceFacts
    roles: Roles
    state: SliceState

    @property
    def has_begun(self) -> bool:
        """Its rollout to the target revision has."""
        memory = self.slice.memory
        return bool(self.state.new.counts) or (memory is not None and memory.key == self.slice.key)

    @property
    def summary(self) -> SliceStanding:
        """As far as other slices are concerned."""
        memory, children = self.slice.memory, self.slice.children
        is_known = memory is not None and memory.key == self.slice.key
        remembers = len(memory.initial) if memory is not None and is_known else len(children)
        within, is_done = self.slice, is_settled(self.state)
        return SliceStanding(within.index, within.is_rolling, self.has_begun, is_done, remembers)


def courses(wanted: RoleTargets) -> tuple[Course, ...]:
    """The courses of all slices, in order."""
    snapshot, spec = wanted.snapshot, wanted.spec
    legacy = legacy_children(snapshot, spec, wanted.key)
    former = _former(wanted) if spec.paused else None
    asked = [_asked_for(wanted, index, former) for index in range(spec.slices)]
    standings = [_standing(each, index) for index, each in enumerate(asked)]
    summaries = [standing.summary for standing in standings]
    may_step = slices_that_may_step(summaries, spec.slices, spec.max_updating_slices)
    waiting = dict.fromkeys(may_step - slices_remembered(summaries, may_step), _NO_ROOM)
    waiting |= dict.fromkeys(frozenset(range(spec.slices)) - may_step, _OTHERS_FIRST)
    return tuple(
        Course(0, plan_legacy(snapshot, legacy), standing.slice.memory, standing.slice.is_rolling)
        if legacy and standing.slice.index == 0
        else _course(standing, waiting.get(standing.slice.index, ""))
        for standing in standings
    )


def waiting_slices(steps: Iterable[Course]) -> tuple[str, ...]:
    """Which slices wait for the user or for others, and which roles of them, for the status."""
    found: dict[str, list[str]] = {}
    for step in steps:
        if step.why_waiting:
            found.setdefault(step.why_waiting, []).append(str(step.index))
    return tuple(
        f"slice{'s' if len(indices) > 1 else ''} {', '.join(indices)}: {why}"
        for why, indices in found.items()
    )


def _former(wanted: RoleTargets) -> RoleTargets | None:
    """What slices ask for that come while a rollout is paused: the revision that it leads away from, with the
    numbers of groups that are asked for now. None where none is under way, or nothing records what it was.
    """
    snapshot, spec = wanted.snapshot, wanted.spec
    old = [
        child
        for child in snapshot.children
        if child.slice_index < spec.slices and child.key != wanted.key and not child.is_leaving
    ]
    current = (snapshot.obj.get("status") or {}).get("currentRevision")
    keys = [revision.key for revision in snapshot.revisions if revision.name == current]
    keys += newest_first(old, snapshot.revisions)
    key = next((each for each in keys if each != wanted.key and wanted.recorded(each)), None)
    recorded = wanted.recorded(key) if old and key is not None else None
    if recorded is None or key is None:
        return None
    roles = tuple(_with_live_numbers(wanted, role, key) for role in recorded.roles)
    return replace(wanted, key=key, spec=replace(spec, roles=roles, placement=recorded.placement))


def _with_live_numbers(wanted: RoleTargets, role: Role, key: str) -> Role:
    """A recorded role with present counts; a removed role has as many groups as in another slice."""
    live = wanted.spec.role(role.name)
    if live is not None:
        numbers = replace(role, replicas=live.replicas, is_external=live.is_external)
        return replace(numbers, rolling=live.rolling, start_after=live.start_after)
    children = wanted.snapshot.children
    kept = (child.wanted for child in children if (child.role, child.key) == (role.name, key))
    return replace(role, replicas=max(kept, default=0))


def _asked_for(wanted: RoleTargets, index: int, former: RoleTargets | None) -> RoleTargets:
    """What is asked for in one slice. A paused rollout begins in none: one that has nothing yet, or not yet
    all roles because some start after others, gets what the others are on.
    """
    children = wanted.snapshot.of_slice(index)
    if former is None or _was_on(wanted, index) or {child.key for child in children} - {former.key}:
        return wanted
    there = {child.role for child in children if not child.is_leaving}
    late = {role.name for role in former.spec.roles if role.start_after and role.name not in there}
    return former if not children or late else wanted


def _was_on(wanted: RoleTargets, index: int) -> bool:
    """The rollout had begun in the slice before it lost everything: it comes back where it was."""
    memory = remembered(wanted.snapshot.obj, index)
    return (memory is not None and memory.key == wanted.key) or bool(
        last_seen(wanted.snapshot.obj, index, wanted.key)
    )


def _standing(wanted: RoleTargets, index: int) -> _Standing:
    snapshot, key = wanted.snapshot, wanted.key
    memory = remembered(snapshot.obj, index)
    roles = wanted.in_slice(index, memory)
    children = snapshot.of_slice(index)
    old = [child for child in newest_first(children, snapshot.revisions) if child != key]
    state = slice_state(children, roles, [key, *old], memory)
    if memory is None:
        state = replace(state, gone=gone_unseen(state, (child for child in children if child.key == key)))
    elif memory.key == key:
        state = replace(state, gone=gone_since(snapshot.obj["metadata"]["name"], children, memory))
    within = SliceFacts(snapshot, wanted.spec, index, key, memory)
    state = with_lost(state, lost_children(wanted, within, roles))
    return _Standing(wanted, within, roles, replace(state, leftover=leftovers(within, state)))


def _course(standing: _Standing, why: str) -> Course:
    """why: why its rollout waits, in words; empty if it may continue."""
    within = standing.slice
    is_waiting = within.is_rolling and bool(why)
    step = next_step(standing.state, paused=within.spec.paused or is_waiting)
    if is_waiting and not within.spec.paused and step.waiting_for:
        step = replace(step, waiting_for=why)
    # Apart from the step: one that is refused holds up nothing.
    brought_back = tuple(creations(standing.wanted, within, standing.state, step))
    memory = (
        baseline(within, standing.roles, lost_before(within, standing.roles))
        if step.starts
        else within.memory
    )
    planned = together(Plan((brought_back,)), plan_step(replace(within, memory=memory), standing.state, step))
    waiting_for = "; ".join(each for each in (step.waiting_for, planned.waiting_for) if each)
    where = f"slice {within.index}: {waiting_for}" if waiting_for else ""
    again_after = soonest((planned.again_after, *_judgements(within)))
    # What deleted children have left takes part until it is gone.
    is_needed = within.is_rolling or bool(standing.state.leftover)
    is_known = memory is not None and memory.key == within.key and is_needed
    return Course(
        within.index,
        replace(planned, waiting_for=where, again_after=again_after),
        memory if is_known else None,
        within.is_rolling,
        _why_waiting(standing, why),
    )


def _why_waiting(standing: _Standing, why: str) -> str:
    within = standing.slice
    if not within.is_rolling or not (why or within.spec.paused):
        return ""
    roles = ", ".join(role.name for role in standing.state.roles)
    return f"roles {roles}: {PAUSED if within.spec.paused else why}"


def _judgements(within: SliceFacts) -> Iterator[float | None]:
    """Seconds until an old group that is starting has had its time, or what a deletion has left may be gone:
    no event tells.
    """
    if within.snapshot.lingering:
        yield timing.LINGERING_SECONDS
    yield from (child.judged_in for child in within.children if child.key != within.key)


# --- Choose which slices may start or continue a rollout now. Scaling, repair and removal of slices are
# never held back; only the start of another rollout is.


MOST_REMEMBERED = 2000
"""LeaderWorkerSets that the memories of all slices name. A hundred slices of ten roles have a thousand on one
revision; each has up to 65 bytes in the status, and etcd takes 1.5 MiB for the whole set.
"""


@dataclass(frozen=True, slots=True)
class SliceStanding:
    """has_old: groups of other revisions are there, or wanted. has_begun: its rollout has begun.

    is_settled: everything wanted of the target revision is there and ready. remembers: LeaderWorkerSets that
    the memory of its rollout names, or will where it begins now.
    """

    index: int
    has_old: bool
    has_begun: bool
    is_settled: bool
    remembers: int = 0

    @property
    def is_updating(self) -> bool:
        """Whether its rollout has begun and is not at its end."""
        return self.has_begun and (self.has_old or not self.is_settled)


def slices_that_may_step(
    standings: Iterable[SliceStanding], slices: int, most: int | None = None
) -> frozenset[int]:
    """Indices of slices whose rollout may start or continue; settled and removed slices have none.

    slices: how many there are to be. most: `maxUpdatingSlices`; None for no bound, less than 1 counts as 1.
    A rollout that has begun goes on, whatever the bound became since; others begin from the lowest index.
    """
    there = sorted(
        (standing for standing in standings if standing.index < slices), key=lambda each: each.index
    )
    updating = [each.index for each in there if each.is_updating]
    waiting = [each.index for each in there if each.has_old and not each.has_begun]
    if most is None:
        return frozenset((*updating, *waiting))
    return frozenset((*updating, *waiting[: max(0, max(1, most) - len(updating))]))


def slices_remembered(
    standings: Iterable[SliceStanding], may_step: frozenset[int], most: int = MOST_REMEMBERED
) -> frozenset[int]:
    """Those of `may_step` for whose memory the status has room: what has begun goes on, others begin from the
    lowest index, and one may always.
    """
    rolling = [standing for standing in standings if standing.has_old and standing.index in may_step]
    taken, waiting = 0, set[int]()
    for number, each in enumerate(sorted(rolling, key=lambda each: (not each.has_begun, each.index))):
        taken += each.remembers
        if number and taken > most and not each.has_begun:
            waiting.add(each.index)
    return may_step - waiting


# --- What is deleted of a DisaggregatedSet, beside what a rollout drains: slices that are not wanted any
# more, and LeaderWorkerSets of the first slice whose names know no slices.


def plan_removed_slices(snapshot: DisaggregatedSnapshot, spec: DisaggregatedSpec) -> Plan:
    """Delete the slices above the desired number."""
    removed = sorted({child.slice_index for child in snapshot.children if child.slice_index >= spec.slices})
    return Plan(tuple(sequence for index in removed if (sequence := _removed(snapshot, index))))


def legacy_children(snapshot: DisaggregatedSnapshot, spec: DisaggregatedSpec, key: str) -> list[ChildFacts]:
    """Children on the target revision that have to be made anew: without the label that their pods lack,
    those of several slices cannot be told apart.
    """
    if spec.slices == 1:
        return []
    wanted = {role.name for role in spec.roles}
    return [
        child
        for child in snapshot.children
        if child.is_legacy and child.key == key and child.role in wanted and not child.is_leaving
    ]


def plan_legacy(snapshot: DisaggregatedSnapshot, children: Iterable[ChildFacts]) -> Plan:
    """Delete them; the next pass recreates them."""
    why = "its name and labels know no slices"
    actions = tuple(
        Delete(Reference.to(child.obj), "Background", why, (events.deleted_legacy(snapshot.obj, child),))
        for child in children
    )
    return Plan((actions,) if actions else ())


def _removed(snapshot: DisaggregatedSnapshot, index: int) -> tuple[Delete, ...]:
    why = "its slice is not wanted any more"
    return tuple(
        Delete(Reference.to(each.obj), "Background", why, (events.deleted_with_slice(snapshot.obj, each),))
        for each in snapshot.of_slice(index)
        if not each.is_leaving
    )
