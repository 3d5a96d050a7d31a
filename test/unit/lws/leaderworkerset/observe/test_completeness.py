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
    nobodys = {**LEADERS, "metadata": {**LEADERS["metadata"], "ownerReferences": []}}
    assert has_orphans((None, nobodys), revisions)
    assert has_orphans((LEADERS,), [*revisions, replace(revisions[0], is_orphan=True)])


@pytest.mark.parametrize(
    ("leader", "service", "policy", "expected"),
    [
        pytest.param(LEADERS, {}, "Shared", False, id="all there"),
        pytest.param(None, {}, "Shared", True, id="no leader StatefulSet"),
        pytest.param(LEADERS, None, "Shared", True, id="no Service"),
        pytest.param(LEADERS, None, "UniquePerReplica", False, id="no Service needed"),
    ],
)
def test_what_is_yet_to_be_made(leader: Any, service: Any, policy: str, expected: bool) -> None:
    lws = make_set(networkConfig={"subdomainPolicy": policy})
    assert is_incomplete(lws, leader, service, None) is expected


def test_a_budget_is_yet_to_be_made_where_it_is_asked_for() -> None:
    lws = make_set(podDisruptionBudget={"maxUnavailableGroups": 1}, replicas=2)
    assert is_incomplete(lws, LEADERS, {}, None)
    assert not is_incomplete(lws, LEADERS, {}, {})


def test_a_service_of_leaders_is_yet_to_be_made_where_it_is_asked_for() -> None:
    lws = make_set(leaderService={})
    assert is_incomplete(lws, LEADERS, {}, None)
    assert not is_incomplete(lws, LEADERS, {}, None, {})
