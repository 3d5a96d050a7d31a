"""Describe which groups a change of a DisaggregatedSet restarts, for commands and webhook alike."""

from __future__ import annotations

from collections.abc import Mapping

from lws.leaderworkerset.rollout.reasons import counted


def restarts(groups: Mapping[str, int], is_paused: bool, is_under_way: bool = False) -> str:
    """How many of each role restart, and how: "5 groups (prefill 2, decode 3) restart, by a rollout of all
    roles in step"; empty for none. is_under_way: by a rollout that has begun before the change.
    """
    if not groups:
        return ""
    said = f"{of_roles(groups)} {'restarts' if sum(groups.values()) == 1 else 'restart'}"
    if is_paused:
        return f"{said} once the rollout is resumed"
    return (
        f"{said} anyway: a rollout is under way"
        if is_under_way
        else f"{said}, by a rollout of all roles in step"
    )


def of_roles(groups: Mapping[str, int]) -> str:
    """`5 groups (prefill 2, decode 3)`."""
    return f"{counted(sum(groups.values()))} ({', '.join(f'{role} {n}' for role, n in groups.items())})"
