"""Which shards does each manager stand for, and which does it give up?

In: who takes part, and what each holds. Out: the share of one of them. Every manager decides for itself from
what it has heard; where they heard different things, Leases keep two of them from holding the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """stands: shards that nobody holds and that are this manager's turn. yields: what it holds and others
    should have.
    """

    stands: frozenset[int] = frozenset()
    yields: frozenset[int] = frozenset()


def share_of(shards: int, managers: Mapping[str, frozenset[int]], who: str) -> Share:
    """The share of `who`, one of `managers`: identity → shards that it holds.

    As even as can be: nobody holds two more than another. One that holds more already keeps
    what is left over, so that the fewest shards move.
    """
    targets = _targets(shards, managers)
    mine = sorted(managers[who])
    if len(mine) > targets[who]:
        return Share(yields=frozenset(mine[targets[who] :]))
    missing = [each for each in sorted(managers) for _ in range(targets[each] - len(managers[each]))]
    free = sorted(set(range(shards)).difference(*managers.values()))
    return Share(stands=frozenset(shard for shard, each in zip(free, missing, strict=False) if each == who))


def _targets(shards: int, managers: Mapping[str, frozenset[int]]) -> dict[str, int]:
    """How many each should hold."""
    least, left_over = divmod(shards, len(managers))
    ranked = sorted(managers, key=lambda who: (-len(managers[who]), who))
    return {who: least + (rank < left_over) for rank, who in enumerate(ranked)}
