"""Describe which groups a change of a set restarts, in the same words for commands and webhook."""

from __future__ import annotations

from collections.abc import Sequence

from lws.leaderworkerset.rollout.reasons import named
from lws.leaderworkerset.rollout.state import Budget


def restarts(groups: Sequence[int], budget: Budget, paused: bool) -> str:
    """Describe which groups restart and how: "groups 0 to 3 restart, by a rollout, one at a time"."""
    if not groups:
        return ""
    subject = f"{named(groups)} {'restarts' if len(groups) == 1 else 'restart'}"
    if paused:
        return f"{subject} once the rollout is resumed"
    return f"{subject}, by a rollout{_pace(len(groups), budget)}"


def pinned(groups: Sequence[int]) -> str:
    """Describe which groups the partition keeps from restarting; empty for none."""
    keep = "keeps its" if len(groups) == 1 else "keep their"
    return f"{named(groups)} {keep} revision until the partition is lowered" if groups else ""


def _pace(groups: int, budget: Budget) -> str:
    at_a_time = budget.unavailable + budget.surge
    if groups == 1:
        return ""
    return ", one at a time" if at_a_time == 1 else f", up to {min(at_a_time, groups)} at a time"
