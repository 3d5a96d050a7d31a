"""Tests of the budget of a set, and of how far it reaches."""

from __future__ import annotations

import pytest

from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.state import Budget, RolloutFacts, RolloutState, make_budget
from test.unit.stories.letters import groups


@pytest.mark.parametrize(
    ("replicas", "unavailable", "surge", "expected"),
    [
        pytest.param(4, 1, 1, (1, 1), id="plain"),
        pytest.param(2, 5, 9, (1, 2), id="surge at most replicas, one group stays"),
        pytest.param(1, 1, 1, (0, 1), id="set of one"),
        pytest.param(4, 9, 0, (9, 0), id="without surge there is no cap"),
        pytest.param(4, 0, 0, (1, 0), id="nothing acts as one"),
        pytest.param(0, 0, 3, (1, 0), id="no replicas"),
    ],
)
def test_budget(replicas: int, unavailable: int, surge: int, expected: tuple[int, int]) -> None:
    limits = make_budget(replicas, unavailable, surge)
    assert (limits.unavailable, limits.surge) == expected


def facts(letters: str, limits: Budget, partition: int | None = None) -> RolloutFacts:
    count = len(letters)
    stored = LeaderStatefulSet(count, count if partition is None else partition)
    return RolloutFacts(RolloutState(count, limits, 0, groups(letters)), stored)


@pytest.mark.parametrize(
    ("letters", "unavailable", "allowance"),
    [
        pytest.param("rrrr", 2, 2, id="all ready"),
        pytest.param("rruR", 2, 1, id="one starting"),
        pytest.param("rtuR", 1, 0, id="overdrawn"),
        pytest.param("xrrr", 1, 1, id="used up by a broken one that nothing else reaches"),
        pytest.param("rrrx", 1, 0, id="used up by a broken one that can go first"),
        pytest.param("xrru", 1, 0, id="used up by others too"),
    ],
)
def test_allowance(letters: str, unavailable: int, allowance: int) -> None:
    assert facts(letters, Budget(unavailable, 0)).allowance == allowance


@pytest.mark.parametrize(
    ("letters", "allowance", "safe", "needed"),
    [
        pytest.param("rrrr", 2, 2, 2, id="two healthy ones"),
        pytest.param("rrrr", 0, 4, 4, id="none"),
        pytest.param("rrxx", 0, 2, 2, id="broken ones for free"),
        pytest.param("rRuR", 0, 1, 4, id="safe over updated ones, but of no use"),
        pytest.param("rR-r", 1, 1, 3, id="not over missing groups"),
        pytest.param("RrRr", 9, 0, 1, id="to the end"),
    ],
)
def test_reach(letters: str, allowance: int, safe: int, needed: int) -> None:
    assert facts(letters, Budget(1, 0)).lowest_partitions(allowance, 99) == (safe, needed)
