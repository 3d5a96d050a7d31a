"""Tests of our rows against upstream's over a grid of rollouts: the same if upstream keeps its promises.

The test plays a sample of the rollouts by default, and all of them with HYPOTHESIS_PROFILE=nightly.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from test.unit.lws.disaggregatedset.rollout.reference import Row, Rules, broken_promises, by_writes, rows
from test.unit.lws.disaggregatedset.rollout.slices import NAMES, beginning, roles
from tools.simulation import simulate

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"

# Surge and maxUnavailable, role by role.
OF_TWO_ROLES = (
    ((1, 0), (1, 0)),
    ((0, 1), (0, 1)),
    ((2, 2), (2, 2)),
    ((0, 2), (0, 2)),
    ((2, 0), (1, 0)),
    ((1, 1), (0, 2)),
    ((1, 0), (0, 1)),
    ((0, 1), (2, 0)),
)
OF_THREE_ROLES = (
    ((1, 0), (1, 0), (1, 0)),
    ((0, 1), (0, 1), (0, 1)),
    ((2, 0), (1, 1), (1, 0)),
    ((1, 0), (0, 1), (2, 0)),
)


def grid(most: int, configurations: tuple[tuple[tuple[int, int], ...], ...], stride: int) -> Iterator[Rules]:
    width = len(configurations[0])
    counts = list(itertools.product(range(most + 1), repeat=width))
    every = itertools.product(counts, counts, configurations)
    for before, after, budgets in itertools.islice(every, 0, None, 1 if NIGHTLY else stride):
        if any(before):
            surge, unavailable = zip(*budgets, strict=True)
            yield Rules(before, after, surge, unavailable)


def ours(rules: Rules) -> list[Row]:
    names = NAMES[: len(rules.initial)]
    result = []
    for row in simulate(beginning(rules.initial, roles(rules.target, rules.surge, rules.unavailable))):
        old = tuple(sum(counts.get(name, 0) for counts in row.old.values()) for name in names)
        result.append((old, tuple(row.new.get(name, 0) for name in names)))
    return result


@pytest.mark.parametrize(
    ("most", "configurations", "stride"),
    [(5, OF_TWO_ROLES, 11), (4, OF_THREE_ROLES, 127)],
    ids=["two", "three"],
)
def test_steps_match_upstream_unless_upstream_breaks_a_promise(
    most: int, configurations: tuple[tuple[tuple[int, int], ...], ...], stride: int
) -> None:
    same = 0
    for rules in grid(most, configurations, stride):
        theirs, mine = rows(rules), ours(rules)
        if list(broken_promises(rules, theirs)):
            # If a role has one place and its revision cannot go as a whole, a partial revision has to wait.
            assert {promise.split()[0] for promise in broken_promises(rules, mine)} <= {"pairs"}, rules
        else:
            assert mine == by_writes(theirs), rules
            same += 1
    assert same > 300
