"""lws.cli.commands.status: the printed status of a set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lws.cli.commands.status import progress_line, sets_table, status_blocks, status_data
from lws.cli.screen import plain
from lws.cli.states import StatusReport, report_on
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.snapshot import SetSnapshot
from lws_api.leaderworkerset.placement import NODE_RETURN_ANNOTATION
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.builders import make_leader_pod, make_leader_statefulset, make_set, make_worker_pod
from test.unit.lws.cli.histories import revision_of, set_objects, sets, snapshot_of, with_status

Object = dict[str, Any]
A, B = sets("app:1", "app:2", replicas=3)
HISTORY = [revision_of(A, 1), revision_of(B, 2)]
AVAILABLE = {
    "type": "Available",
    "status": "True",
    "reason": "AllGroupsReady",
    "message": "All replicas are ready",
    "lastTransitionTime": "2026-03-01T11:59:00Z",
}


def worker_pods(snapshot: SetSnapshot) -> dict[str, Object]:
    pods = [
        make_worker_pod(dict(group.worker_statefulset))
        for group in snapshot.groups
        if group.worker_statefulset is not None
    ]
    return {pod["metadata"]["name"]: pod for pod in pods}


def seen(
    snapshot: SetSnapshot, pods: dict[str, Object] | None = None
) -> tuple[StatusReport, list[str], Object]:
    """Return the facts, the printed lines and the data."""
    facts = report_on(set_objects(snapshot, HISTORY, worker_pods(snapshot) if pods is None else pods))
    return facts, list(plain(status_blocks(facts))), status_data(facts)


def test_a_settled_set() -> None:
    facts, lines, data = seen(with_status(snapshot_of(B, HISTORY), conditions=[AVAILABLE]))
    assert (facts.is_settled, facts.waiting_for, facts.updated) == (True, "", 3)
    assert lines == [
        "LeaderWorkerSet default/demo",
        f"groups ready on revision 2 ({record(B).key}): 3 of 3",
        "",
        "GROUP   REVISION   LEADER   WORKERS   AGE   WAITING",
        "0       2          Ready    1/1       59d",
        "1       2          Ready    1/1       59d",
        "2       2          Ready    1/1       59d",
        "",
        "CONDITION   STATUS   REASON           SINCE   MESSAGE",
        "Available   True     AllGroupsReady   60s     All replicas are ready",
        "",
        "settled",
    ]
    assert progress_line(facts).text == "3 of 3 groups are updated and ready: settled"
    assert (data["settled"], data["revision"], data["conditions"]) == (True, 2, [AVAILABLE])
    assert data["groups"][0] == {
        "index": 0,
        "revision": "2",
        "leader": "Ready",
        "workersReady": 1,
        "workers": 1,
        "pod": "demo-0",
        "node": "node-1",
        "why": "",
    }


def test_the_wide_output() -> None:
    facts = report_on(set_objects(with_status(snapshot_of(B, HISTORY, [B, B])), HISTORY))
    lines = list(plain(status_blocks(facts, wide=True)))
    assert lines[3:7] == [
        "GROUP   REVISION   LEADER    WORKERS   AGE   POD      NODE     WAITING",
        "0       2          Ready     0/1       59d   demo-0   node-1",
        "1       2          Ready     0/1       59d   demo-1   node-1",
        "2       -          Missing   0/0       -     <none>   <none>   no leader pod",
    ]


def test_a_line_for_each_set() -> None:
    facts = [
        report_on(set_objects(with_status(snapshot_of(B, HISTORY), conditions=[AVAILABLE]), HISTORY)),
        report_on(set_objects(with_status(snapshot_of(B, HISTORY, [A, A, B])), HISTORY)),
    ]
    key = record(B).key
    assert list(sets_table(facts, with_namespace=False).lines()) == [
        "NAME   READY   UPDATED   REVISION   AGE   WAITING",
        "demo   3/3     3         2          59d",
        "demo   3/3     1         2          59d   the controller to take its next step",
    ]
    wide = list(sets_table(facts, with_namespace=True, wide=True).lines())
    assert wide[:2] == [
        f"NAMESPACE   NAME   READY   UPDATED   REVISION   AGE   {'KEY':<{len(key)}}   WAITING",
        f"default     demo   3/3     3         2          59d   {key}",
    ]


def test_a_set_in_a_rollout() -> None:
    leader = make_leader_statefulset(B, key=record(B).key, partition=2)
    facts, lines, data = seen(with_status(snapshot_of(B, HISTORY, [A, A, B], leader=leader)))
    assert (facts.is_settled, facts.updated) == (False, 1)
    assert lines[4:7] == [
        "0       1          Ready    1/1       59d   waiting for its turn in the rollout",
        "1       1          Ready    1/1       59d   waiting for its turn in the rollout",
        "2       2          Ready    1/1       59d",
    ]
    assert lines[-1] == "waits for the controller to take its next step"
    assert data["waitingFor"] == "the controller to take its next step"


def test_the_time_without_progress() -> None:
    leader = make_leader_statefulset(B, key=record(B).key, partition=2)
    rolling = snapshot_of(B, HISTORY, [A, A, B], leader=leader)
    stalled = {**AVAILABLE, "type": "Stalled"}
    slow = with_status(rolling, conditions=[stalled], lastProgressTime="2026-03-01T11:45:00Z")
    _, lines, _ = seen(slow)
    assert lines[-3:-1] == ["groups: 2 Outdated, 1 Ready", "last progress 15m ago"]
    limited = {**slow.lws, "spec": {**slow.lws["spec"], "progressDeadlineSeconds": 600}}
    _, lines, data = seen(replace(slow, lws=limited))
    assert lines[-2] == "last progress 15m ago; stalls after 600 s without progress"
    assert (data["stalled"], data["lastProgress"]) == (True, "2026-03-01T11:45:00Z")
    assert data["counts"] == {"Outdated": 2, "Ready": 1}
    _, lines, data = seen(rolling)
    assert lines[-2] == "groups: 2 Outdated, 1 Ready"
    assert (data["stalled"], data["lastProgress"]) == (False, None)


def test_the_controller_has_not_observed_the_set_yet() -> None:
    facts, lines, _ = seen(snapshot_of(B, HISTORY))
    assert not facts.is_settled
    assert lines[-1] == "waits for the controller to report in the status that it is done"
    late = with_status(snapshot_of(B, HISTORY), conditions=[{"type": "Available", "status": "False"}])
    facts, lines, _ = seen(late)
    assert not facts.is_settled
    assert lines[-1] == "waits for the controller to report in the status that it is done"


def test_a_truncated_list_shows_waiting_groups() -> None:
    snapshot = with_status(snapshot_of(B, HISTORY, [B, A, B, A, B, A]), conditions=[])
    facts = report_on(set_objects(snapshot, HISTORY))

    def lines(most: int) -> list[str]:
        return list(plain(status_blocks(facts, most)))[4:-3]

    assert [line.split()[0] for line in lines(4)] == ["0", "1", "3", "5", "and"]
    assert lines(4)[-1] == "and 2 more groups, 0 of them waiting"
    assert lines(2)[-1] == "and 4 more groups, 1 of them waiting"
    assert [line.split()[0] for line in lines(6)] == ["0", "1", "2", "3", "4", "5"]


def test_a_group_without_a_leader() -> None:
    facts, lines, _ = seen(with_status(snapshot_of(B, HISTORY, [B, B])))
    assert not facts.is_settled
    assert lines[6] == "2       -          Missing   0/0       -     no leader pod"
    assert lines[-1] == "waits for group 2 to be ready"


def test_a_group_that_is_not_ready() -> None:
    snapshot = with_status(snapshot_of(B, HISTORY))
    key = record(B).key
    leader = make_leader_pod(B, 1, key=key, terminating=True)
    pending = make_leader_pod(B, 2, key=key, phase="Pending")
    groups = list(snapshot.groups)
    groups[1], groups[2] = (
        replace(groups[1], leader=leader),
        replace(groups[2], leader=pending, worker_statefulset=None),
    )
    facts, lines, _ = seen(replace(snapshot, groups=tuple(groups)), pods={})
    assert [(line.leader, line.workers) for line in facts.groups] == [
        ("Ready", (0, 1)),
        ("Terminating", (0, 1)),
        ("Pending", (0, 1)),
    ]
    assert lines[-1] == "waits for groups 1 to 2 to be ready"


def test_surge_groups_are_shown_and_a_set_with_them_is_not_settled() -> None:
    leader = make_leader_statefulset(B, key=record(B).key, replicas=4)
    facts, _, _ = seen(with_status(snapshot_of(B, HISTORY, [B, B, B, B], leader=leader)))
    assert ([line.index for line in facts.groups], facts.replicas) == ([0, 1, 2, 3], 3)
    assert not facts.is_settled


def test_groups_behind_a_partition_are_settled() -> None:
    held = make_set(image="app:2", replicas=3, partition=2)
    facts, lines, _ = seen(with_status(snapshot_of(held, HISTORY, [A, A, B])))
    assert facts.is_settled
    assert "keeps its revision: below partition 2" in lines[4]


def test_a_paused_set() -> None:
    paused = make_set(image="app:2", replicas=3, rolloutStrategy={"paused": True})
    facts, lines, data = seen(with_status(snapshot_of(paused, HISTORY, [A, A, B])))
    assert lines[2] == "paused: no group is updated before `resume`"
    assert lines[-1] == "waits for the rollout to be resumed"
    assert (data["paused"], facts.is_settled) == (True, False)


def test_special_settings_of_a_set_are_shown() -> None:
    lws = make_set(image="app:2", replicas=3, podTerminationPolicy="Parallel")
    _, lines, _ = seen(with_status(snapshot_of(lws, HISTORY, [A, A, B])))
    assert lines[2] == "workers are terminated with their leader: podTerminationPolicy is Parallel"
    lws = make_set(image="app:2", replicas=3, startStrategy={"seedGroups": 2})
    lws["metadata"]["annotations"] = {NODE_RETURN_ANNOTATION: "Preferred"}
    _, lines, _ = seen(with_status(snapshot_of(lws, HISTORY, [B, B, B])))
    assert lines[2:4] == [
        "recreated pods return to their nodes if they can: node-return is Preferred",
        "groups start in waves: 2 first, then 2 times those that are ready",
    ]
    lws["metadata"]["annotations"] = {NODE_RETURN_ANNOTATION: "Required"}
    _, lines, _ = seen(with_status(snapshot_of(lws, HISTORY, [B, B, B])))
    assert lines[2] == (
        "recreated pods return to their nodes unless these are gone, cordoned, lost or excepted: "
        "node-return is Required"
    )
    lws["metadata"]["annotations"] |= {EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}
    _, lines, _ = seen(with_status(snapshot_of(lws, HISTORY, [B, B, B])))
    assert not any("return to their nodes" in line for line in lines), "the topology decides"


def test_a_set_without_groups() -> None:
    nothing = with_status(SetSnapshot(lws=B, now=snapshot_of(B, []).now))
    facts = report_on(set_objects(nothing, []))
    assert {line.why for line in facts.groups} == {"no leader pod"}
    assert not facts.is_settled
    assert status_data(facts)["revision"] is None
