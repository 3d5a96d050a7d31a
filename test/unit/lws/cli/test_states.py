"""lws.cli.states: the state of a set; test_shown_status.py tests how it is printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.cli.commands.status import status_blocks
from lws.cli.screen import Text
from lws.cli.states import obstacle, report_on
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.revisions.history import record
from test.unit.builders import NOW, make_leader_pod, make_leader_statefulset, make_set, make_worker_pod
from test.unit.lws.cli.histories import revision_of, set_objects, sets, snapshot_of, with_status
from test.unit.set_world import judged

A, B = sets("app:1", "app:2", replicas=2)
HISTORY = [revision_of(A, 1), revision_of(B, 2)]


def test_settings_absent_from_all_revisions() -> None:
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    live = make_set(image="app:1", template={"restartPolicy": "None"})
    recorded = make_set(image="app:1", template=policy)
    revisions = [revision_of(recorded, 1)]
    leader = make_leader_statefulset(live, key=record(recorded).key)
    facts = report_on(set_objects(snapshot_of(live, revisions, leader=leader), revisions))
    assert [line.split(":")[0] for line in facts.live_only] == [
        "restartPolicy is None, revision 1 has recorded RecreateGroupOnPodRestart",
        "persistentVolumeClaimRetentionPolicy is not set, revision 1 has recorded whenDeleted Delete",
    ]
    assert report_on(set_objects(snapshot_of(A, HISTORY), HISTORY)).live_only == ()


def test_a_key_without_a_revision_is_shown() -> None:
    snapshot = with_status(snapshot_of(B, HISTORY[1:], [A, B]))
    assert report_on(set_objects(snapshot, HISTORY[1:])).groups[0].revision == record(A).key


@pytest.mark.parametrize(
    ("status", "leader", "running", "settled"),
    [
        pytest.param({}, {}, [B, B], True, id="settled"),
        pytest.param({"observedGeneration": 0}, {}, [B, B], False, id="not looked at yet"),
        pytest.param({"conditions": []}, {}, [B, B], False, id="not reported yet"),
        pytest.param({}, {}, [A, B], False, id="outdated"),
        pytest.param({}, {}, [B], False, id="missing"),
        pytest.param({}, {"replicas": 3}, [B, B, B], False, id="surge"),
        pytest.param({}, {"replicas": 3}, [B, B], False, id="surge groups are missing"),
    ],
)
def test_a_settled_set(
    status: dict[str, Any], leader: dict[str, Any], running: list[dict[str, Any]], settled: bool
) -> None:
    leaders = make_leader_statefulset(B, key=record(B).key, **leader)
    snapshot = with_status(snapshot_of(B, HISTORY, running, leader=leaders), **status)
    facts = report_on(set_objects(snapshot, HISTORY))
    assert (facts.is_settled, bool(facts.waiting_for)) == (settled, not settled)


def test_a_set_that_is_not_reconciled_is_marked() -> None:
    """A later release of upstream stored the set."""
    hashed = make_set(image="app:1", scheduling={})
    facts = report_on(set_objects(judged(snapshot_of(hashed, HISTORY)), HISTORY))
    assert not facts.is_settled
    assert facts.waiting_for.startswith("spec.scheduling: the feature gate")


@pytest.mark.parametrize(
    ("status", "settled"),
    [
        pytest.param({}, False, id="nothing reported"),
        pytest.param({"readyReplicas": 1, "updatedReplicas": 2}, False, id="in progress"),
        pytest.param(
            {
                "readyReplicas": 3,
                "updatedReplicas": 2,
                "conditions": [{"type": "Available", "status": "True", "reason": "AllGroupsReady"}],
            },
            True,
            id="done",
        ),
    ],
)
def test_a_set_of_another_controller_has_the_state_of_its_status(
    status: dict[str, Any], settled: bool
) -> None:
    spec = {"managedBy": "kueue.x-k8s.io/multikueue", "podTerminationPolicy": "Parallel"}
    lws = {**make_set(**spec), "status": status}
    report = report_on(set_objects(snapshot_of(lws, []), []))
    waits = "kueue.x-k8s.io/multikueue to report in the status that it is done"
    assert (report.is_settled, report.waiting_for) == (settled, "" if settled else waits)
    counts = (min(status.get("readyReplicas", 0), 2), status.get("updatedReplicas", 0))
    assert (report.ready, report.updated) == counts
    lines = [block.text for block in status_blocks(report) if isinstance(block, Text)]
    assert any(
        line.startswith("kueue.x-k8s.io/multikueue runs this set (spec.managedBy): ") for line in lines
    )
    assert not any("terminated with their leader" in line for line in lines), (
        "the other controller decides this"
    )
    assert report.groups == (), "no group is missing in this state"


def test_claims_deleted_with_their_group() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    lws = make_set(image="app:1", template={"volumeClaimTemplates": [claim]})
    revisions = [revision_of(lws, 1)]
    snapshot = snapshot_of(lws, revisions)
    assert report_on(set_objects(snapshot, revisions)).at_risk == ()
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    groups = tuple(
        replace(
            group,
            worker_statefulset={
                **group.worker_statefulset,
                "spec": {**group.worker_statefulset["spec"], **policy},
            },
        )
        for group in snapshot.groups
        if group.worker_statefulset is not None
    )
    (line,) = report_on(set_objects(replace(snapshot, groups=groups), revisions)).at_risk
    assert line.startswith("worker StatefulSet demo-0 and 1 more: whenDeleted is Delete, as upstream")


def test_a_group_waits_for_the_reason_that_the_status_gives() -> None:
    """Details follow that the status does not contain: which pod, and what is wrong with it."""
    snapshot = snapshot_of(B, HISTORY, [A, B])
    leader = make_leader_pod(B, 1, ready=False, key=record(B).key)
    snapshot = with_status(
        replace(snapshot, groups=(snapshot.groups[0], replace(snapshot.groups[1], leader=leader)))
    )
    written = plan(snapshot).statuses[0].patch["groups"]["unsettled"]
    reasons = {row["name"]: row["reason"] for row in written}
    assert reasons == {
        "demo-0": "waiting for its turn in the rollout",
        "demo-1": "leader pod is not ready",
    }
    lines = report_on(set_objects(snapshot, HISTORY)).groups
    assert [line.why for line in lines] == [
        reasons["demo-0"],
        f"{reasons['demo-1']}; 1 pod yet to be created",
    ]


def test_a_gated_group_waits_for_its_gate() -> None:
    snapshot = snapshot_of(B, HISTORY, [B, B])
    leader = make_leader_pod(B, 1, ready=False, phase="Pending", key=record(B).key)
    gates = [{"name": "example.com/quota"}, {"name": "example.com/later"}]
    gated = {**leader, "spec": {**leader.get("spec", {}), "schedulingGates": gates}}
    snapshot = with_status(
        replace(snapshot, groups=(snapshot.groups[0], replace(snapshot.groups[1], leader=gated)))
    )
    (written,) = plan(snapshot).statuses[0].patch["groups"]["unsettled"]
    assert written["reason"] == "waiting for scheduling gate example.com/quota"
    assert report_on(set_objects(snapshot, HISTORY)).groups[1].why.startswith(written["reason"])


def test_a_rollout_waits_for_writes_that_the_api_server_rejects() -> None:
    message = "cannot delete Pod demo-1: pods is forbidden: not before Monday"
    refused = {"type": "ReplicaFailure", "status": "True", "message": message}
    snapshot = with_status(snapshot_of(B, HISTORY, [A, A]), conditions=[refused])
    facts = report_on(set_objects(snapshot, HISTORY))
    why = "the rollout is blocked, the API server rejects the next step: cannot delete Pod demo-1"
    assert [line.why for line in facts.groups] == [why, why]
    assert facts.waiting_for == f"this problem to be resolved: {message}"
    over = {**refused, "status": "False"}
    facts = report_on(set_objects(with_status(snapshot, conditions=[over]), HISTORY))
    assert message not in facts.waiting_for
    assert [line.why for line in facts.groups] == ["waiting for its turn in the rollout"] * 2


def test_a_set_with_a_foreign_statefulset_is_not_settled() -> None:
    """The controller leaves it alone, whatever its counters are."""
    leaders = make_leader_statefulset(B, key=record(B).key)
    uid = leaders["metadata"]["ownerReferences"][0]["uid"] = "somebody"
    snapshot = with_status(snapshot_of(B, HISTORY, leader=leaders))
    facts = report_on(set_objects(replace(snapshot, owners_alive=frozenset({uid})), HISTORY))
    assert not facts.is_settled
    assert "needs this name and leaves it untouched" in facts.waiting_for


SET = make_set(image="app:1", replicas=3)


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
    """The missing leader is the reason, and is not reported twice."""
    pods = [make_leader_pod(SET, ready=False, **leader), make_worker_pod()]
    assert obstacle(None, pods, 2) == why


def test_workers() -> None:
    leader = make_leader_pod(SET)
    worker = make_worker_pod(terminating=True)
    assert obstacle(None, [leader, worker], 2) == "pod demo-0-1 is being deleted"
    assert obstacle(None, [leader], 4) == "3 pods yet to be created"
    assert obstacle(None, [leader], 2) == "1 pod yet to be created"
    unready = [make_worker_pod(index=index, ready=False) for index in (1, 2, 3)]
    assert obstacle(None, [leader, *unready], 4) == "pod demo-0-1 and 2 more not ready"


def test_ready_pods_are_not_yet_counted_by_the_statefulset() -> None:
    pods = [make_leader_pod(SET), make_worker_pod()]
    assert obstacle(None, pods, 2) == "StatefulSet controller has yet to report"


def test_the_status_has_the_reason_why_a_set_waits() -> None:
    lws = make_set(image="app:1", replicas=3, startupPolicy="LeaderReady")
    leader = make_leader_pod(lws, ready=False)
    revision = snapshot_of(lws, [revision_of(lws, 1)]).revisions[0]
    group = GroupSnapshot(lws=lws, leader=leader, now=NOW, revision=revision)
    why = obstacle(group, [leader], 2)
    assert why == "waits for the leader pod to be ready (startupPolicy LeaderReady)"


def test_long_messages_are_truncated() -> None:
    pods = [make_leader_pod(SET, ready=False, status=waiting_container("ErrImagePull", "x" * 500))]
    why = obstacle(None, pods, 2)
    assert (len(why), why[-1]) == (100, "…")
