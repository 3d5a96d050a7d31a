"""Describe which groups a change restarts, for commands and webhook alike."""

from __future__ import annotations

from collections.abc import Sequence

from lws.leaderworkerset.rollout.reasons import named
from lws.leaderworkerset.rollout.state import Budget


def restarts(groups: Sequence[int], budget: Budget, paused: bool) -> str:
    """Which of them restart, and how: "groups 0 to 3 restart, by a rollout, one at a time"; empty for
    none.
    """
    if not groups:
        return ""
    said = f"{named(groups)} {'restarts' if len(groups) == 1 else 'restart'}"
    if paused:
        return f"{said} once the rollout is resumed"
    return f"{said}, by a rollout{_pace(len(groups), budget)}"


def pinned(groups: Sequence[int]) -> str:
    """Which of them the partition keeps from it; empty for none."""
    keep = "keeps its" if len(groups) == 1 else "keep their"
    return f"{named(groups)} {keep} revision until the partition is lowered" if groups else ""


def _pace(groups: int, budget: Budget) -> str:
    at_a_time = budget.unavailable + budget.surge
    if groups == 1:
        return ""
    return ", one at a time" if at_a_time == 1 else f", up to {min(at_a_time, groups)} at a time"
