"""Tests of the reason of a rollout step."""

from __future__ import annotations

import pytest

from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.plan import plan_rollout
from lws.leaderworkerset.rollout.state import Budget, RolloutState, format_count, format_groups, format_ranges
from test.unit.stories.letters import groups


@pytest.mark.parametrize(
    ("indices", "text"),
    [
        ([], ""),
        ([3], "group 3"),
        ([2, 1], "groups 1 to 2"),
        ([0, 1, 2, 5], "groups 0 to 2, 5"),
        (range(0, 20, 2), "groups 0, 2, 4, 6, 8, …"),
    ],
)
def test_format_groups(indices: list[int], text: str) -> None:
    assert format_groups(indices) == text


@pytest.mark.parametrize(("groups", "text"), [(0, "0 groups"), (1, "1 group"), (4, "4 groups")])
def test_format_count(groups: int, text: str) -> None:
    assert format_count(groups) == text


@pytest.mark.parametrize(
    ("letters", "stored", "floor", "why", "waiting_for"),
    [
        pytest.param(
            "rrrr",
            LeaderStatefulSet(4, 0, is_current=False),
            0,
            "there is a new revision: groups move to it from the highest index down; "
            "1 group on top of 4 while outdated ones are replaced",
            "group 4 to be ready",
            id="new revision",
        ),
        pytest.param(
            "rrrx-",
            LeaderStatefulSet(5, 4),
            0,
            "group 3 may move to the new revision: 3 groups are ready, 3 must stay",
            "groups 3 to 4 to be ready",
            id="a broken group, next to be replaced",
        ),
        pytest.param(
            "rrrx-",
            LeaderStatefulSet(5, 3),
            0,
            "replacing group 3, not ready anyway",
            "groups 3 to 4 to be ready",
            id="a broken group",
        ),
        pytest.param(
            "rrrrR",
            LeaderStatefulSet(5, 4),
            0,
            "groups 2 to 3 may move to the new revision: 5 groups are ready, 3 must stay; replacing group 3",
            "",
            id="healthy groups",
        ),
        pytest.param(
            "rrrR",
            LeaderStatefulSet(4, 3),
            4,
            "groups below 4 keep their revision: the partition of the set was raised; "
            "1 group on top of 4 while outdated ones are replaced",
            "group 4 to be ready",
            id="partition raised",
        ),
        pytest.param(
            "RRRRR",
            LeaderStatefulSet(5, 0),
            0,
            "group 4 on top of 4 no longer needed",
            "",
            id="surge reclaimed",
        ),
        pytest.param(
            "RRRR",
            LeaderStatefulSet(4, 2),
            0,
            "groups from 0 up have the new revision or are recreated with it",
            "",
            id="position moves over updated groups",
        ),
        pytest.param(
            "RR",
            LeaderStatefulSet(2, 0, last_replicas=2),
            0,
            "scaled from 2 groups to 4",
            "groups 2 to 3 to be ready",
            id="up",
        ),
        pytest.param(
            "R" * 6, LeaderStatefulSet(6, 0, last_replicas=6), 0, "scaled from 6 groups to 4", "", id="down"
        ),
        pytest.param("RRRR", LeaderStatefulSet(4, 0), 0, "", "", id="at rest"),
        pytest.param(
            "rrrr",
            LeaderStatefulSet(4, 4, observed=False, awaited=True),
            0,
            "1 group on top of 4 while outdated ones are replaced",
            "the StatefulSet controller to report on the last change",
            id="controller behind",
        ),
    ],
)
def test_a_rollout_has_a_reason(
    letters: str, stored: LeaderStatefulSet, floor: int, why: str, waiting_for: str
) -> None:
    rollout = plan_rollout(RolloutState(4, Budget(1, 1), floor, groups(letters), stored))
    assert rollout.why == why
    assert rollout.waiting_for == waiting_for


@pytest.mark.parametrize(
    ("indices", "expected"), [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([5, 0, 1, 7, 8], "0-1, 5, 7-8")]
)
def test_consecutive_indices(indices: list[int], expected: str) -> None:
    assert ", ".join(format_ranges(indices, "-")) == expected
