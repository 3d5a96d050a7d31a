"""How does each slice of a DisaggregatedSet go on, and which of them may begin a rollout?

In: a snapshot, the target revision. Out: for each slice a part of the plan of its own, and what is to be
remembered of its rollout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lws import timing
from lws.actions import Plan, soonest, together
from lws.disaggregatedset.rollout.lost import with_lost
from lws.disaggregatedset.rollout.planner import next_step
from lws.disaggregatedset.rollout.reasons import PAUSED
from lws.disaggregatedset.rollout.scaling import is_settled
from lws.disaggregatedset.rollout.slices import SliceStanding, slices_remembered, slices_that_may_step
from lws.disaggregatedset.rollout.state import SliceState
from lws.disaggregatedset.slices.leftovers import legacy_children, plan_legacy
from lws.disaggregatedset.slices.lost import creations, leftovers, lost_before, lost_children
from lws.disaggregatedset.slices.state import (
    Memory,
    Roles,
    gone_since,
    gone_unseen,
    newest_first,
    remembered,
    slice_state,
)
from lws.disaggregatedset.slices.step import Slice, baseline, plan_step
from lws.disaggregatedset.slices.targets import Wanted

_OTHERS_FIRST = "other slices are in their rollout, and no more may be at a time (maxUpdatingSlices)"
_NO_ROOM = "other slices are in their rollout, and the status has no room to remember that of another one"


@dataclass(frozen=True, slots=True)
class Course:
    """What one slice does in this pass. memory: of its rollout, None where it is in none. why_waiting: what
    keeps its rollout waiting for the user or for other slices, with its roles; mostly empty.
    """

    index: int
    plan: Plan
    memory: Memory | None
    is_rolling: bool
    why_waiting: str = ""


@dataclass(frozen=True, slots=True)
class _Standing:
    """How a slice stands before its step."""

    wanted: Wanted
    slice: Slice
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


def courses(wanted: Wanted) -> tuple[Course, ...]:
    """Of every slice that is wanted, in their order."""
    snapshot, spec = wanted.snapshot, wanted.spec
    legacy = legacy_children(snapshot, spec, wanted.key)
    standings = [_standing(wanted, index) for index in range(spec.slices)]
    summaries = [each.summary for each in standings]
    may_step = slices_that_may_step(summaries, spec.slices, spec.max_updating_slices)
    waiting = dict.fromkeys(may_step - slices_remembered(summaries, may_step), _NO_ROOM)
    waiting |= dict.fromkeys(frozenset(range(spec.slices)) - may_step, _OTHERS_FIRST)
    return tuple(
        Course(0, plan_legacy(snapshot, legacy), each.slice.memory, each.slice.is_rolling)
        if legacy and each.slice.index == 0
        else _course(each, waiting.get(each.slice.index, ""))
        for each in standings
    )


def waiting_slices(steps: Iterable[Course]) -> tuple[str, ...]:
    """Which slices wait for the user or for others, and which roles of them, for the status."""
    found: dict[str, list[str]] = {}
    for each in steps:
        if each.why_waiting:
            found.setdefault(each.why_waiting, []).append(str(each.index))
    return tuple(
        f"slice{'s' if len(indices) > 1 else ''} {', '.join(indices)}: {why}"
        for why, indices in found.items()
    )


def _standing(wanted: Wanted, index: int) -> _Standing:
    snapshot, key = wanted.snapshot, wanted.key
    memory = remembered(snapshot.obj, index)
    roles = wanted.in_slice(index, memory)
    children = snapshot.of_slice(index)
    old = [each for each in newest_first(children, snapshot.revisions) if each != key]
    state = slice_state(children, roles, [key, *old], memory)
    if memory is None:
        state = replace(state, gone=gone_unseen(state, (each for each in children if each.key == key)))
    elif memory.key == key:
        state = replace(state, gone=gone_since(snapshot.obj["metadata"]["name"], children, memory))
    within = Slice(snapshot, wanted.spec, index, key, memory)
    state = with_lost(state, lost_children(wanted, within, roles))
    return _Standing(wanted, within, roles, replace(state, leftover=leftovers(within, state)))


def _course(standing: _Standing, why: str) -> Course:
    """why: what keeps its rollout waiting, in words; empty where it may go on."""
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
    roles = ", ".join(each.name for each in standing.state.roles)
    return f"roles {roles}: {PAUSED if within.spec.paused else why}"


def _judgements(within: Slice) -> Iterator[float | None]:
    """Seconds until an old group that is starting has had its time, or what a deletion has left may be gone:
    no event tells.
    """
    if within.snapshot.lingering:
        yield timing.LINGERING_SECONDS
    yield from (each.judged_in for each in within.children if each.key != within.key)
