"""After an incident: is the group recreated now, later, or left as it is; and what is remembered of it?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.kube.conditions import timestamp
from lws.leaderworkerset.group.restart import plan_restart
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.memory import GOING, KEPT, Members
from lws.leaderworkerset.snapshot import GroupFacts
from lws.runtime.actions import Delete, Figures, Merge, Plan, Reference, Tally
from test.unit.builders import (
    KEY,
    NOW,
    make_group,
    make_leader_pod,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
)

THEN = int(NOW.timestamp())
KILLED = {
    "status": {
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 1,
                "lastState": {
                    "terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": timestamp(NOW)}
                },
            }
        ]
    }
}
LEADER_HASH = Members.of("uid-of-pod-demo-1", ()).leader
WHY = "container main exited with code 137 (OOMKilled) and was restarted"


def group(status: dict[str, Any] | None = None, *, ready: bool = True, **spec: Any) -> GroupSnapshot:
    """Group 1 of two pods, whose worker has restarted."""
    lws = make_set(status=status, **{"replicas": 4, **spec})
    leader = make_leader_pod(lws, 1, ready=ready)
    workers = make_worker_statefulset(leader)
    pod = make_worker_pod(workers, **KILLED)
    return GroupSnapshot(lws, leader, NOW, worker_statefulset=workers, workers=(pod,))


def restarts(text: str, mark: str = "") -> dict[str, Any]:
    members = {"members": {"1": f"{LEADER_HASH}-{mark}"}} if mark else {}
    return {"restarts": {"1": text}, **members}


def decided(snapshot: GroupSnapshot) -> Plan:
    planned = plan_restart(snapshot, 2)
    assert planned is not None
    return planned


def remembered(planned: Plan) -> Any:
    """What is written into the status, after a look at the rest of the restart."""
    ((merge, delete),) = planned.sequences
    assert isinstance(merge, Merge) and isinstance(delete, Delete)
    assert (merge.target.kind, merge.target.uid, merge.subresource) == (
        "LeaderWorkerSet",
        "uid-of-set-demo",
        "status",
    )
    return merge.patch["status"]


def test_without_an_incident_nothing_is_decided() -> None:
    calm = group()
    assert (
        plan_restart(replace(calm, workers=(make_worker_pod(dict(calm.worker_statefulset or {})),)), 2)
        is None
    )


def test_the_restart_is_remembered_before_the_leader_is_deleted() -> None:
    snapshot = group()
    planned = decided(snapshot)
    assert remembered(planned) == {
        "restarts": {"1": f"1.1.{THEN}.{KEY}"},
        "members": {"1": f"{LEADER_HASH}-{GOING}"},
    }
    delete = planned.sequences[0][1]
    assert isinstance(delete, Delete)
    assert (delete.target, delete.propagation) == (Reference.to(snapshot.leader), "Foreground")
    (told,) = delete.announce
    note = f"Worker pod demo-1-1 failed, deleted leader pod demo-1 to recreate group 1: {WHY}"
    assert (told.type, told.reason, told.action, told.note) == ("Normal", "RecreateGroup", "Delete", note)
    assert (told.regarding, told.related) == (Reference.to(snapshot.lws), Reference.to(snapshot.leader))
    assert delete.tallies == (Tally("LeaderWorkerSet", "demo", "recreated", "ContainerRestarted"),)
    assert planned.figures is None


def test_a_deletion_that_failed_is_repeated_without_being_counted_again() -> None:
    for limit in (None, 1):
        more = {} if limit is None else {"maxGroupRestarts": limit}
        planned = decided(group(restarts(f"1.1.{THEN}.{KEY}", GOING), **more))
        ((delete,),) = planned.sequences
        assert isinstance(delete, Delete) and delete.target.uid == "uid-of-pod-demo-1"


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(f"1.1.{THEN - 10}.{KEY}", "2.2", id="the first delay is over"),
        pytest.param(f"7.6.{THEN - 320}.{KEY}", "8.7", id="the sixth is over"),
        pytest.param(f"7.6.{THEN - 4000}.{KEY}", "8.1", id="it was stable since"),
        pytest.param(f"7.6.{THEN}.old", "1.1", id="on another revision"),
        pytest.param("garbled", "1.1", id="garbled"),
    ],
)
def test_restarts_are_counted(stored: str, expected: str) -> None:
    found = remembered(decided(group(restarts(stored))))["restarts"]
    assert found == {"1": f"{expected}.{THEN}.{KEY}"}


def test_the_deletion_waits_for_the_back_off() -> None:
    snapshot = group(restarts(f"3.3.{THEN - 15}.{KEY}"))
    planned = decided(snapshot)
    assert (planned.sequences, planned.again_after) == ((), 25.0)
    (told,) = planned.announce
    assert (told.type, told.reason) == ("Warning", "RecreateGroupDelayed")
    assert told.note == (
        "group 1 was recreated 3 times in short order, the next time is not before 2026-03-01T12:00:25Z: "
        f"pod demo-1-1: {WHY}"
    )
    assert planned.waiting_for == f"the end of its back-off at 2026-03-01T12:00:25Z: pod demo-1-1: {WHY}"
    assert planned.figures == Figures("LeaderWorkerSet", "demo", {("delayed", ""): 1})
    later = replace(snapshot, now=NOW + timedelta(seconds=25))
    assert remembered(decided(later))["restarts"] == {"1": f"4.4.{THEN + 25}.{KEY}"}


def test_a_note_is_the_same_as_long_as_it_waits() -> None:
    snapshot = group(restarts(f"1.1.{THEN}.{KEY}"))
    notes = {
        decided(replace(snapshot, now=NOW + timedelta(seconds=passed))).announce[0].note
        for passed in range(10)
    }
    assert len(notes) == 1, "else each pass would make an Event of its own"


def test_a_worker_that_was_replaced_is_judged_once_it_has_started() -> None:
    for policy, status, waits in (
        ("RecreateGroupAfterStart", {"members": {"1": f"{LEADER_HASH}-12345678"}}, True),
        ("RecreateGroupAfterStart", {"members": {"1": "garbled"}}, False),
        ("RecreateGroupAfterStart", {"members": {"1": f"{LEADER_HASH}-{KEPT}"}}, False),
        ("RecreateGroupAfterStart", {}, False),
        ("None", {"members": {"1": f"{LEADER_HASH}-12345678"}}, False),
    ):
        started = group(status, template={"restartPolicy": policy})
        pod = make_worker_pod(dict(started.worker_statefulset or {}), phase="Pending")
        planned = plan_restart(replace(started, workers=(pod,)), 2)
        assert (planned is not None) is waits
        if planned is not None:
            assert (planned.is_empty, planned.again_after) == (True, 5.0)


# --- The limit ----------------------------------------------------------------------------------------------


def test_a_group_that_has_used_up_its_restarts_is_left_as_it_is() -> None:
    snapshot = group(restarts(f"3.3.{THEN - 900}.{KEY}"), maxGroupRestarts=3)
    planned = decided(snapshot)
    ((merge,),) = planned.sequences
    assert isinstance(merge, Merge) and merge.subresource == "status"
    assert merge.patch["status"] == {
        "restarts": {"1": f"3.3.{THEN}.{KEY}"},
        "members": {"1": f"{LEADER_HASH}-{KEPT}"},
    }
    (told,) = merge.announce
    assert (told.type, told.reason) == ("Warning", "GroupFailed")
    assert told.note == (
        "group 1 failed and is left as it is for diagnosis: it was recreated 3 times on this revision, as "
        "often as maxGroupRestarts allows; change the template, raise the limit, or delete pod demo-1; "
        f"pod demo-1-1: {WHY}"
    )


def test_that_is_told_and_written_once() -> None:
    planned = decided(group(restarts(f"3.3.{THEN}.{KEY}", KEPT), maxGroupRestarts=3))
    assert planned.is_empty and planned.again_after is None
    ways_out = "a new template, a higher maxGroupRestarts, or the deletion of pod demo-1"
    assert planned.waiting_for == f"{ways_out}: pod demo-1-1: {WHY}"


@pytest.mark.parametrize(
    ("stored", "limit", "count"),
    [
        pytest.param(restarts(f"2.2.{THEN - 900}.{KEY}"), 3, 3, id="one is left"),
        pytest.param(restarts(f"3.3.{THEN - 900}.{KEY}", KEPT), 4, 4, id="the limit was raised"),
        pytest.param(restarts(f"3.3.{THEN - 900}.{KEY}", KEPT), None, 4, id="the limit was lifted"),
        pytest.param(restarts(f"3.3.{THEN - 900}.old"), 3, 1, id="a new revision"),
        pytest.param({}, 1, 1, id="what is forgotten does not count"),
    ],
)
def test_there_is_a_way_out(stored: dict[str, Any], limit: int | None, count: int) -> None:
    spec = {} if limit is None else {"maxGroupRestarts": limit}
    found = remembered(decided(group(stored, **spec)))
    assert found["restarts"]["1"].startswith(f"{count}.")
    assert found["members"] == {"1": f"{LEADER_HASH}-{GOING}"}


def test_a_limit_of_none_at_all() -> None:
    ((merge,),) = decided(group(maxGroupRestarts=0)).sequences
    assert isinstance(merge, Merge)
    assert merge.patch["status"]["restarts"] == {"1": f"0.0.{THEN}.{KEY}"}, "it wakes the pass over the set"


# --- Evictions, preemptions, drains -------------------------------------------------------------------------

BY_API = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
NO_FAILURE = {"members": {"1": f"{LEADER_HASH}-{GOING}"}}


def evicted(snapshot: GroupSnapshot) -> GroupSnapshot:
    """The same with a worker that is being evicted."""
    workers = dict(snapshot.worker_statefulset or {})
    return replace(
        snapshot, workers=(make_worker_pod(workers, terminating=True, status={"conditions": [BY_API]}),)
    )


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        pytest.param(None, {}, id="the first time"),
        pytest.param(restarts(f"7.6.{THEN - 1}.{KEY}"), {}, id="in a back-off"),
        pytest.param(restarts(f"3.3.{THEN - 1}.{KEY}"), {"maxGroupRestarts": 3}, id="restarts used up"),
        pytest.param(None, {"maxGroupRestarts": 0}, id="no restarts at all"),
    ],
)
def test_evictions_preemptions_and_drains_wait_for_no_back_off_and_are_not_counted(
    status: dict[str, Any] | None, spec: dict[str, Any]
) -> None:
    planned = decided(evicted(group(status, **spec)))
    assert remembered(planned) == NO_FAILURE
    assert planned.announce == ()


def test_a_group_that_is_kept_for_diagnosis_stays_so_when_a_pod_is_evicted() -> None:
    kept = evicted(group(restarts(f"3.3.{THEN}.{KEY}", KEPT), maxGroupRestarts=3))
    assert decided(kept).sequences == ()


def test_a_deletion_that_failed_is_repeated_as_it_was_begun() -> None:
    planned = decided(evicted(group({"members": {"1": f"{LEADER_HASH}-{GOING}"}})))
    ((delete,),) = planned.sequences
    assert isinstance(delete, Delete)


def test_what_the_eviction_has_caused_is_not_counted_when_the_manager_comes_back_to_it() -> None:
    """Its predecessor had written that the group goes, and was gone before it did it."""
    before = group({"members": {"1": f"{LEADER_HASH}-{GOING}"}})
    planned = decided(replace(before, workers=(make_worker_pod(dict(before.worker_statefulset or {})),)))
    ((delete,),) = planned.sequences
    assert isinstance(delete, Delete)


# --- The budget of a rollout --------------------------------------------------------------------------------


def among(snapshot: GroupSnapshot, *others: GroupFacts) -> GroupSnapshot:
    own = GroupFacts(1, snapshot.leader, snapshot.worker_statefulset)
    return replace(snapshot, siblings=(own, *others), wanted_key=KEY)


OLD, DOWN = {"key": "old"}, {"ready": False}


def others(*special: dict[str, Any]) -> tuple[GroupFacts, ...]:
    return tuple(make_group(None, index, **each) for index, each in zip((0, 2, 3, 4), special, strict=False))


@pytest.mark.parametrize(
    ("snapshot", "goes"),
    [
        pytest.param(among(group(), *others(OLD, {}, {})), True, id="all others are ready"),
        pytest.param(among(group(), *others(OLD, {}, DOWN)), False, id="one is down: that is the budget"),
        pytest.param(among(group(), *others(OLD, {})), False, id="one is missing"),
        pytest.param(
            among(group(), *others(OLD, {}, {"terminating": True})), False, id="one is being replaced"
        ),
        pytest.param(among(group(), *others({}, {}, DOWN)), True, id="there is no rollout"),
        pytest.param(among(group(ready=False), *others(OLD, {}, DOWN)), True, id="it is down itself"),
        pytest.param(among(group(max_unavailable=2), *others(OLD, {}, DOWN)), True, id="two may be down"),
        pytest.param(among(group(max_unavailable=0), *others(OLD, {}, {})), True, id="one may always be"),
        pytest.param(among(group(max_unavailable=0), *others(OLD, {}, DOWN)), False, id="but no second one"),
        pytest.param(among(group(), *others(OLD, {}, {}, DOWN)), True, id="surge is not missed"),
        pytest.param(among(group(replicas=1)), True, id="a set of one"),
        pytest.param(group(), True, id="nothing is known of the others"),
    ],
)
def test_during_a_rollout_a_group_that_serves_goes_only_within_the_budget(
    snapshot: GroupSnapshot, goes: bool
) -> None:
    planned = decided(snapshot)
    assert bool(planned.sequences) is goes
    assert planned.again_after == (None if goes else 5.0)
    assert bool(planned.waiting_for) is not goes


def test_a_restart_waits_for_a_stuck_rollout_as_long_as_for_the_longest_back_off_and_not_longer() -> None:
    stuck = among(group(), *others(OLD, {}, DOWN))
    for seconds, again_after in ((0, 5.0), (590, 5.0), (598, 2.0)):
        planned = decided(replace(stuck, now=NOW + timedelta(seconds=seconds)))
        assert (planned.sequences, planned.again_after) == ((), again_after)
        assert planned.waiting_for.endswith("is recreated, at the latest at 2026-03-01T12:10:00Z")
    planned = decided(replace(stuck, now=NOW + timedelta(seconds=600)))
    assert remembered(planned)["restarts"] == {"1": f"1.1.{THEN + 600}.{KEY}"}


def _made(seconds: int, **changes: Any) -> dict[str, Any]:
    return {"creationTimestamp": timestamp(NOW + timedelta(seconds=seconds)), **changes}


@pytest.mark.parametrize(
    ("metadata", "going", "until"),
    [
        pytest.param(_made(-900), False, 600, id="the group that is down has been so for long"),
        pytest.param(_made(500), False, 1100, id="it was made anew, as this one is to be"),
        pytest.param(_made(-900), True, 1230, id="it goes at this moment"),
        pytest.param(
            _made(
                -900, deletionTimestamp=timestamp(NOW + timedelta(seconds=630)), deletionGracePeriodSeconds=30
            ),
            False,
            1200,
            id="it goes since then",
        ),
        pytest.param(_made(3000), False, 2400, id="no group waits for more turns than there are groups"),
    ],
)
def test_groups_that_have_waited_for_a_stuck_rollout_go_one_at_a_time(
    metadata: dict[str, Any], going: bool, until: int
) -> None:
    *rest, down = others(OLD, {}, DOWN)
    leader = {**down.leader, "metadata": {**down.leader["metadata"], **metadata}}
    stuck = among(group(), *rest, replace(down, leader=leader, going=going))
    planned = decided(replace(stuck, now=NOW + timedelta(seconds=630)))
    latest = timestamp(NOW + timedelta(seconds=until))
    assert bool(planned.sequences) is (until <= 630)
    assert planned.sequences or planned.waiting_for.endswith(f"at the latest at {latest}")
