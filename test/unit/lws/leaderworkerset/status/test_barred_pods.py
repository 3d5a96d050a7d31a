"""Tests of pods that must return to nodes without room: what is reported, and when they need not wait."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.kube.conditions import find
from lws.kube.pods import NodeWait, with_required_node
from lws.leaderworkerset.group_records import KEPT, Members
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status.problems import barred_pods, plan_returns, recheck_barred_pods
from lws.runtime.actions import Delete
from lws_api.leaderworkerset.placement import (
    NODE_RETURN_ANNOTATION,
    NODE_RETURN_EXCEPT_ANNOTATION,
    RETURNS_TO_ANNOTATION,
)
from test.unit.builders import NOW, make_group, make_set, make_worker_pod
from test.unit.set_world import carried_out, settled


def barred(*seconds: float) -> SetSnapshot:
    """Return a settled set, of which pods of group 0 have waited this many seconds for their nodes."""
    snapshot = settled(make_set())
    first, *others = snapshot.groups
    waits = tuple(
        NodeWait(NOW - timedelta(seconds=age), pod=f"demo-0-{index}", node=f"node-{index}")
        for index, age in enumerate(seconds, start=1)
    )
    anywhere = NodeWait(NOW - timedelta(hours=1))
    return replace(snapshot, groups=(replace(first, waits=(anywhere, *waits)), *others))


def test_pods_that_have_waited_long_are_named_with_their_nodes() -> None:
    (problem,) = barred_pods(barred(40, 5, 60))
    assert (problem.reason, problem.message) == (
        "NodeReturnBlocked",
        "pods must return to their nodes and cannot be scheduled there: demo-0-1 to node node-1, demo-0-3 to "
        "node node-3; make room there, or name the nodes in "
        "leaderworkerset.sigs.k8s.io/node-return-except",
    )
    (problem,) = barred_pods(barred(*[60.0] * 12))
    assert "demo-0-10 to node node-10 and 2 more; make room" in problem.message


def test_short_waits_are_not_reported() -> None:
    assert [*barred_pods(barred(5, 20))] == []
    assert recheck_barred_pods(barred(5, 20, 60)) == 10
    assert recheck_barred_pods(barred(60)) is recheck_barred_pods(barred()) is None


def test_barred_pods_are_reported_in_a_condition_and_once_in_an_event() -> None:
    snapshot = barred(60)
    planned = plan(snapshot)
    assert [(event.type, event.reason) for event in planned.announce] == [("Warning", "NodeReturnBlocked")]
    after = carried_out(snapshot, planned)
    condition = find(after.lws["status"]["conditions"], "ReplicaFailure")
    assert condition is not None and (condition["status"], condition["reason"]) == (
        "True",
        "NodeReturnBlocked",
    )
    freed = plan(replace(after, groups=settled(make_set()).groups))
    assert find(freed.statuses[0].patch["conditions"], "ReplicaFailure") is None


# --- Pods that need not wait any longer ---------------------------------------------------------------------

EXCEPT = {NODE_RETURN_EXCEPT_ANNOTATION: "node-9, node-1"}
READY: dict[str, Any] = {
    "kind": "Node",
    "metadata": {"name": "node-1", "labels": {"pool": "a"}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
TAINT = {"key": "repair", "effect": "NoSchedule"}
TAINTED = {**READY, "spec": {"taints": [TAINT]}}
CORDONED = {**READY, "spec": {"unschedulable": True}}
SILENT = {**READY, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
NOT_READ = "not read"


def waits(pod: dict[str, Any], node: str = "node-1", **spec: Any) -> dict[str, Any]:
    """Return the pod as it waits for the node that it must return to."""
    pod = copy.deepcopy(pod)
    pod["metadata"]["annotations"] = {**pod["metadata"]["annotations"], RETURNS_TO_ANNOTATION: node}
    pod["spec"] = {"containers": [], "affinity": with_required_node({}, node), **spec}
    pod["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    return pod


def returning(node: Any, *pods: str, annotations: dict[str, str] | None = None, **spec: Any) -> SetSnapshot:
    """Return a set of two groups of three, whose given pods wait for node-1.

    node: node-1 as it was read.
    """
    lws = make_set(size=3, annotations={NODE_RETURN_ANNOTATION: "Required", **(annotations or {})})
    waiting_pods, groups = [], []
    for index in range(2):
        group = make_group(lws, index)
        members = {group.leader["metadata"]["name"]: group.leader}
        members |= {
            f"demo-{index}-{worker}": make_worker_pod(group.worker_statefulset, worker) for worker in (1, 2)
        }
        waiting = {name: waits(pod, **spec) for name, pod in members.items() if name in pods}
        waiting_pods += waiting.values()
        groups.append(replace(group, leader=waiting.get(f"demo-{index}", group.leader)))
    nodes = {} if node == NOT_READ else {"node-1": node}
    return SetSnapshot(lws, NOW, groups=tuple(groups), returning_pods=tuple(waiting_pods), nodes=nodes)


def deletions(snapshot: SetSnapshot) -> list[list[str]]:
    return [
        [f"{action.target.kind} {action.target.name}" for action in sequence]
        for sequence in plan_returns(snapshot).sequences
    ]


@pytest.mark.parametrize(
    ("node", "annotations", "why"),
    [
        pytest.param(READY, {}, "", id="full"),
        pytest.param(NOT_READ, {}, "", id="not due to be read"),
        pytest.param(None, {}, "the node does not exist any more", id="gone"),
        pytest.param(CORDONED, {}, "the node is cordoned", id="cordoned"),
        pytest.param(SILENT, {}, "the node is not ready", id="not ready"),
        pytest.param(TAINTED, {}, "the node has the taint repair", id="tainted"),
        pytest.param(
            NOT_READ, EXCEPT, f"the node is named in {NODE_RETURN_EXCEPT_ANNOTATION}", id="excepted since"
        ),
        pytest.param(
            READY, {NODE_RETURN_ANNOTATION: "Preferred"}, "the set no longer requires that", id="Preferred"
        ),
        pytest.param(READY, {NODE_RETURN_ANNOTATION: ""}, "the set no longer requires that", id="removed"),
    ],
)
def test_a_pod_whose_successor_need_not_return_is_deleted(
    node: Any, annotations: dict[str, str], why: str
) -> None:
    snapshot = returning(node, "demo-0-1", annotations=annotations)
    planned = plan_returns(snapshot)
    assert deletions(snapshot) == ([["Pod demo-0-1"]] if why else [])
    if why:
        ((delete,),) = planned.sequences
        assert isinstance(delete, Delete)
        assert (delete.target.uid, delete.version) == ("uid-of-pod-demo-0-1", "1")
        assert (delete.propagation, delete.grace_seconds, delete.tallies) == ("Background", None, ())
        (event,) = delete.announce
        assert event.note == f"Deleted pod demo-0-1, which had to return to node node-1: {why}"
        assert (event.reason, event.regarding.kind) == ("NodeReturnBlocked", "LeaderWorkerSet")


def test_a_tolerated_taint_is_no_reason_to_delete() -> None:
    tolerations = [{"key": "repair", "operator": "Exists"}]
    assert deletions(returning(TAINTED, "demo-0-1", tolerations=tolerations)) == []
    assert deletions(returning(READY, "demo-0-1", nodeSelector={"pool": "b"})) == [["Pod demo-0-1"]]


def test_workers_are_deleted_only_with_their_leader() -> None:
    assert deletions(returning(None, "demo-0", "demo-0-2")) == [["Pod demo-0", "StatefulSet demo-0"]]
    assert deletions(returning(None, "demo-0-1", "demo-1-1", "demo-1-2")) == [
        ["Pod demo-0-1"],
        ["Pod demo-1-1"],
        ["Pod demo-1-2"],
    ]


def test_a_group_kept_for_diagnosis_is_not_deleted() -> None:
    snapshot = returning(None, "demo-0-1", "demo-1")
    lws = make_set(size=3, maxGroupRestarts=0, annotations={NODE_RETURN_ANNOTATION: "Required"})
    members = {"0": str(Members.sealed("uid-of-pod-demo-0", KEPT))}
    after_failure = replace(snapshot, lws={**lws, "status": {"members": members}})
    assert deletions(after_failure) == [["Pod demo-1", "StatefulSet demo-1"]]


def test_the_plan_of_the_set_deletes_barred_pods() -> None:
    snapshot = settled(make_set(annotations={NODE_RETURN_ANNOTATION: "Required"}))
    pod = waits(snapshot.groups[0].leader)
    planned = plan(replace(snapshot, returning_pods=(pod,), nodes={"node-1": None}))
    assert [action.target.name for (action, *_) in planned.sequences if isinstance(action, Delete)] == [
        "demo-0"
    ]
