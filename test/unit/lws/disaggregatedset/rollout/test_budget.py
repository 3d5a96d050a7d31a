"""Tests of the budget of a role: maxSurge and maxUnavailable in groups."""

from __future__ import annotations

from typing import Any

import pytest

from lws.disaggregatedset.slices.state import DEFAULT, role_budget
from lws.leaderworkerset.rollout.state import Budget


@pytest.mark.parametrize(
    ("rolling", "target", "expected"),
    [
        (None, 4, DEFAULT),
        ({}, 4, DEFAULT),
        ({"maxSurge": 0, "maxUnavailable": 0}, 4, DEFAULT),
        ({"maxSurge": "50%", "maxUnavailable": "25%"}, 4, Budget(1, 2)),
        ({"maxSurge": "30%", "maxUnavailable": "30%"}, 3, Budget(0, 1)),
        ({"maxSurge": 0, "maxUnavailable": "10%"}, 4, DEFAULT),
        ({"maxSurge": 0, "maxUnavailable": 2}, 4, Budget(2, 0)),
        ({"maxSurge": 3, "maxUnavailable": 2}, 4, Budget(2, 3)),
        # An External role before its scaler has replicas.
        ({"maxSurge": "50%", "maxUnavailable": "50%"}, 0, DEFAULT),
    ],
)
def test_percentages_refer_to_the_target(rolling: Any, target: int, expected: Budget) -> None:
    assert role_budget(rolling, target) == expected


def test_an_absent_number_counts_as_zero() -> None:
    assert role_budget({"maxSurge": None, "maxUnavailable": 2}, 4) == Budget(2, 0)
    assert role_budget({"maxSurge": 2, "maxUnavailable": None}, 4) == Budget(0, 2)
    assert role_budget({"maxSurge": None, "maxUnavailable": None}, 4) == DEFAULT


def test_a_negative_budget_counts_as_zero() -> None:
    assert role_budget({"maxSurge": -1, "maxUnavailable": 1}, 4) == Budget(1, 0)
    assert role_budget({"maxSurge": 1, "maxUnavailable": -1}, 4) == Budget(0, 1)
