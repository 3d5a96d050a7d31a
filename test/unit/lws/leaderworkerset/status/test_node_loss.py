"""Tests of what is reported if a lost node keeps groups from being recreated."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.kube.conditions import find
from lws.kube.nodes import NodeLossPolicy
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status.problems import lost_nodes
from lws.policies import Policies
from test.unit.builders import NOW, make_set
from test.unit.set_world import carried_out, settled

SILENT = {
    "status": {
        "conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-03-01T11:50:00Z"}]
    }
}


def stuck(name: str, node: str = "node-1") -> dict[str, Any]:
    metadata = {"name": name, "deletionTimestamp": "2026-03-01T11:54:00Z", "deletionGracePeriodSeconds": 30}
    return {"metadata": metadata, "spec": {"nodeName": node}}


def with_stuck(nodes: dict[str, Any], *leaving: dict[str, Any]) -> SetSnapshot:
    """Return a settled set with these pods stuck in termination."""
    return replace(settled(make_set()), terminating_pods=leaving, nodes=nodes)


def test_one_problem_for_each_node() -> None:
    nodes = {"node-1": SILENT, "node-2": None, "node-3": {"status": SILENT["status"]}}
    pods = (stuck("demo-0-1"), stuck("demo-0-2", "node-2"), stuck("demo-1"))
    assert [(problem.reason, problem.message) for problem in lost_nodes(with_stuck(nodes, *pods))] == [
        (
            "NodeLost",
            "node node-1 has not been ready since 2026-03-01T11:50:00Z and cannot terminate demo-0-1, "
            "demo-1: their groups are blocked; repair the node, delete it, or, once it is shut down, "
            "taint it with node.kubernetes.io/out-of-service; with nodeLoss.forceDelete the "
            "manager force-deletes such pods",
        ),
        (
            "NodeLost",
            "node node-2 does not exist any more and cannot terminate demo-0-2: their groups are blocked; "
            "Kubernetes deletes such pods itself (pod garbage collector)",
        ),
    ]


def test_no_more_than_ten_pods_are_named() -> None:
    pods = tuple(stuck(f"demo-0-{index}") for index in range(10, 25))
    (problem,) = lost_nodes(with_stuck({"node-1": SILENT}, *pods))
    assert "demo-0-18, demo-0-19 and 5 more: their groups are blocked" in problem.message


def test_the_message_announces_a_forced_deletion() -> None:
    policy = NodeLossPolicy(timedelta(minutes=5), force_delete=True)
    snapshot = replace(with_stuck({"node-1": SILENT}, stuck("demo-0")), policies=Policies(policy))
    (problem,) = lost_nodes(snapshot)
    assert problem.message.endswith("their groups are blocked; such pods are force-deleted")


def test_lost_nodes_are_reported_in_a_condition_and_once_in_an_event() -> None:
    snapshot = with_stuck({"node-1": SILENT}, stuck("demo-0-1"))
    planned = plan(snapshot)
    assert [(event.type, event.reason) for event in planned.announce] == [("Warning", "NodeLost")]
    assert planned.again_after == 30
    after = carried_out(snapshot, planned)
    condition = find(after.lws["status"]["conditions"], "ReplicaFailure")
    assert condition is not None and (condition["status"], condition["reason"]) == ("True", "NodeLost")
    assert plan(after).is_empty
    freed = plan(replace(after, terminating_pods=(), nodes={}))
    assert find(freed.statuses[0].patch["conditions"], "ReplicaFailure") is None


@pytest.mark.parametrize(
    ("seconds", "again"),
    [(0, 30), (-385, 25), (-3600, 30)],
    ids=["overdue", "its grace period is not over", "the clock was set back"],
)
def test_time_of_the_next_check(seconds: int, again: float) -> None:
    snapshot = replace(with_stuck({}, stuck("demo-0")), now=NOW + timedelta(seconds=seconds))
    assert snapshot.node_losses.recheck_after() == again


def test_a_settled_set_is_not_rechecked() -> None:
    assert settled(make_set()).node_losses.recheck_after() is None
