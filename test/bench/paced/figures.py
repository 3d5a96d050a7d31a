"""Compute how fully a rollout used its budget, and how close it came to the best possible schedule.

The best schedule refills each free slot of the budget at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of one group, in seconds of any clock.

    started: when it was deleted, or created as a surge group. ready: when it was ready.
    """

    started: float
    ready: float


def utilisation(turns: Sequence[Turn], budget: int, began: float) -> float:
    """Return the used share of the budget: seconds of groups in their turn ÷ (budget × time).

    The time runs from the change until the last group was started, because no group is left for the budget
    afterwards. The share is 1.0 if the budget covers the whole set, because all groups are started at once.
    """
    ended = max((turn.started for turn in turns), default=began)
    if ended <= began or len(turns) <= budget:
        return 1.0
    used = sum(max(0.0, min(turn.ready, ended) - max(turn.started, began)) for turn in turns)
    return used / (budget * (ended - began))


def ideal(startups: Iterable[float], slots: int) -> float:
    """Return the seconds until all are ready if each free slot is refilled at once with the next in order."""
    free = [0.0] * slots
    ended = 0.0
    for seconds in startups:
        ready = heapq.heappop(free) + seconds
        heapq.heappush(free, ready)
        ended = max(ended, ready)
    return ended
