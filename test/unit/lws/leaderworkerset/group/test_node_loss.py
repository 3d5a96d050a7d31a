"""Tests of which pods are force-deleted if a lost node keeps a group from being recreated."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.kube.nodes import NodeLossPolicy
from lws.leaderworkerset.group.plan import plan, plan_node_loss
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.policies import Policies
from lws.runtime.actions import Delete, Reference
from test.unit.builders import NOW, make_leader_pod, make_set, make_worker_pod, make_worker_statefulset

FORCED = NodeLossPolicy(timedelta(minutes=5), force_delete=True)
REPORTED = NodeLossPolicy(timedelta(minutes=5))
SILENT = {
    "metadata": {"name": "node-1"},
    "status": {
        "conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-03-01T11:50:00Z"}]
    },
}
LWS = make_set(size=3)


def stuck(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod whose deletion is a minute overdue."""
    pod["metadata"] |= {"deletionTimestamp": "2026-03-01T11:59:00Z", "deletionGracePeriodSeconds": 30}
    return pod


def group(policy: NodeLossPolicy, *leaving: dict[str, Any], node: Any = SILENT) -> GroupSnapshot:
    """Return group 0, whose given pods are terminating on node-1."""
    leader = leaving[0] if leaving[0]["metadata"]["name"] == "demo-0" else make_leader_pod(LWS)
    return GroupSnapshot(
        LWS, leader, NOW, terminating_pods=tuple(leaving), nodes={"node-1": node}, policies=Policies(policy)
    )


def a_worker(index: int = 1) -> dict[str, Any]:
    return stuck(make_worker_pod(make_worker_statefulset(make_leader_pod(LWS)), index))


def test_a_stuck_worker_is_force_deleted_if_configured() -> None:
    worker = a_worker()
    ((delete,),) = plan_node_loss(group(FORCED, worker)).sequences
    assert isinstance(delete, Delete)
    assert (delete.target, delete.propagation, delete.grace_seconds) == (
        Reference.to(worker),
        "Background",
        0,
    )
    (event,) = delete.announce
    assert (event.type, event.reason, event.action) == ("Warning", "NodeLost", "Delete")
    assert event.note == (
        "Force-deleted pod demo-0-1: it has been terminating since 2026-03-01T11:59:00Z on node node-1, "
        "which has not been ready since 2026-03-01T11:50:00Z"
    )


def test_workers_of_a_stuck_leader_are_deleted_first() -> None:
    ((delete,),) = plan_node_loss(group(FORCED, stuck(make_leader_pod(LWS)))).sequences
    assert isinstance(delete, Delete)
    assert (delete.propagation, delete.grace_seconds) == ("Foreground", 0)


def test_stuck_pods_are_deleted_independently() -> None:
    planned = plan_node_loss(group(FORCED, stuck(make_leader_pod(LWS)), a_worker(1), a_worker(2)))
    assert [len(sequence) for sequence in planned.sequences] == [1, 1, 1]
    assert planned.stuck_pods == 3


def test_nothing_is_force_deleted_by_default() -> None:
    planned = plan_node_loss(group(REPORTED, a_worker()))
    assert planned.is_empty and planned.stuck_pods == 1 and planned.again_after == 30
    assert planned.waiting_for == "pods on node node-1, which has not been ready since 2026-03-01T11:50:00Z"


@pytest.mark.parametrize("is_terminating", [False, True])
def test_pods_of_a_set_of_another_controller_are_left_alone(is_terminating: bool) -> None:
    lws = make_set(size=3, terminating=is_terminating, managedBy="example.com/another")
    planned = plan(replace(group(FORCED, a_worker()), lws=lws))
    assert planned.is_empty and planned.stuck_pods == 0


def test_pods_on_deleted_nodes_are_left_to_the_garbage_collector() -> None:
    snapshot = group(FORCED, a_worker(), node=None)
    planned = plan_node_loss(replace(snapshot, now=NOW + timedelta(minutes=10)))
    assert planned.is_empty and planned.stuck_pods == 1


@pytest.mark.parametrize("terminating", ["leader", "set"])
def test_stuck_pods_of_a_terminating_group_are_deleted(terminating: str) -> None:
    leader = make_leader_pod(LWS, terminating=terminating == "leader")
    lws = make_set(size=3, terminating=terminating == "set")
    snapshot = replace(group(FORCED, a_worker()), lws=lws, leader=leader)
    planned = plan(snapshot)
    assert [action.why for sequence in planned.sequences for action in sequence] != []
    assert planned.stuck_pods == 1 and "the leader pod or the set to be gone" in planned.waiting_for
