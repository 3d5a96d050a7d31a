"""The rollout steps of upstream, computed a second time by the letter of its rules, for comparison.

It also reports the promises that each step breaks. It is written independently of the product, for rollouts
from one revision to another in which every change is ready at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor

Counts = tuple[int, ...]
Row = tuple[Counts, Counts]


@dataclass(frozen=True)
class Rules:
    """The rules for one rollout, with counts by role.

    initial: counts at the start. target: counts at the end. surge, unavailable: the budgets.
    """

    initial: Counts
    target: Counts
    surge: Counts
    unavailable: Counts

    @property
    def roles(self) -> range:
        return range(len(self.initial))

    @property
    def total(self) -> int:
        batches = [s if s > 0 else max(1, u) for s, u in zip(self.surge, self.unavailable, strict=True)]
        larger = [max(io, t, 0) for io, t in zip(self.initial, self.target, strict=True)]
        return max(ceil(Fraction(most, batch)) for most, batch in zip(larger, batches, strict=True))

    def index(self, new: Counts) -> int:
        reached = [
            floor(Fraction(n * self.total, t)) if t else self.total
            for n, t in zip(new, self.target, strict=True)
        ]
        return min(*reached, self.total)

    def next_new(self, new: Counts) -> Counts:
        after = self.index(new) + 1
        return tuple(
            max(n, min(t, ceil(Fraction(after * t, self.total))))
            for n, t in zip(new, self.target, strict=True)
        )

    def proportional(self, old: Counts) -> Counts:
        deletions = [
            floor(Fraction((io - o) * self.total, io))
            for io, o in zip(self.initial, old, strict=True)
            if io > 0
        ]
        after = max(0, *deletions, 0) + 1
        return tuple(
            min(o, max(0, io - floor(Fraction(after * io, self.total))))
            for io, o in zip(self.initial, old, strict=True)
        )

    def at_least(self, new: Counts) -> Counts:
        return tuple(
            max(0, self.target[i] - self.unavailable[i] - new[i]) if self.initial[i] >= self.target[i] else 0
            for i in self.roles
        )

    def together(self, planned: Counts, new: Counts) -> Counts:
        ours = [i for i in self.roles if self.initial[i] > 0]
        zeros = [i for i in ours if planned[i] == 0]
        if not zeros or len(zeros) == len(ours):
            return planned
        shrinking = [i for i in self.roles if self.initial[i] >= self.target[i]]
        if all(new[i] >= self.target[i] - self.unavailable[i] for i in shrinking):
            return tuple(0 for _ in planned)
        return tuple(1 if i in zeros else planned[i] for i in self.roles)

    def step(self, old: Counts, new: Counts) -> Row | None:
        is_up = all(n >= t for n, t in zip(new, self.target, strict=True))
        if (not any(old) and is_up) or self.total == 0:
            return None
        if any(o > io for o, io in zip(old, self.initial, strict=True)):
            return tuple(map(min, self.initial, old)), new
        if is_up:
            return tuple(0 for _ in old), new
        following = self.next_new(new)
        room = all(
            old[i] + following[i] <= self.target[i] + self.surge[i] for i in self.roles if self.target[i] > 0
        )
        if room and following != new:
            return old, following
        planned = self.together(tuple(map(max, self.proportional(old), self.at_least(new))), new)
        if any(p < o for p, o in zip(planned, old, strict=True)):
            return planned, new
        forced = self.forced(old, following)
        if any(p < o for p, o in zip(forced, old, strict=True)):
            return self.together(forced, following), following
        return None

    def forced(self, old: Counts, following: Counts) -> Counts:
        room = [self.target[i] + self.surge[i] - following[i] for i in self.roles]
        planned = [max(0, min(o, r)) for o, r in zip(old, room, strict=True)]
        return tuple(map(max, planned, self.at_least(following)))


def rows(rules: Rules) -> list[Row]:
    """Return the rows of a rollout. After the last old group the steady state takes over."""
    row: Row | None = (rules.initial, tuple(0 for _ in rules.initial))
    result: list[Row] = []
    while row is not None and len(result) < 500:
        result.append(row)
        row = rules.step(*row) if any(row[0]) else None
    if not any(result[-1][0]) and result[-1][1] != rules.target:
        result.append((result[-1][0], rules.target))
    return result


def by_writes(sequence: list[Row]) -> list[Row]:
    """Remove a row that empties the old side and also raises the new side, unless it is the last one.

    What it raises has no room before the old groups are gone; then the steady state creates all the rest.
    """
    result = sequence[:1]
    for number, (before, after) in enumerate(pairwise(sequence), start=2):
        is_emptied = any(before[0]) and not any(after[0])
        if not (is_emptied and after[1] != before[1] and number < len(sequence)):
            result.append(after)
    return result


def broken_promises(rules: Rules, sequence: list[Row]) -> Iterator[str]:
    """Yield broken promises with their rows. Groups raised by a step are not ready when it lowers others."""
    for (old, new), (old_after, new_after) in pairwise(sequence):
        for i in rules.roles:
            if new_after[i] > new[i] and old_after[i] + new_after[i] > rules.target[i] + rules.surge[i]:
                yield f"surge {old_after} {new_after}"
            least = min(rules.initial[i], rules.target[i]) - rules.unavailable[i]
            if old_after[i] < old[i] and old_after[i] + new[i] < least:
                yield f"floor {old_after} {new_after}"
            if old_after[i] > old[i] or new_after[i] < new[i]:
                yield f"direction {old_after} {new_after}"
        for counts, counts_at_rest in ((old_after, rules.initial), (new_after, rules.target)):
            present = [counts[i] > 0 for i in rules.roles if counts_at_rest[i] > 0]
            if any(present) and not all(present):
                yield f"pairs {old_after} {new_after}"
    if sequence[-1] != (tuple(0 for _ in rules.initial), rules.target):
        yield "end"


def spread(revisions: list[Counts], budget: Counts) -> list[Counts]:
    """Return what remains of old revisions, newest first, after the budget of each role is deleted (§9)."""
    remaining, result = list(budget), []
    for counts in revisions:
        if not any(count > 0 for count in remaining):
            result.append(counts)
            continue
        planned = [max(0, min(b, n)) for b, n in zip(remaining, counts, strict=True)]
        triggers = [n > 0 and n == p for n, p in zip(counts, planned, strict=True)]
        result.append(
            tuple(0 for _ in counts)
            if any(triggers)
            else tuple(n - p for n, p in zip(counts, planned, strict=True))
        )
        for i, deleted in enumerate(planned):
            # A role that is deleted with the others keeps its budget.
            remaining[i] -= deleted if triggers[i] or not any(triggers) else 0
    return result
