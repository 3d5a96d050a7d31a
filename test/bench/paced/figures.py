"""Compute how fully a rollout used its budget, and how near it came to the best possible schedule.

The best schedule refills each free slot of the budget at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """One group: from when on it was missing, or made on top, and when it was ready. Seconds of any clock."""

    taken: float
    ready: float


def utilisation(turns: Sequence[Turn], budget: int, began: float) -> float:
    """Groups in their turn ÷ (budget × time), from the change until the last group was taken: after that
    there is nothing left to take, and nobody could use the budget.

    1.0 where the budget is as large as the set: then all are taken at once.
    """
    ended = max((turn.taken for turn in turns), default=began)
    if ended <= began or len(turns) <= budget:
        return 1.0
    used = sum(max(0.0, min(turn.ready, ended) - max(turn.taken, began)) for turn in turns)
    return used / (budget * (ended - began))


def ideal(startups: Iterable[float], slots: int) -> float:
    """Seconds until all are ready, if each free slot is refilled at once with the next in order."""
    free = [0.0] * slots
    ended = 0.0
    for seconds in startups:
        ready = heapq.heappop(free) + seconds
        heapq.heappush(free, ready)
        ended = max(ended, ready)
    return ended
