"""lws.cli.facts.set_status: what keeps the pods of a group from being ready."""

from __future__ import annotations

from typing import Any

import pytest

from lws.cli.facts.set_status import obstacle
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from test.unit.builders import NOW, make_leader_pod, make_set, make_worker_pod
from test.unit.lws.cli.histories import revision_of, snapshot_of

A = make_set(image="app:1", replicas=3)


def waiting_container(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "main", "restartCount": 0, "state": state}]}


@pytest.mark.parametrize(
    ("leader", "why"),
    [
        ({"status": waiting_container("ImagePullBackOff", "no such\n image")},
         "pod demo-0, container main: ImagePullBackOff no such image"),
        ({"status": waiting_container("ContainerCreating")}, ""),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "pod demo-0 failed: Evicted"),
        ({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/8 nodes"}]}},
         "pod demo-0 has no node: 0/8 nodes"),
        ({}, ""),
    ],
)  # fmt: skip
def test_a_leader_that_is_not_ready(leader: dict[str, Any], why: str) -> None:
    """That its leader is not ready is the reason; it is not said twice."""
    pods = [make_leader_pod(A, ready=False, **leader), make_worker_pod()]
    assert obstacle(None, pods, 2) == why


def test_workers() -> None:
    leader = make_leader_pod(A)
    going = make_worker_pod(terminating=True)
    assert obstacle(None, [leader, going], 2) == "pod demo-0-1 is being deleted"
    assert obstacle(None, [leader], 4) == "3 pods yet to be created"
    assert obstacle(None, [leader], 2) == "1 pod yet to be created"
    unready = [make_worker_pod(index=index, ready=False) for index in (1, 2, 3)]
    assert obstacle(None, [leader, *unready], 4) == "pod demo-0-1 and 2 more not ready"


def test_pods_are_ready_and_nobody_has_said_so_yet() -> None:
    pods = [make_leader_pod(A), make_worker_pod()]
    assert obstacle(None, pods, 2) == "StatefulSet controller has yet to report"


def test_what_the_controller_waits_for() -> None:
    lws = make_set(image="app:1", replicas=3, startupPolicy="LeaderReady")
    leader = make_leader_pod(lws, ready=False)
    revision = snapshot_of(lws, [revision_of(lws, 1)]).revisions[0]
    group = GroupSnapshot(lws=lws, leader=leader, now=NOW, revision=revision)
    why = obstacle(group, [leader], 2)
    assert why == "waits for the leader pod to be ready (startupPolicy LeaderReady)"


def test_long_messages_are_cut() -> None:
    pods = [make_leader_pod(A, ready=False, status=waiting_container("ErrImagePull", "x" * 500))]
    why = obstacle(None, pods, 2)
    assert (len(why), why[-1]) == (100, "…")
