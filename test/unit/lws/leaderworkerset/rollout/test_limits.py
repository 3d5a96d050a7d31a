"""Tests of the limits of a rollout, with percentages of replicas."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.rollout.state import Budget, rollout_budget, statefulset_max_unavailable
from lws.leaderworkerset.spec import SetSpec
from test.unit.builders import make_set


@pytest.mark.parametrize(
    ("replicas", "unavailable", "surge", "budget", "max_unavailable"),
    [
        pytest.param(4, 1, 0, Budget(1, 0), 1, id="the default"),
        pytest.param(4, None, None, Budget(1, 0), 1, id="left out"),
        pytest.param(10, "25%", "25%", Budget(2, 3), 5, id="percentages: down and up"),
        pytest.param(1, 1, 1, Budget(0, 1), 2, id="a set of one keeps its group"),
        pytest.param(3, "10%", 0, Budget(1, 0), 1, id="nothing at all acts as one"),
        pytest.param(2, 0, 8, Budget(0, 2), 2, id="no more surge than groups"),
        pytest.param(2, 2**31 - 1, 1, Budget(1, 1), 2**31 - 1, id="at most the largest int32"),
    ],
)
def test_limits(replicas: int, unavailable: Any, surge: Any, budget: Budget, max_unavailable: int) -> None:
    spec = SetSpec.of(make_set(replicas=replicas, max_unavailable=unavailable, max_surge=surge))
    assert (rollout_budget(spec), statefulset_max_unavailable(spec)) == (budget, max_unavailable)
