"""Tests that a pass starts at once if a step or a reader waits for the change, and is delayed otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from lws import timing
from lws.leaderworkerset.routing import set_delay_of
from lws_api.leaderworkerset.v1 import GROUP_REPLACEMENT_GATE
from test.unit.builders import (
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_statefulset,
)

NOW, SOON, LATER = 0.0, timing.STARTING_GROUP_SECONDS, timing.STARTING_SET_SECONDS

Object = dict[str, Any]


def changed(obj: Object, **status: Any) -> Object:
    return {**obj, "status": {**obj["status"], **status}}


LEADER, TERMINATING = make_leader_pod(), make_leader_pod(terminating=True)
PENDING = make_leader_pod(ready=False, phase="Pending")
STARTING = make_leader_pod(ready=False)
FAILED = make_leader_pod(phase="Failed")
RESTARTED = make_leader_pod(status={"containerStatuses": [{"name": "server", "restartCount": 1}]})
EDITED = make_leader_pod(annotations={"leaderworkerset.sigs.k8s.io/size": "9"})
WAITS = {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-03-01T12:00:00Z"}
GATED = make_leader_pod(ready=False, phase="Pending", uid="next")
GATED["spec"]["schedulingGates"] = [{"name": GROUP_REPLACEMENT_GATE}]
UNPLACED = make_leader_pod(ready=False, phase="Pending", status={"conditions": [WAITS]})
WORKERS, UNREADY = make_worker_statefulset(LEADER), make_worker_statefulset(LEADER, ready=False)
SHORT = make_worker_statefulset(LEADER, ready=False, status={"replicas": 0})
ENDING = make_worker_statefulset(LEADER, terminating=True)
LEADERS = make_leader_statefulset(make_set(replicas=2))
SURGING = changed(make_leader_statefulset(make_set(replicas=2)), replicas=3)
SCALED_FROM_ONE = make_leader_statefulset(make_set(replicas=2), last_replicas=1)
WRITTEN = {**LEADERS, "metadata": {**LEADERS["metadata"], "generation": 3}}
REPORTED = changed(WRITTEN, observedGeneration=3)


@pytest.mark.parametrize(
    ("before", "after", "workers", "expected"),
    [
        pytest.param(None, LEADER, None, NOW, id="created: it may be of the wrong revision"),
        pytest.param(LEADER, TERMINATING, WORKERS, NOW, id="terminating"),
        pytest.param(TERMINATING, None, WORKERS, LATER, id="deleted after that"),
        pytest.param(LEADER, None, WORKERS, NOW, id="deleted without that"),
        pytest.param(PENDING, STARTING, UNREADY, LATER, id="runs"),
        pytest.param(STARTING, LEADER, WORKERS, NOW, id="ready, as are its workers"),
        pytest.param(STARTING, LEADER, None, NOW, id="ready, and has no workers"),
        pytest.param(STARTING, LEADER, UNREADY, LATER, id="ready before its workers"),
        pytest.param(STARTING, make_leader_pod(uid="another"), UNREADY, NOW, id="recreated"),
        pytest.param(LEADER, STARTING, UNREADY, NOW, id="not ready any more"),
        pytest.param(LEADER, FAILED, WORKERS, NOW, id="failed"),
        pytest.param(LEADER, RESTARTED, WORKERS, NOW, id="restarted"),
        pytest.param(LEADER, EDITED, WORKERS, NOW, id="edited"),
        pytest.param(PENDING, UNPLACED, None, NOW, id="unschedulable"),
    ],
)
def test_delay_of_a_leader_pod(
    before: Object | None, after: Object | None, workers: Object | None, expected: float
) -> None:
    assert set_delay_of(before, after, after, workers) == expected


@pytest.mark.parametrize(
    ("before", "after", "leader", "expected"),
    [
        pytest.param(None, UNREADY, LEADER, LATER, id="created"),
        pytest.param(None, WORKERS, LEADER, NOW, id="seen first when ready"),
        pytest.param(UNREADY, WORKERS, LEADER, NOW, id="ready"),
        pytest.param(WORKERS, UNREADY, LEADER, NOW, id="not ready any more"),
        pytest.param(SHORT, UNREADY, LEADER, LATER, id="all pods exist"),
        pytest.param(UNREADY, SHORT, LEADER, SOON, id="pods are missing"),
        pytest.param(WORKERS, ENDING, LEADER, NOW, id="terminating alone"),
        pytest.param(WORKERS, None, LEADER, NOW, id="deleted alone"),
        pytest.param(WORKERS, ENDING, TERMINATING, LATER, id="terminating with their leader"),
        pytest.param(ENDING, None, None, LATER, id="deleted after their leader"),
        pytest.param(ENDING, None, GATED, LATER, id="deleted while the next leader is gated"),
    ],
)
def test_delay_of_a_worker_statefulset(
    before: Object | None, after: Object | None, leader: Object | None, expected: float
) -> None:
    assert set_delay_of(before, after, leader, after) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, LEADERS, LATER, id="created by a pass"),
        pytest.param(changed(LEADERS, replicas=1), LEADERS, LATER, id="a pod is recreated"),
        pytest.param(LEADERS, changed(LEADERS, replicas=1), LATER, id="a replaced pod is deleted"),
        pytest.param(SURGING, LEADERS, NOW, id="a surge pod is deleted"),
        pytest.param(LEADERS, SURGING, NOW, id="a surge pod is created"),
        pytest.param(changed(SCALED_FROM_ONE, replicas=1), SCALED_FROM_ONE, NOW, id="the surge is created"),
        pytest.param(
            SCALED_FROM_ONE, changed(SCALED_FROM_ONE, replicas=1), LATER, id="a pod is deleted during a surge"
        ),
        pytest.param(changed(LEADERS, observedGeneration=0), LEADERS, NOW, id="reports for the first time"),
        pytest.param(WRITTEN, REPORTED, timing.AT_ONCE, id="has acted on the last write"),
        pytest.param(
            WRITTEN, changed(WRITTEN, observedGeneration=2), NOW, id="has acted on a write before it"
        ),
        pytest.param(changed(LEADERS, updateRevision="x"), LEADERS, NOW, id="knows a new template"),
        pytest.param(changed(LEADERS, currentRevision="x"), LEADERS, NOW, id="has moved all"),
        pytest.param(
            changed(LEADERS, observedGeneration=None, replicas=1),
            changed(LEADERS, observedGeneration=None),
            NOW,
            id="reports by its count alone",
        ),
        pytest.param(LEADERS, make_leader_statefulset(partition=1), NOW, id="edited"),
        pytest.param(LEADERS, None, NOW, id="deleted"),
    ],
)
def test_delay_of_the_leader_statefulset(
    before: Object | None, after: Object | None, expected: float
) -> None:
    assert set_delay_of(before, after, None, after) == expected


def test_other_changes_are_not_delayed() -> None:
    assert set_delay_of(make_set(), make_set(generation=2), None, None) == NOW
    assert set_delay_of(make_set(), None, None, None) == NOW


def test_counts_of_a_replica_set_are_delayed() -> None:
    metadata = {"name": "demo-abc", "namespace": "default", "uid": "u-rs"}
    before = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": 1}}
    after = {**before, "spec": {"replicas": 2}}
    assert set_delay_of(before, after, None, None) == timing.STARTING_GROUP_SECONDS
    assert set_delay_of(None, after, None, None) == set_delay_of(after, None, None, None) == 0.0
