"""Tests of lws.leaderworkerset.children.leader_statefulset: which StatefulSets retry their pods, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lws.kube.conditions import timestamp
from lws.leaderworkerset.children.leader_statefulset import plan_retries
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.runtime.actions import Merge, Object, Plan
from lws_api.leaderworkerset.v1 import PODS_RETRIED_AT_ANNOTATION
from test.unit.builders import (
    NOW,
    make_group,
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_statefulset,
)
from test.unit.set_world import actions_of, carried_out, settled

LWS = make_set()


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def leaders(retried: str | None = None, **how: Any) -> dict[str, Any]:
    statefulset = make_leader_statefulset(LWS, **how)
    if retried is not None:
        statefulset["metadata"]["annotations"][PODS_RETRIED_AT_ANNOTATION] = retried
    return statefulset


def orphaned(statefulset: dict[str, Any]) -> dict[str, Any]:
    return {**statefulset, "metadata": {**statefulset["metadata"], "ownerReferences": []}}


def workers_of(index: int, **how: Any) -> GroupFacts:
    leader = make_leader_pod(LWS, index)
    return GroupFacts(index, leader, make_worker_statefulset(leader, **how))


def retries(
    refused: Mapping[str, datetime], leader: Object | None = None, *groups: GroupFacts, **facts: Any
) -> Plan:
    return plan_retries(
        SetSnapshot(LWS, NOW, leaders=leader, groups=groups, pods_refused_at=refused, **facts)
    )


def names(planned: Plan) -> list[str]:
    return [action.target.name for action in actions_of(planned) if isinstance(action, Merge)]


def test_written_annotation() -> None:
    leader = leaders()
    planned = retries({leader["metadata"]["uid"]: ago(30)}, leader)
    ((merge,),) = planned.sequences
    assert isinstance(merge, Merge)
    assert (merge.target.kind, merge.target.uid) == ("StatefulSet", leader["metadata"]["uid"])
    stamped = {PODS_RETRIED_AT_ANNOTATION: "2026-03-01T12:00:00Z"}
    assert merge.patch == {"metadata": {"annotations": stamped}}
    assert (merge.announce, planned.announce, planned.statuses) == ((), (), ())
    assert planned.again_after == 30


def test_a_slow_statefulset_is_not_retried() -> None:
    slow = leaders(status={"replicas": 1})
    assert retries({}, slow, workers_of(0, status={"replicas": 0})) == Plan()


@pytest.mark.parametrize(
    ("refused", "retried", "again_after"),
    [
        pytest.param(30, None, None, id="refused a while ago"),
        pytest.param(29, None, 1, id="refused just now"),
        pytest.param(600, timestamp(ago(30)), None, id="retried a while ago"),
        pytest.param(600, timestamp(ago(12)), 18, id="retried just now"),
        pytest.param(12, timestamp(ago(600)), 18, id="retried a while ago and refused since"),
        pytest.param(600, "yesterday", None, id="invalid time of the last retry"),
        pytest.param(600, "", None, id="empty time of the last retry"),
        pytest.param(600, "9999-12-31T23:59:59Z", None, id="time of the last retry far in the future"),
        pytest.param(600, "0001-01-01T00:00:00+14:00", None, id="time of the last retry before year 1"),
        pytest.param(600, timestamp(ago(-10)), 40, id="time of the last retry slightly in the future"),
        pytest.param(-61, None, None, id="refusal in the future"),
    ],
)
def test_time_of_the_next_retry(refused: float, retried: str | None, again_after: float | None) -> None:
    """again_after: seconds until the retry; None for an immediate one."""
    leader = leaders(retried)
    planned = retries({leader["metadata"]["uid"]: ago(refused)}, leader)
    expected = (["demo"], 30) if again_after is None else ([], again_after)
    assert (names(planned), planned.again_after) == expected


def test_worker_statefulsets_are_retried() -> None:
    leader, groups = leaders(), [workers_of(index) for index in range(3)]
    refused = {
        group.worker_statefulset["metadata"]["uid"]: ago(40 * group.index)
        for group in groups
        if group.worker_statefulset
    }
    planned = retries(refused, leader, *groups)
    assert (names(planned), planned.again_after) == (["demo-2", "demo-1"], 30)


@pytest.mark.parametrize(
    ("leader", "groups", "facts"),
    [
        pytest.param(None, (), {}, id="no StatefulSet"),
        pytest.param(orphaned(leaders()), (), {}, id="orphaned StatefulSet"),
        pytest.param(leaders(terminating=True), (), {}, id="terminating StatefulSet"),
        pytest.param(leaders(), (), {"are_leaders_refused": True}, id="apply of the StatefulSet is rejected"),
        pytest.param(None, (workers_of(0, terminating=True),), {}, id="workers are terminating"),
        pytest.param(None, (make_group(LWS, 0, terminating=True),), {}, id="leader is terminating"),
        pytest.param(None, (make_group(LWS, 0, workers=False),), {}, id="no workers"),
    ],
)
def test_statefulsets_that_are_not_retried(
    leader: Object | None, groups: tuple[GroupFacts, ...], facts: Any
) -> None:
    refused = {"uid-of-leaders-demo": ago(600), "uid-of-workers-demo-0": ago(600)}
    assert retries(refused, leader, *groups, **facts) == Plan()


def test_the_interval_grows_with_the_number_of_statefulsets() -> None:
    groups = [workers_of(index) for index in range(200)]
    refused = {
        group.worker_statefulset["metadata"]["uid"]: ago(39) for group in groups if group.worker_statefulset
    }
    assert retries(refused, None, *groups) == Plan(again_after=1)


def test_the_longest_waiting_statefulsets_are_retried_first() -> None:
    groups = [workers_of(index) for index in range(60)]
    refused = {
        group.worker_statefulset["metadata"]["uid"]: ago(100 + group.index)
        for group in groups
        if group.worker_statefulset
    }
    planned = retries(refused, None, *groups)
    assert names(planned) == [f"demo-{index}" for index in range(59, 34, -1)]
    assert planned.again_after == 5


def test_a_retry_writes_nothing_else() -> None:
    snapshot = settled(LWS)
    assert snapshot.leaders is not None
    short = {**snapshot.leaders, "status": {**snapshot.leaders["status"], "replicas": 1}}
    uid = short["metadata"]["uid"]
    starving = replace(snapshot, leaders=short, pods_refused_at={uid: ago(31)})
    planned = plan(starving)
    (merge,) = actions_of(planned)
    assert isinstance(merge, Merge) and merge.target.uid == uid

    later = carried_out(starving, planned)
    assert later.leaders is not None and later.leaders["spec"] == short["spec"]
    assert actions_of(plan(later)) == []
    again = replace(later, now=NOW + timedelta(seconds=30))
    assert len(actions_of(plan(again))) == 1

    served = replace(
        later, leaders={**later.leaders, "status": snapshot.leaders["status"]}, pods_refused_at={}
    )
    assert actions_of(plan(served)) == []
    assert plan(carried_out(served, plan(served))).is_empty
