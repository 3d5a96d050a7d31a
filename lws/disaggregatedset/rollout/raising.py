"""Choose which children of the target revision may grow now, terminating groups counted, and report whether
others wait for room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lws.disaggregatedset.rollout.state import RoleTarget, SliceState


@dataclass(frozen=True, slots=True)
class Raises:
    """new: role → `spec.replicas`. waiting: roles that are to be raised as soon as there is room."""

    new: dict[str, int]
    waiting: tuple[str, ...]


def raised(state: SliceState, wanted: tuple[int, ...], left: Mapping[str, int]) -> Raises:
    """Raise what may be raised.

    left: old groups that the step itself leaves of each role, where it lowers any. Roles that the wishes of
    users leave no room for are not raised, and not waited for.
    """
    rising = {
        role: count
        for role, count in zip(state.roles, wanted, strict=True)
        if count > state.new.of(role.name).wanted
        and role.name not in state.missing
        and left.get(role.name, 0) + count <= role.ceiling
    }
    now = {role.name: count for role, count in rising.items() if _has_room(state, role, count)}
    waiting = tuple(role.name for role in rising if role.name not in now)
    if _would_be_half(state, now):
        return Raises({}, tuple(role.name for role in rising))
    return Raises(now, waiting)


def _has_room(state: SliceState, role: RoleTarget, count: int) -> bool:
    child = state.new.of(role.name)
    if count <= child.present:
        return True
    return state.old_present(role.name) + count <= role.ceiling


def _would_be_half(state: SliceState, now: Mapping[str, int]) -> bool:
    """Whether the target revision would have some of its roles, and lack others."""
    wanted = [
        now.get(role.name, state.new.of(role.name).wanted) > 0 for role in state.roles if role.target > 0
    ]
    return any(wanted) and not all(wanted) and any(state.new.of(name).wanted == 0 for name in now)
