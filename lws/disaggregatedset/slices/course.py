"""Plan each slice of a DisaggregatedSet and record its rollout; decide which slices may begin one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lws import timing
from lws.disaggregatedset import events
from lws.disaggregatedset.rollout.drain import with_lost
from lws.disaggregatedset.rollout.planner import is_settled, next_step
from lws.disaggregatedset.rollout.state import PAUSED, SliceState
from lws.disaggregatedset.slices.state import RoleTargets, RolloutMemory, newest_first, rollout_record
from lws.disaggregatedset.slices.step import (
    SliceFacts,
    baseline,
    creations,
    last_seen,
    leftovers,
    lost_children,
    plan_step,
)
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec, Role
from lws.runtime.actions import Delete, Plan, Reference, merge_plans, soonest

_OTHERS_FIRST = "other slices are in their rollout, and no more may be at a time (maxUpdatingSlices)"
_NO_ROOM = "other slices are in their rollout, and the status has no room to remember that of another one"


@dataclass(frozen=True, slots=True)
class Course:
    """The plan of one slice in this pass.

    memory: the record of the slice's rollout; None if there is none.
    why_waiting: why the rollout waits for the user or for other slices, with its roles; usually empty.
    """

    index: int
    plan: Plan
    memory: RolloutMemory | None
    is_rolling: bool
    why_waiting: str = ""


@dataclass(frozen=True, slots=True)
class _SliceBefore:
    targets: RoleTargets
    slice: SliceFacts
    state: SliceState

    @property
    def progress(self) -> SliceProgress:
        within, record = self.slice, self.slice.record
        return SliceProgress(
            within.index,
            has_old=within.is_rolling,
            has_begun=bool(self.state.new.counts) or record is not None,
            is_settled=is_settled(self.state),
            records=len(within.children if record is None else record.initial),
        )


def courses(targets: RoleTargets) -> tuple[Course, ...]:
    """Plan all slices, in the order of their indices."""
    snapshot, spec = targets.snapshot, targets.spec
    legacy = plan_legacy(snapshot, spec, targets.key)
    former = _former(targets) if spec.paused else None
    slices = [_before_step(_targets_of(targets, index, former), index) for index in range(spec.slices)]
    progress = [before.progress for before in slices]
    may_step = slices_that_may_step(progress, spec.slices, spec.max_updating_slices)
    waiting = dict.fromkeys(may_step - slices_recorded(progress, may_step), _NO_ROOM)
    waiting |= dict.fromkeys(frozenset(range(spec.slices)) - may_step, _OTHERS_FIRST)
    return tuple(
        Course(0, legacy, rollout_record(snapshot.obj, 0), before.slice.is_rolling)
        if legacy.sequences and before.slice.index == 0
        else _course(before, waiting.get(before.slice.index, ""))
        for before in slices
    )


def waiting_slices(steps: Iterable[Course]) -> tuple[str, ...]:
    """Describe, for the status, the slices that wait for the user or for other slices, with their roles."""
    by_reason: dict[str, list[str]] = {}
    for step in steps:
        if step.why_waiting:
            by_reason.setdefault(step.why_waiting, []).append(str(step.index))
    return tuple(
        f"slice{'s' if len(indices) > 1 else ''} {', '.join(indices)}: {why}"
        for why, indices in by_reason.items()
    )


def _former(targets: RoleTargets) -> RoleTargets | None:
    """Return targets for slices added while a rollout is paused: the previous revision, with live numbers.

    The result is None without a rollout, or if no ControllerRevision records the previous revision.
    """
    snapshot, spec = targets.snapshot, targets.spec
    old = [
        child
        for child in snapshot.children
        if child.slice_index < spec.slices and child.key != targets.key and not child.is_terminating
    ]
    current = (snapshot.obj.get("status") or {}).get("currentRevision")
    keys = [revision.key for revision in snapshot.revisions if revision.name == current]
    keys += newest_first(old, snapshot.revisions)
    key = next((key for key in keys if key != targets.key and targets.recorded(key)), None)
    recorded = targets.recorded(key) if old and key is not None else None
    if recorded is None or key is None:
        return None
    roles = tuple(_with_live_numbers(targets, role, key) for role in recorded.roles)
    return replace(targets, key=key, spec=replace(spec, roles=roles, placement=recorded.placement))


def _with_live_numbers(targets: RoleTargets, role: Role, key: str) -> Role:
    """Return a recorded role with live numbers; a removed role has as many groups as in another slice."""
    live = targets.spec.role(role.name)
    if live is not None:
        numbers = replace(role, replicas=live.replicas, is_external=live.is_external)
        return replace(numbers, rolling=live.rolling, start_after=live.start_after)
    children = targets.snapshot.children
    counts = (child.desired for child in children if (child.role, child.key) == (role.name, key))
    return replace(role, replicas=max(counts, default=0))


def _targets_of(targets: RoleTargets, index: int, former: RoleTargets | None) -> RoleTargets:
    """Return the targets of one slice.

    A paused rollout begins in no slice. A slice that has no children, or lacks roles that start after others,
    gets the previous revision while all its children have it.
    """
    children = targets.snapshot.of_slice(index)
    if former is None or _was_on(targets, index) or {child.key for child in children} - {former.key}:
        return targets
    existing = {child.role for child in children if not child.is_terminating}
    late = {role.name for role in former.spec.roles if role.start_after and role.name not in existing}
    return former if not children or late else targets


def _was_on(targets: RoleTargets, index: int) -> bool:
    """Return whether the rollout had begun in the slice before the slice lost all its children. These
    children are then recreated.
    """
    memory = rollout_record(targets.snapshot.obj, index)
    return (memory is not None and memory.key == targets.key) or bool(
        last_seen(targets.snapshot.obj, index, targets.key)
    )


def _before_step(targets: RoleTargets, index: int) -> _SliceBefore:
    memory = rollout_record(targets.snapshot.obj, index)
    record = memory if memory is not None and memory.key == targets.key else None
    within = SliceFacts(targets.snapshot, targets.spec, index, targets.key, record)
    state = targets.slice_state(index, memory)
    state = with_lost(state, lost_children(targets, within, state.roles))
    return _SliceBefore(targets, within, replace(state, leftover=leftovers(within, state)))


def _course(before: _SliceBefore, why: str) -> Course:
    """Plan one slice. `why` says why its rollout has to wait; it is empty if it may continue."""
    within = before.slice
    is_waiting = within.is_rolling and bool(why)
    step = next_step(before.state, paused=within.spec.paused or is_waiting)
    if is_waiting and not within.spec.paused and step.waiting_for:
        step = replace(step, waiting_for=why)
    # Creates are independent of the step: if one is rejected, it must not delay the step.
    recreated = tuple(creations(before.targets, within, before.state, step))
    if step.starts:
        within = replace(within, record=baseline(within, before.state.roles))
    planned = merge_plans(Plan((recreated,)), plan_step(within, before.state, step))
    waiting_for = "; ".join(reason for reason in (step.waiting_for, planned.waiting_for) if reason)
    where = f"slice {within.index}: {waiting_for}" if waiting_for else ""
    again_after = soonest((planned.again_after, *_judgements(within)))
    # Groups of deleted children count until they are deleted too.
    is_needed = within.is_rolling or bool(before.state.leftover)
    return Course(
        within.index,
        replace(planned, waiting_for=where, again_after=again_after),
        within.record if is_needed else None,
        within.is_rolling,
        _why_waiting(before, why),
    )


def _why_waiting(before: _SliceBefore, why: str) -> str:
    within = before.slice
    if not within.is_rolling or not (why or within.spec.paused):
        return ""
    roles = ", ".join(role.name for role in before.state.roles)
    return f"roles {roles}: {PAUSED if within.spec.paused else why}"


def _judgements(within: SliceFacts) -> Iterator[float | None]:
    """Yield the seconds until a starting old group exceeds its start time, and until the groups of deleted
    children may be deleted. Neither moment causes an event.
    """
    if within.snapshot.lingering:
        yield timing.LINGERING_SECONDS
    yield from (child.judged_in for child in within.children if child.key != within.key)


# --- Choose which slices may start or continue a rollout now. Only the start of another rollout is ever
# delayed, never scaling, repair or removal of a slice.


MOST_RECORDED = 2000
"""The maximum number of LeaderWorkerSets in the records of all slices. A hundred slices of ten roles have a
thousand on one revision. Each takes up to 65 bytes in the status, and etcd limits the whole set to 1.5 MiB.
"""


@dataclass(frozen=True, slots=True)
class SliceProgress:
    """The progress of one slice, as far as it matters to other slices.

    has_old: whether groups of other revisions exist or are desired.
    is_settled: whether all desired groups of the target revision exist and are ready.
    records: the number of LeaderWorkerSets in the rollout's record, or in the one to write if it begins now.
    """

    index: int
    has_old: bool
    has_begun: bool
    is_settled: bool
    records: int = 0

    @property
    def is_updating(self) -> bool:
        """Whether the rollout has begun and is not complete."""
        return self.has_begun and (self.has_old or not self.is_settled)


def slices_that_may_step(
    progress: Iterable[SliceProgress], slices: int, most: int | None = None
) -> frozenset[int]:
    """Return the indices of slices whose rollout may start or continue; none is settled or removed.

    `slices` is the desired number, `most` is `maxUpdatingSlices`: None for no limit; below 1 counts as 1.
    Rollouts that have begun continue even above the limit. Others begin in the order of their indices.
    """
    remaining = sorted(
        (slice_ for slice_ in progress if slice_.index < slices), key=lambda slice_: slice_.index
    )
    updating = [slice_.index for slice_ in remaining if slice_.is_updating]
    waiting = [slice_.index for slice_ in remaining if slice_.has_old and not slice_.has_begun]
    if most is None:
        return frozenset((*updating, *waiting))
    return frozenset((*updating, *waiting[: max(0, max(1, most) - len(updating))]))


def slices_recorded(
    progress: Iterable[SliceProgress], may_step: frozenset[int], most: int = MOST_RECORDED
) -> frozenset[int]:
    """Return the slices of `may_step` whose record fits into the status.

    Rollouts that have begun continue. Others begin in the order of their indices, and at least one may.
    """
    rolling = [slice_ for slice_ in progress if slice_.has_old and slice_.index in may_step]
    total, waiting = 0, set[int]()
    for number, slice_ in enumerate(sorted(rolling, key=lambda slice_: (not slice_.has_begun, slice_.index))):
        total += slice_.records
        if number and total > most and not slice_.has_begun:
            waiting.add(slice_.index)
    return may_step - waiting


# --- Delete children of a DisaggregatedSet outside of rollouts: the children of surplus slices, and
# LeaderWorkerSets of the first slice without a slice in their names.


def plan_removed_slices(snapshot: DisaggregatedSnapshot, spec: DisaggregatedSpec) -> Plan:
    """Plan to delete the children of slices above the desired number."""
    why, removed = "its slice is not desired any more", dict[int, list[Delete]]()
    for child in snapshot.children:
        if child.slice_index >= spec.slices and not child.is_terminating:
            announce = (events.deleted_with_slice(snapshot.obj, child),)
            delete = Delete(Reference.to(child.obj), "Background", why, announce)
            removed.setdefault(child.slice_index, []).append(delete)
    return Plan(tuple(tuple(removed[index]) for index in sorted(removed)))


def plan_legacy(snapshot: DisaggregatedSnapshot, spec: DisaggregatedSpec, key: str) -> Plan:
    """Plan to delete the target revision's children whose pods lack the slice label. The next pass recreates
    them.
    """
    if spec.slices == 1:
        return Plan()
    targets, why = {role.name for role in spec.roles}, "its name and labels know no slices"
    actions = tuple(
        Delete(Reference.to(child.obj), "Background", why, (events.deleted_legacy(snapshot.obj, child),))
        for child in snapshot.children
        if child.is_legacy and child.key == key and child.role in targets and not child.is_terminating
    )
    return Plan((actions,) if actions else ())
