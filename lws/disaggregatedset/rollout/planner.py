"""Decide the next step of a slice, or what it waits for, from counts of children, targets and budgets.

While all groups are ready and the targets do not change, the steps are upstream's, in its order of decisions.
A step that would raise a role above its maximum, or fall below the minimum of ready groups, is replaced by
another step (docs/design/disaggregated-rollout.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lws.disaggregatedset.rollout.drain import Drain, Lowered
from lws.disaggregatedset.rollout.state import (
    PAUSED,
    RevisionCounts,
    RoleTarget,
    SliceState,
    SliceStep,
    still_waiting_for,
    unready,
)


def next_step(state: SliceState, paused: bool = False) -> SliceStep:
    """Decide which step to write now. A paused slice is only scaled."""
    step = _step(state, paused)
    abandoned = _abandoned(state, step)
    if abandoned:
        # Abandoned children need no write, so the next step follows at once.
        following = next_step(_without(state, abandoned), paused)
        keys = abandoned.keys() | following.old.keys()
        return replace(
            following, old={key: {**abandoned.get(key, {}), **following.old.get(key, {})} for key in keys}
        )
    drained = tuple(revision.key for revision in state.old if not any(_existing(revision)))
    if step.is_empty and not step.waiting_for and not step.is_done:
        step = replace(step, waiting_for=still_waiting_for(state))
    return replace(step, drained=drained, is_done=step.is_done and not drained)


def _abandoned(state: SliceState, step: SliceStep) -> dict[str, dict[str, int]]:
    """Return the deleted children that the step lowers to 0, so that they are not recreated."""
    abandoned = {
        revision.key: {
            role: 0
            for role, count in revision.counts.items()
            if count.is_lost and step.old.get(revision.key, {}).get(role) == 0
        }
        for revision in state.old
    }
    return {key: roles for key, roles in abandoned.items() if roles}


def _without(state: SliceState, abandoned: Lowered) -> SliceState:
    old = tuple(
        replace(
            revision,
            counts={
                role: count.abandoned if role in abandoned.get(revision.key, {}) else count
                for role, count in revision.counts.items()
            },
        )
        for revision in state.old
    )
    return replace(state, old=old)


def _step(state: SliceState, paused: bool) -> SliceStep:
    if not any(state.old_desired(role.name) for role in state.roles):
        return _settle(state)
    if paused and not (state.is_known and any(count.desired for count in state.new.counts.values())):
        return while_not_started(state)
    if state.missing or not state.is_known:
        return SliceStep(new=_created(state), starts=not state.is_known)
    return _corrected(state) or (while_unsettled(state, paused) if paused else _advance(state))


def _settle(state: SliceState) -> SliceStep:
    """Raise every role to its target, because no old group is needed any more."""
    created = {
        role: min(role.target, max(0, role.ceiling - state.present(role.name)))
        for role in state.roles
        if role.name in state.missing
    }
    is_whole = all(size or not role.target for role, size in created.items())
    new = {role.name: size if is_whole else 0 for role, size in created.items()}
    more, are_waiting = raised(state, tuple(role.target for role in state.roles), {})
    new |= more | _shrunk(state)
    are_deleted = not any(any(_existing(revision)) for revision in state.old)
    is_done = are_deleted and not new and not are_waiting and is_settled(state)
    return SliceStep(new=new, goes_on=are_waiting, is_done=is_done)


def _created(state: SliceState) -> dict[str, int]:
    """Return the counts of missing children of the target revision, in proportion to their siblings."""
    pace = pace_of(state)
    existing = [role for role in state.roles if role.target and role.name not in state.missing]
    step = min((state.new.of(role.name).desired * pace.steps // role.target for role in existing), default=0)
    least = int(any(count.desired for count in state.new.counts.values()))
    reached = pace.new_at(min(step, pace.steps))
    sizes = (min(role.target, max(least, size)) for role, size in zip(state.roles, reached, strict=True))
    room = (max(0, role.ceiling - state.present(role.name)) for role in state.roles)
    pairs = zip(state.roles, map(min, sizes, room), strict=True)
    return {role.name: size for role, size in pairs if role.name in state.missing}


def _corrected(state: SliceState) -> SliceStep | None:
    """Before any other step, lower new counts to the target, and delete unserving or partial revisions."""
    drain = Drain(state)
    for revision in state.old:
        desired = [count.desired for count in revision.counts.values()]
        if any(desired) and (_serves_nobody(revision) or _is_partial(state, revision)):
            drain.whole(revision)
    new = _shrunk(state)
    return SliceStep(new=new, old=drain.lowered) if new or drain.lowered else None


def _advance(state: SliceState) -> SliceStep:
    """Take the first step in upstream's order of decisions that is possible."""
    if not is_settled(state):
        return while_unsettled(state)
    pace = pace_of(state)
    old = tuple(state.old_desired(role.name) for role in state.roles)
    new = tuple(state.new.of(role.name).desired for role in state.roles)
    step = (
        _cut_back(state, pace, old)
        or _final(state, new)
        or _up(state, pace, old, new)
        or _lower(state, pace.next_old(old))
        or _exchange(state, pace, old, new)
        or _last_of_a_role(state, pace, old, new)
        or _past_broken_groups(state)
    )
    return step or SliceStep()


def _cut_back(state: SliceState, pace: Proportions, old: Counts) -> SliceStep | None:
    """Lower an old child that was enlarged to the count that it had when the rollout began."""
    if all(map(int.__le__, old, pace.initial)):
        return None
    return _lower(state, tuple(map(min, old, pace.initial)))


def _final(state: SliceState, new: Counts) -> SliceStep | None:
    """Delete the remaining old groups once the target revision is complete."""
    if any(count < role.target for role, count in zip(state.roles, new, strict=True)):
        return None
    return _lower(state, tuple(0 for _ in state.roles))


def _up(state: SliceState, pace: Proportions, old: Counts, new: Counts) -> SliceStep | None:
    """Raise all roles of the target revision, if each of them has room."""
    desired = pace.next_new(new)
    sums = zip(state.roles, old, desired, strict=True)
    if any(before + after > role.ceiling for role, before, after in sums if role.target):
        return None
    raises, are_waiting = raised(state, desired, {})
    return SliceStep(new=raises, goes_on=are_waiting) if raises or are_waiting else None


def _lower(state: SliceState, planned: Counts) -> SliceStep | None:
    lowered = Drain(state).to(_by_role(state, planned)).lowered
    return SliceStep(old=lowered) if lowered else None


def _exchange(state: SliceState, pace: Proportions, old: Counts, new: Counts) -> SliceStep | None:
    """Lower old groups and raise new ones in one step. Counts that have room are raised at once."""
    desired = pace.next_new(new)
    sums = zip(state.roles, old, desired, strict=True)
    planned = tuple(max(0, min(before, role.ceiling - after)) for role, before, after in sums)
    drain = Drain(state).to(_by_role(state, planned))
    return _exchanged(state, desired, drain)


def _last_of_a_role(state: SliceState, pace: Proportions, old: Counts, new: Counts) -> SliceStep | None:
    """Delete the last group of a role though its revision's other roles stay: new groups need its place."""
    desired = pace.next_new(new)
    drain = Drain(state)
    for role, before, now, after in zip(state.roles, old, new, desired, strict=True):
        if after > now and before + after > role.ceiling:
            any(drain.last(revision, role.name) for revision in state.old)
    return _exchanged(state, desired, drain) if drain.lowered else None


def _exchanged(state: SliceState, desired: Counts, drain: Drain) -> SliceStep | None:
    remaining = {role.name: drain.remaining(role.name) for role in state.roles}
    raises, are_waiting = raised(state, desired, remaining)
    if not drain.lowered and not raises:
        return None
    return SliceStep(new=raises, old=drain.lowered, goes_on=are_waiting)


def _past_broken_groups(state: SliceState) -> SliceStep | None:
    """Delete a healthy old group if broken ones below it exhaust the budget alone and none is starting."""
    for role in state.roles:
        desired = state.old_desired(role.name) + state.new.of(role.name).desired
        if desired - 1 < state.min_ready(role) or state.old_starting(role.name):
            continue
        for revision in state.old:
            count = revision.of(role.name)
            if 1 < count.desired == count.present and count.serving < count.desired:
                return SliceStep(old={revision.key: {role.name: count.desired - 1}})
    return None


def _shrunk(state: SliceState) -> dict[str, int]:
    return {role.name: role.target for role in state.roles if state.new.of(role.name).desired > role.target}


def _serves_nobody(revision: RevisionCounts) -> bool:
    return not any(count.ready for count in revision.counts.values())


def _is_partial(state: SliceState, revision: RevisionCounts) -> bool:
    """Return whether the deletion or creation of a whole revision was interrupted between two writes."""
    older = state.old[state.old.index(revision) + 1 :]
    for role in state.roles:
        count = revision.counts.get(role.name)
        if count is None or count.desired:
            continue
        if count.initial or any(older_revision.of(role.name).desired for older_revision in older):
            return True
    return False


def _existing(revision: RevisionCounts) -> list[int]:
    return [count.present for count in revision.counts.values()]


def _by_role(state: SliceState, counts: Counts) -> dict[str, int]:
    return {role.name: count for role, count in zip(state.roles, counts, strict=True)}


# --- Compute the counts of a slice's roles after one step, in proportion, with upstream's arithmetic in whole
# numbers.


Counts = tuple[int, ...]
"""One number for each role, in the order of the slice's roles."""


@dataclass(frozen=True, slots=True)
class Proportions:
    """The pace of a rollout, which moves all roles in proportion.

    `initial` holds the old groups of each role when the rollout began.
    """

    roles: tuple[RoleTarget, ...]
    initial: Counts
    steps: int

    def reached(self, new: Iterable[int]) -> int:
        """Return the step that the new counts of all roles have reached."""
        pairs = zip(self.roles, new, strict=True)
        done = (count * self.steps // role.target for role, count in pairs if role.target)
        return min((self.steps, *done))

    def new_at(self, step: int) -> Counts:
        """Return the group counts of the target revision at the end of a step."""
        return tuple(min(role.target, _ceil(step * role.target, self.steps)) for role in self.roles)

    def next_new(self, new: Counts) -> Counts:
        """Return new counts one step ahead of the role that is furthest behind. No count falls."""
        return tuple(map(max, new, self.new_at(self.reached(new) + 1)))

    def next_old(self, old: Counts) -> Counts:
        """Return old counts one step ahead of the role that has advanced most. No count rises."""
        pairs = [(initial, count) for initial, count in zip(self.initial, old, strict=True) if initial > 0]
        reached = max((0, *((initial - count) * self.steps // initial for initial, count in pairs)))
        remaining = (max(0, initial - (reached + 1) * initial // self.steps) for initial in self.initial)
        return tuple(map(min, old, remaining))


def pace_of(state: SliceState) -> Proportions:
    """Compute the pace of a slice in a rollout, in which at least one count or target is above 0."""
    initial = tuple(state.old_initial(role.name) for role in state.roles)
    steps = (
        _ceil(max(count, role.target), role.surge or max(1, role.unavailable))
        for role, count in zip(state.roles, initial, strict=True)
    )
    return Proportions(state.roles, initial, max((1, *steps)))


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)


# --- Choose which children of the target revision may grow now, terminating groups included, and report
# whether others wait for room.


def raised(
    state: SliceState, desired: tuple[int, ...], remaining: Mapping[str, int]
) -> tuple[dict[str, int], bool]:
    """Return the counts to raise now, by role, and whether others are raised once there is room.

    `remaining` holds the old groups of each role after the step, if it lowers any. A role for which the spec
    leaves no room is neither raised nor waited for.
    """
    rising = {
        role: count
        for role, count in zip(state.roles, desired, strict=True)
        if count > state.new.of(role.name).desired
        and role.name not in state.missing
        and remaining.get(role.name, 0) + count <= role.ceiling
    }
    now = {role.name: count for role, count in rising.items() if _has_room(state, role, count)}
    if _would_be_partial(state, now):
        return {}, bool(rising)
    return now, len(now) < len(rising)


def _has_room(state: SliceState, role: RoleTarget, count: int) -> bool:
    child = state.new.of(role.name)
    if count <= child.present:
        return True
    return state.old_present(role.name) + count <= role.ceiling


def _would_be_partial(state: SliceState, now: Mapping[str, int]) -> bool:
    """Return whether the target revision would have groups of only some of its roles."""
    desired = [
        now.get(role.name, state.new.of(role.name).desired) > 0 for role in state.roles if role.target > 0
    ]
    return any(desired) and not all(desired) and any(state.new.of(name).desired == 0 for name in now)


# --- Apply a change of targets to a slice whose rollout is paused or whose target revision is not ready,
# without advancing the rollout. A role whose target has not changed since the rollout began is left alone,
# unless a smaller surge leaves no room for its existing groups.


def is_settled(state: SliceState) -> bool:
    """Return whether all groups of the target revision exist and are ready."""
    return not state.missing and all(state.new.of(role.name).is_settled for role in state.roles)


def while_not_started(state: SliceState) -> SliceStep:
    """Lower old counts to the targets, and raise none, while the rollout is paused before its first step."""
    planned = {role.name: min(state.old_desired(role.name), role.target) for role in state.roles}
    return SliceStep(old=_lowered(state, planned), waiting_for=PAUSED)


def while_unsettled(state: SliceState, paused: bool = False) -> SliceStep:
    """Follow the targets that have changed since the rollout began."""
    new = tuple(state.new.of(role.name).desired for role in state.roles)
    planned, desired = {}, []
    for role, count, following in zip(state.roles, new, pace_of(state).next_new(new), strict=True):
        old = state.old_desired(role.name)
        start = role.target if role.at_start is None else role.at_start
        grows, shrinks = role.target > start, role.target < start
        has_less_surge = not paused and count > 0 and role.ceiling < old + count
        planned[role.name] = max(0, min(old, role.ceiling - count)) if shrinks or has_less_surge else old
        desired.append(max(count, min(following, role.target - old)) if grows and all(new) else count)
    raises, _ = raised(state, tuple(desired), planned)
    waiting = PAUSED if paused else unready(state)
    return SliceStep(new=raises, old=_lowered(state, planned), waiting_for=waiting)


def _lowered(state: SliceState, planned: dict[str, int]) -> dict[str, dict[str, int]]:
    """Lower counts, but delete no whole revision unless no role has a target above 0."""
    drain = Drain(state, may_empty=not any(role.target for role in state.roles))
    return {key: dict(roles) for key, roles in drain.to(planned).lowered.items()}
