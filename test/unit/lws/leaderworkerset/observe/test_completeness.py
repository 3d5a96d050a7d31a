"""Tests of which objects of a set still have to be created or adopted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.leaderworkerset.observe.observer import has_orphans, is_incomplete
from test.unit.builders import make_leader_statefulset, make_set
from test.unit.set_world import settled

LEADERS = make_leader_statefulset()


def test_orphans() -> None:
    revisions = settled(make_set()).revisions
    assert not has_orphans((LEADERS, None), revisions)
    orphan = {**LEADERS, "metadata": {**LEADERS["metadata"], "ownerReferences": []}}
    assert has_orphans((None, orphan), revisions)
    assert has_orphans((LEADERS,), [*revisions, replace(revisions[0], is_orphan=True)])


@pytest.mark.parametrize(
    ("leader", "service", "policy", "expected"),
    [
        pytest.param(LEADERS, {}, "Shared", False, id="complete"),
        pytest.param(None, {}, "Shared", True, id="no leader StatefulSet"),
        pytest.param(LEADERS, None, "Shared", True, id="no Service"),
        pytest.param(LEADERS, None, "UniquePerReplica", False, id="no Service needed"),
    ],
)
def test_missing_children_make_a_set_incomplete(
    leader: Any, service: Any, policy: str, expected: bool
) -> None:
    lws = make_set(networkConfig={"subdomainPolicy": policy})
    assert is_incomplete(lws, leader, service, None) is expected


def test_a_missing_requested_budget_makes_a_set_incomplete() -> None:
    lws = make_set(podDisruptionBudget={"maxUnavailableGroups": 1}, replicas=2)
    assert is_incomplete(lws, LEADERS, {}, None)
    assert not is_incomplete(lws, LEADERS, {}, {})


def test_a_missing_requested_leader_service_makes_a_set_incomplete() -> None:
    lws = make_set(leaderService={})
    assert is_incomplete(lws, LEADERS, {}, None)
    assert not is_incomplete(lws, LEADERS, {}, None, {})
