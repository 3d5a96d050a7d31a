"""Which changes of a group may wait for the next one, and which may not."""

from __future__ import annotations

from typing import Any

import pytest

from lws import timing
from lws.leaderworkerset.routing import group_delay_of
from lws_api.leaderworkerset.v1 import POD_TERMINATION_POLICY_ANNOTATION
from test.unit.builders import make_leader_pod, make_set, make_worker_pod, make_worker_statefulset

LEADER = make_leader_pod()
WORKERS = make_worker_statefulset(LEADER)
PENDING = make_leader_pod(ready=False, phase="Pending")
WORKER = make_worker_pod(WORKERS)
OF_OTHERS = make_worker_statefulset(make_leader_pod(uid="another"))
RESTARTED = {"containerStatuses": [{"name": "server", "restartCount": 1}]}

Change = tuple[dict[str, Any] | None, dict[str, Any] | None]

FAILED = make_worker_pod(WORKERS, phase="Failed")
GONE, LEFT = (WORKER, None), (WORKER, make_worker_pod(WORKERS, terminating=True))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(GONE, id="a worker is deleted"),
        pytest.param(LEFT, id="a worker is terminating"),
        pytest.param((WORKERS, None), id="the worker StatefulSet is deleted"),
        pytest.param((LEADER, make_leader_pod(terminating=True)), id="the leader itself"),
    ],
)
def test_events_of_a_terminating_group_can_wait(change: Change) -> None:
    assert group_delay_of(*change, make_leader_pod(terminating=True), WORKERS) == 2.0


def test_workers_that_terminate_with_their_leader_are_urgent() -> None:
    leader = make_leader_pod(terminating=True)
    note = {POD_TERMINATION_POLICY_ANNOTATION: "Parallel"}
    terminating = make_worker_statefulset(leader, terminating=True)
    for workers, delay in ((WORKERS, timing.AT_ONCE), (terminating, 2.0)):
        noted = {**workers, "metadata": {**workers["metadata"], "annotations": note}}
        assert group_delay_of(LEADER, leader, leader, noted) == delay


@pytest.mark.parametrize(
    ("change", "workers"),
    [
        pytest.param((None, WORKERS), None, id="the created worker StatefulSet"),
        pytest.param((None, make_worker_pod(ready=False, phase="Pending")), WORKERS, id="a worker"),
        pytest.param((None, make_worker_pod(ready=False, phase="Pending")), None, id="a worker, seen first"),
        pytest.param((PENDING, LEADER), WORKERS, id="the leader is ready, its workers are created"),
    ],
)
def test_a_starting_group_causes_more_events(change: Change, workers: dict[str, Any] | None) -> None:
    assert group_delay_of(*change, LEADER, workers) == 1.0


@pytest.mark.parametrize(
    ("change", "workers"),
    [
        pytest.param((PENDING, LEADER), None, id="the leader is ready, workers may wait for it"),
        pytest.param((PENDING, LEADER), OF_OTHERS, id="the leader is ready, the former workers exist"),
        pytest.param((LEADER, PENDING), WORKERS, id="the leader is no longer ready"),
        pytest.param((None, OF_OTHERS), OF_OTHERS, id="a foreign StatefulSet"),
        pytest.param((None, make_worker_pod(status=RESTARTED)), WORKERS, id="a worker that has restarted"),
        pytest.param(
            (None, make_worker_pod(terminating=True)), WORKERS, id="a worker that is terminating already"
        ),
        pytest.param((FAILED, FAILED), WORKERS, id="a worker that failed before"),
        pytest.param(GONE, WORKERS, id="a worker is deleted"),
        pytest.param((LEFT[1], LEFT[1]), WORKERS, id="a worker that was terminating before"),
        pytest.param((WORKERS, None), None, id="the worker StatefulSet is deleted"),
        pytest.param((OF_OTHERS, None), None, id="the former worker StatefulSet is deleted"),
        pytest.param((make_set(), None), WORKERS, id="the set is deleted"),
    ],
)
def test_events_that_a_step_waits_for_are_not_delayed(change: Change, workers: dict[str, Any] | None) -> None:
    assert group_delay_of(*change, LEADER, workers) == 0.0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param((None, LEADER), id="a new leader"),
        pytest.param((LEADER, make_leader_pod(status=RESTARTED)), id="a container was restarted"),
        pytest.param((WORKER, FAILED), id="a worker failed"),
        pytest.param(LEFT, id="a worker is terminating"),
    ],
)
def test_failures_and_new_leaders_are_not_delayed(change: Change) -> None:
    assert group_delay_of(*change, LEADER, WORKERS) == timing.AT_ONCE < 0
