"""Simulate the rollout of a slice of a DisaggregatedSet in which every change becomes ready at once.

Each step is one row of counts. The rest of a step that had to wait for deletions belongs to the row of the
step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lws.disaggregatedset.rollout.planner import next_step
from lws.disaggregatedset.rollout.state import Count, RevisionCounts, RoleTarget, SliceState, SliceStep

# Each group takes a few steps. A slice that needs more steps than this never settles.
_STEPS_PER_GROUP = 10
_STEPS_AT_LEAST = 100
_STEPS_AT_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Row:
    """The counts after a step: `spec.replicas` by key and role of old revisions, by role of the target."""

    old: Mapping[str, Mapping[str, int]]
    new: Mapping[str, int]


def simulate(state: SliceState) -> tuple[Row, ...]:
    """Return the rows from the given state to the end of the rollout."""
    state = apply(state, SliceStep())
    rows = [_row_of(state)]
    groups = sum(role.target + state.old_desired(role.name) for role in state.roles)
    is_open = False
    for _ in range(min(_STEPS_AT_MOST, _STEPS_AT_LEAST + _STEPS_PER_GROUP * groups)):
        step = next_step(state)
        if step.is_empty:
            break
        state = apply(state, step)
        row = _row_of(state)
        if is_open:
            rows[-1] = row
        elif row != rows[-1]:
            rows.append(row)
        is_open = step.goes_on
    return tuple(rows)


def start(roles: tuple[RoleTarget, ...], running: Mapping[str, int], key: str = "old") -> SliceState:
    """Build a settled slice that has one revision and no child of the target revision."""
    old = RevisionCounts(key, {role: _ready(count, None) for role, count in running.items()})
    return SliceState(roles, (old,), RevisionCounts("new"), frozenset(role.name for role in roles))


def apply(state: SliceState, step: SliceStep) -> SliceState:
    """Return the slice after a step in which every change has become ready."""
    new = {role: _ready(count.desired, count.initial) for role, count in state.new.counts.items()}
    for role, desired in step.new.items():
        new[role] = _ready(desired, state.new.of(role).initial)
    old = []
    for revision in state.old:
        if revision.key in step.drained:
            continue
        remaining = {role: count.desired for role, count in revision.counts.items()} | dict(
            step.old.get(revision.key, {})
        )
        counts = {
            role: _ready(n, n if step.starts else revision.of(role).initial) for role, n in remaining.items()
        }
        old.append(RevisionCounts(revision.key, counts))
    if step.starts:
        new = {role: replace(count, initial=state.new.of(role).desired) for role, count in new.items()}
    return SliceState(
        state.roles, tuple(old), RevisionCounts(state.new.key, new), state.missing - step.new.keys()
    )


def _ready(desired: int, initial: int | None) -> Count:
    return Count(desired, desired, desired, True, initial)


def _row_of(state: SliceState) -> Row:
    old = {
        revision.key: {role: count.desired for role, count in revision.counts.items()}
        for revision in state.old
    }
    return Row(
        {key: counts for key, counts in old.items() if any(counts.values())},
        {role: count.desired for role, count in state.new.counts.items() if count.desired},
    )
