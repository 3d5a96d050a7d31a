"""Describe what a slice waits for, naming the role; empty if it waits for nothing."""

from __future__ import annotations

from lws.disaggregatedset.rollout.state import SliceState

PAUSED = "the rollout is paused"


def still_waiting_for(state: SliceState) -> str:
    """Why there is no step now."""
    return unready(state) or _terminating(state) or _starting(state) or _blocked(state)


def unready(state: SliceState) -> str:
    """The first role of the target revision whose groups are not all ready."""
    for role in state.roles:
        count = state.new.of(role.name)
        if role.name in state.missing:
            return f"role {role.name}: there is no LeaderWorkerSet of the target revision yet"
        if not count.is_settled:
            ready = min(count.ready, count.wanted)
            if ready == count.wanted:
                return f"role {role.name}: its LeaderWorkerSet has yet to act on its count of groups"
            return f"role {role.name}: {ready} of {count.wanted} groups of the target revision are ready"
    return ""


def _terminating(state: SliceState) -> str:
    for role in state.roles:
        surplus = sum(max(0, each.of(role.name).present - each.of(role.name).wanted) for each in state.old)
        surplus += state.leftover.get(role.name, 0)
        if surplus:
            return f"role {role.name}: {surplus} old groups are still terminating"
    return ""


def _starting(state: SliceState) -> str:
    for role in state.roles:
        if count := state.old_starting(role.name):
            return f"role {role.name}: {count} old groups are still starting"
    return ""


def _blocked(state: SliceState) -> str:
    for role in state.roles:
        serving, floor = state.serving(role.name), state.floor(role)
        if state.old_wanted(role.name) and serving <= floor:
            return f"role {role.name}: {serving} groups are ready, and {floor} have to stay so"
    for role in state.roles:
        if state.old_wanted(role.name):
            return f"role {role.name}: old groups leave no room for new ones"
    return ""
