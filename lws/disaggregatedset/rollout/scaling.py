"""Apply a change of targets to a slice whose rollout is paused or whose target revision is not ready.

The step follows the targets and takes the rollout no further. A role whose target has not changed since the
rollout began is left alone, unless a smaller surge leaves no room for groups that exist.
"""

from __future__ import annotations

from lws.disaggregatedset.rollout.drain import Drain
from lws.disaggregatedset.rollout.pace import pace_of
from lws.disaggregatedset.rollout.raising import raised
from lws.disaggregatedset.rollout.reasons import PAUSED, unready
from lws.disaggregatedset.rollout.state import SliceState, SliceStep


def is_settled(state: SliceState) -> bool:
    """Whether all that is wanted of the target revision is there and ready."""
    return not state.missing and all(state.new.of(role.name).is_settled for role in state.roles)


def while_not_started(state: SliceState) -> SliceStep:
    """Paused before its first step: old groups above the target go, more cannot come."""
    planned = {role.name: min(state.old_wanted(role.name), role.target) for role in state.roles}
    return SliceStep(old=_lowered(state, planned), waiting_for=PAUSED)


def while_unsettled(state: SliceState, paused: bool = False) -> SliceStep:
    """Follow targets that have changed since the rollout began."""
    new = tuple(state.new.of(role.name).wanted for role in state.roles)
    planned, wanted = {}, []
    for role, count, following in zip(state.roles, new, pace_of(state).next_new(new), strict=True):
        old = state.old_wanted(role.name)
        start = role.target if role.at_start is None else role.at_start
        grows, shrinks = role.target > start, role.target < start
        has_less_surge = not paused and count > 0 and role.ceiling < old + count
        planned[role.name] = max(0, min(old, role.ceiling - count)) if shrinks or has_less_surge else old
        wanted.append(max(count, min(following, role.target - old)) if grows and all(new) else count)
    raises = raised(state, tuple(wanted), planned)
    waiting = PAUSED if paused else unready(state)
    return SliceStep(new=raises.new, old=_lowered(state, planned), waiting_for=waiting)


def _lowered(state: SliceState, planned: dict[str, int]) -> dict[str, dict[str, int]]:
    """No revision goes as a whole because of a wish for fewer groups, unless none are wanted at all."""
    drain = Drain(state, may_empty=not any(role.target for role in state.roles))
    return {key: dict(roles) for key, roles in drain.to(planned).lowered.items()}
