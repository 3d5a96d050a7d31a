"""Tests that a group is recreated now, later or never after an incident, and that the status records it."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lws.kube.conditions import timestamp
from lws.leaderworkerset.group.restart import plan_restart
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.group_records import DELETING, KEPT
from lws.leaderworkerset.restart_counts import increment, is_counted
from lws.leaderworkerset.snapshot import GroupFacts
from lws.runtime.actions import Delete, Figures, Merge, Plan, Reference, Tally
from lws_api.leaderworkerset.v1 import GROUP_RESTART_COUNTS_ANNOTATION
from test.unit.builders import (
    KEY,
    LONG_AGO,
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
WHY = "container main exited with code 137 (OOMKilled) and was restarted"


def group(status: dict[str, Any] | None = None, *, ready: bool = True, **spec: Any) -> GroupSnapshot:
    """Return group 1 of two pods, whose worker has restarted."""
    lws = make_set(status=status, **{"replicas": 4, **spec})
    leader = make_leader_pod(lws, 1, ready=ready)
    workers = make_worker_statefulset(leader)
    pod = make_worker_pod(workers, **KILLED)
    return GroupSnapshot(lws, leader, NOW, worker_statefulset=workers, worker_pods=(pod,))


def marked(mark: str) -> str:
    """Return a record with a mark, as all releases read it."""
    return f"{hashlib.sha256(b'uid-of-pod-demo-1').hexdigest()[:8]}-{mark}"


def status_with_restarts(text: str, mark: str = "") -> dict[str, Any]:
    members = {"members": {"1": marked(mark)}} if mark else {}
    return {"restarts": {"1": text}, **members}


def decided(snapshot: GroupSnapshot) -> Plan:
    planned = plan_restart(snapshot, 2)
    assert planned is not None
    return planned


def records_in(planned: Plan) -> Any:
    """Return what is written into the status, after a check of the other actions of the restart."""
    ((merge, *deletes),) = planned.sequences
    assert isinstance(merge, Merge) and {type(delete) for delete in deletes} == {Delete}
    assert (merge.target.kind, merge.target.uid, merge.subresource) == (
        "LeaderWorkerSet",
        "uid-of-set-demo",
        "status",
    )
    return merge.patch["status"]


def test_no_restart_without_an_incident() -> None:
    calm = group()
    assert (
        plan_restart(replace(calm, worker_pods=(make_worker_pod(dict(calm.worker_statefulset or {})),)), 2)
        is None
    )


def test_the_restart_is_recorded_before_the_leader_is_deleted() -> None:
    snapshot = group()
    planned = decided(snapshot)
    assert records_in(planned) == {
        "restarts": {"1": f"1.1.{THEN}.{KEY}"},
        "members": {"1": marked(DELETING)},
    }
    delete, workers = planned.sequences[0][1:]
    assert isinstance(delete, Delete) and isinstance(workers, Delete)
    assert (delete.target, delete.propagation) == (Reference.to(snapshot.leader), "Background")
    assert snapshot.worker_statefulset is not None
    assert (workers.target, workers.propagation) == (
        Reference.to(snapshot.worker_statefulset),
        "Background",
    )
    (event,) = delete.announce
    note = f"Worker pod demo-1-1 failed, deleted leader pod demo-1 to recreate group 1: {WHY}"
    assert (event.type, event.reason, event.action, event.note) == ("Normal", "RecreateGroup", "Delete", note)
    assert (event.regarding, event.related) == (Reference.to(snapshot.lws), Reference.to(snapshot.leader))
    assert delete.tallies == (Tally("LeaderWorkerSet", "demo", "recreated", "ContainerRestarted"),)
    assert planned.figures is None


def test_a_failed_deletion_is_retried_without_another_count() -> None:
    for limit in (None, 1):
        more = {} if limit is None else {"maxGroupRestarts": limit}
        planned = decided(group(status_with_restarts(f"1.1.{THEN}.{KEY}", DELETING), **more))
        ((delete, workers),) = planned.sequences
        assert isinstance(delete, Delete) and delete.target.uid == "uid-of-pod-demo-1"
        assert isinstance(workers, Delete) and workers.target.kind == "StatefulSet"


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(f"1.1.{THEN - 10}.{KEY}", "2.2", id="the first delay is over"),
        pytest.param(f"7.6.{THEN - 320}.{KEY}", "8.7", id="the sixth is over"),
        pytest.param(f"7.6.{THEN - 4000}.{KEY}", "8.1", id="stable since the last restart"),
        pytest.param(f"7.6.{THEN}.old", "1.1", id="on another revision"),
        pytest.param("garbled", "1.1", id="garbled"),
    ],
)
def test_restarts_are_counted(stored: str, expected: str) -> None:
    restarts = records_in(decided(group(status_with_restarts(stored))))["restarts"]
    assert restarts == {"1": f"{expected}.{THEN}.{KEY}"}


def test_the_deletion_waits_for_the_back_off() -> None:
    snapshot = group(status_with_restarts(f"3.3.{THEN - 15}.{KEY}"))
    planned = decided(snapshot)
    assert (planned.sequences, planned.again_after) == ((), 25.0)
    (event,) = planned.announce
    assert (event.type, event.reason) == ("Warning", "RecreateGroupDelayed")
    assert event.note == (
        "group 1 was recreated 3 times in quick succession; next attempt not before 2026-03-01T12:00:25Z: "
        f"pod demo-1-1: {WHY}"
    )
    assert planned.waiting_for == f"the end of its backoff at 2026-03-01T12:00:25Z: pod demo-1-1: {WHY}"
    assert planned.figures == Figures("LeaderWorkerSet", "demo", {("delayed", ""): 1})
    later = replace(snapshot, now=NOW + timedelta(seconds=25))
    assert records_in(decided(later))["restarts"] == {"1": f"4.4.{THEN + 25}.{KEY}"}


def test_the_note_does_not_change_during_the_backoff() -> None:
    snapshot = group(status_with_restarts(f"1.1.{THEN}.{KEY}"))
    notes = {
        decided(replace(snapshot, now=NOW + timedelta(seconds=passed))).announce[0].note
        for passed in range(10)
    }
    assert len(notes) == 1, "otherwise each pass would emit an Event of its own"


def test_a_replaced_worker_is_evaluated_after_its_start() -> None:
    for policy, status, waits in (
        ("RecreateGroupAfterStart", {"members": {"1": marked("12345678")}}, True),
        ("RecreateGroupAfterStart", {"members": {"1": "garbled"}}, False),
        ("RecreateGroupAfterStart", {"members": {"1": marked(KEPT)}}, False),
        ("RecreateGroupAfterStart", {}, False),
        ("None", {"members": {"1": marked("12345678")}}, False),
    ):
        started = group(status, template={"restartPolicy": policy})
        pod = make_worker_pod(dict(started.worker_statefulset or {}), phase="Pending")
        planned = plan_restart(replace(started, worker_pods=(pod,)), 2)
        assert (planned is not None) is waits
        if planned is not None:
            assert (planned.is_empty, planned.again_after) == (True, 5.0)


# --- The limit ----------------------------------------------------------------------------------------------


def test_a_group_without_remaining_restarts_is_kept() -> None:
    snapshot = group(status_with_restarts(f"3.3.{THEN - 900}.{KEY}"), maxGroupRestarts=3)
    planned = decided(snapshot)
    ((merge,),) = planned.sequences
    assert isinstance(merge, Merge) and merge.subresource == "status"
    assert merge.patch["status"] == {
        "restarts": {"1": f"3.3.{THEN}.{KEY}"},
        "members": {"1": marked(KEPT)},
    }
    (event,) = merge.announce
    assert (event.type, event.reason) == ("Warning", "GroupFailed")
    assert event.note == (
        "group 1 failed and is left as it is for diagnosis: it was recreated 3 times on this revision, as "
        "often as maxGroupRestarts allows; change the template, raise the limit, or delete pod demo-1; "
        f"pod demo-1-1: {WHY}"
    )


def test_exhaustion_is_reported_and_recorded_once() -> None:
    planned = decided(group(status_with_restarts(f"3.3.{THEN}.{KEY}", KEPT), maxGroupRestarts=3))
    assert planned.is_empty and planned.again_after is None
    ways_out = "a new template, a higher maxGroupRestarts, or the deletion of pod demo-1"
    assert planned.waiting_for == f"{ways_out}: pod demo-1-1: {WHY}"


@pytest.mark.parametrize(
    ("stored", "limit", "count"),
    [
        pytest.param(status_with_restarts(f"2.2.{THEN - 900}.{KEY}"), 3, 3, id="one restart is left"),
        pytest.param(status_with_restarts(f"3.3.{THEN - 900}.{KEY}", KEPT), 4, 4, id="the limit was raised"),
        pytest.param(
            status_with_restarts(f"3.3.{THEN - 900}.{KEY}", KEPT), None, 4, id="the limit was lifted"
        ),
        pytest.param(status_with_restarts(f"3.3.{THEN - 900}.old"), 3, 1, id="a new revision"),
        pytest.param({}, 1, 1, id="record of a former leader"),
    ],
)
def test_an_exhausted_group_restarts_again(stored: dict[str, Any], limit: int | None, count: int) -> None:
    spec = {} if limit is None else {"maxGroupRestarts": limit}
    records = records_in(decided(group(stored, **spec)))
    assert records["restarts"]["1"].startswith(f"{count}.")
    assert records["members"] == {"1": marked(DELETING)}


def test_limit_0() -> None:
    ((merge,),) = decided(group(maxGroupRestarts=0)).sequences
    assert isinstance(merge, Merge)
    assert merge.patch["status"]["restarts"] == {"1": f"0.0.{THEN}.{KEY}"}, "it wakes the pass over the set"


# --- Evictions, preemptions, drains -------------------------------------------------------------------------

BY_API = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
NO_FAILURE = {"members": {"1": marked(DELETING)}}


def evicted(snapshot: GroupSnapshot) -> GroupSnapshot:
    """Return the group with a worker that is being evicted."""
    workers = dict(snapshot.worker_statefulset or {})
    return replace(
        snapshot, worker_pods=(make_worker_pod(workers, terminating=True, status={"conditions": [BY_API]}),)
    )


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        pytest.param(None, {}, id="the first time"),
        pytest.param(status_with_restarts(f"7.6.{THEN - 1}.{KEY}"), {}, id="in a back-off"),
        pytest.param(
            status_with_restarts(f"3.3.{THEN - 1}.{KEY}"), {"maxGroupRestarts": 3}, id="restarts used up"
        ),
        pytest.param(None, {"maxGroupRestarts": 0}, id="no restarts at all"),
    ],
)
def test_disruptions_are_not_delayed_and_not_counted(
    status: dict[str, Any] | None, spec: dict[str, Any]
) -> None:
    planned = decided(evicted(group(status, **spec)))
    assert records_in(planned) == NO_FAILURE
    assert planned.announce == ()


def test_a_group_kept_for_diagnosis_is_kept_after_an_eviction() -> None:
    snapshot = evicted(group(status_with_restarts(f"3.3.{THEN}.{KEY}", KEPT), maxGroupRestarts=3))
    assert decided(snapshot).sequences == ()


def test_a_failed_deletion_is_retried_unchanged() -> None:
    planned = decided(evicted(group({"members": {"1": marked(DELETING)}})))
    ((delete, workers),) = planned.sequences
    assert isinstance(delete, Delete) and isinstance(workers, Delete)


def test_consequences_of_an_eviction_are_not_counted_after_a_manager_restart() -> None:
    """The former manager recorded the restart, and ended before it executed it."""
    before = group({"members": {"1": marked(DELETING)}})
    planned = decided(replace(before, worker_pods=(make_worker_pod(dict(before.worker_statefulset or {})),)))
    ((delete, workers),) = planned.sequences
    assert isinstance(delete, Delete) and isinstance(workers, Delete)


# --- The budget of a rollout --------------------------------------------------------------------------------


def with_other_groups(snapshot: GroupSnapshot, *others: GroupFacts) -> GroupSnapshot:
    own = GroupFacts(1, snapshot.leader, snapshot.worker_statefulset)
    return replace(snapshot, siblings=(own, *others), target_key=KEY, failed_since=NOW)


OLD, DOWN = {"key": "old"}, {"ready": False}


def other_groups(*special: dict[str, Any]) -> tuple[GroupFacts, ...]:
    return tuple(
        make_group(None, index, **options) for index, options in zip((0, 2, 3, 4), special, strict=False)
    )


@pytest.mark.parametrize(
    ("snapshot", "restarts"),
    [
        pytest.param(with_other_groups(group(), *other_groups(OLD, {}, {})), True, id="all others are ready"),
        pytest.param(
            with_other_groups(group(), *other_groups(OLD, {}, DOWN)),
            False,
            id="one is down, which uses up the budget",
        ),
        pytest.param(with_other_groups(group(), *other_groups(OLD, {})), False, id="one is missing"),
        pytest.param(
            with_other_groups(group(), *other_groups(OLD, {}, {"terminating": True})),
            False,
            id="one is being replaced",
        ),
        pytest.param(with_other_groups(group(), *other_groups({}, {}, DOWN)), True, id="there is no rollout"),
        pytest.param(
            with_other_groups(group(ready=False), *other_groups(OLD, {}, DOWN)), True, id="it is down itself"
        ),
        pytest.param(
            with_other_groups(group(max_unavailable=2), *other_groups(OLD, {}, DOWN)),
            True,
            id="two may be down",
        ),
        pytest.param(
            with_other_groups(group(max_unavailable=0), *other_groups(OLD, {}, {})),
            True,
            id="at least one may be down",
        ),
        pytest.param(
            with_other_groups(group(max_unavailable=0), *other_groups(OLD, {}, DOWN)),
            False,
            id="no second one",
        ),
        pytest.param(
            with_other_groups(group(), *other_groups(OLD, {}, {}, DOWN)), True, id="a missing surge group"
        ),
        pytest.param(with_other_groups(group(replicas=1)), True, id="a set of one"),
        pytest.param(group(), True, id="the other groups are unknown"),
    ],
)
def test_a_ready_group_is_restarted_during_a_rollout_only_within_the_budget(
    snapshot: GroupSnapshot, restarts: bool
) -> None:
    planned = decided(snapshot)
    assert bool(planned.sequences) is restarts
    assert planned.again_after == (None if restarts else 5.0)
    assert bool(planned.waiting_for) is not restarts


def test_a_restart_waits_for_a_stuck_rollout_at_most_as_long_as_the_longest_backoff() -> None:
    stuck = with_other_groups(group(), *other_groups(OLD, {}, DOWN))
    for seconds, again_after in ((0, 5.0), (590, 5.0), (598, 2.0)):
        planned = decided(replace(stuck, now=NOW + timedelta(seconds=seconds)))
        assert (planned.sequences, planned.again_after) == ((), again_after)
        assert planned.waiting_for.endswith("is recreated, at the latest at 2026-03-01T12:10:00Z")
    planned = decided(replace(stuck, now=NOW + timedelta(seconds=600)))
    assert records_in(planned)["restarts"] == {"1": f"1.1.{THEN + 600}.{KEY}"}


def _created(seconds: int, **changes: Any) -> dict[str, Any]:
    return {"creationTimestamp": timestamp(NOW + timedelta(seconds=seconds)), **changes}


@pytest.mark.parametrize(
    ("metadata", "is_deleted", "until"),
    [
        pytest.param(_created(-900), False, 600, id="the unready group is down for long"),
        pytest.param(_created(500), False, 1100, id="the unready group was recreated"),
        pytest.param(_created(-900), True, 1230, id="the unready group is deleted now"),
        pytest.param(
            _created(
                -900, deletionTimestamp=timestamp(NOW + timedelta(seconds=630)), deletionGracePeriodSeconds=30
            ),
            False,
            1200,
            id="the unready group is terminating",
        ),
        pytest.param(_created(3000), False, 2400, id="the wait is limited by the number of groups"),
    ],
)
def test_groups_that_waited_for_a_stuck_rollout_restart_one_at_a_time(
    metadata: dict[str, Any], is_deleted: bool, until: int
) -> None:
    *others, down = other_groups(OLD, {}, DOWN)
    leader = {**down.leader, "metadata": {**down.leader["metadata"], **metadata}}
    stuck = with_other_groups(group(), *others, replace(down, leader=leader, is_being_deleted=is_deleted))
    planned = decided(replace(stuck, now=NOW + timedelta(seconds=630)))
    latest = timestamp(NOW + timedelta(seconds=until))
    assert bool(planned.sequences) is (until <= 630)
    assert planned.sequences or planned.waiting_for.endswith(f"at the latest at {latest}")


def test_the_wait_for_a_stuck_rollout_ends_within_the_calendar() -> None:
    stuck = with_other_groups(group(replicas=2**31 - 1), *other_groups(OLD, {}, DOWN))
    assert decided(stuck).waiting_for.endswith("at the latest at 2026-03-01T12:10:00Z")


@pytest.mark.parametrize("ended", [timestamp(NOW + timedelta(days=400)), "9999-12-31T23:59:59Z", "", "x"])
def test_the_clock_of_a_node_neither_extends_nor_ends_the_wait_for_a_stuck_rollout(ended: str) -> None:
    stuck = with_other_groups(group(), *other_groups(OLD, {}, DOWN))
    (pod,) = copy.deepcopy(stuck.worker_pods)
    pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["finishedAt"] = ended
    planned = decided(replace(stuck, worker_pods=(pod,)))
    assert planned.waiting_for.endswith("at the latest at 2026-03-01T12:10:00Z")


# --- Upstream's limit and wait ------------------------------------------------------------------------------

CREATED = int(datetime.fromisoformat(LONG_AGO).timestamp())


def counted(counts: str | None = None, *, age: int | None = None, **template: Any) -> GroupSnapshot:
    """Return group 1 of a set that counts by upstream's rules.

    age: seconds since its leader was created.
    """
    annotations = {GROUP_RESTART_COUNTS_ANNOTATION: counts} if counts is not None else None
    snapshot = group(template=template, annotations=annotations)
    return replace(snapshot, now=NOW if age is None else datetime.fromtimestamp(CREATED + age, UTC))


def count_written(planned: Plan) -> Any:
    """Return the count, which is stored first, after a check of the other actions of the restart."""
    ((count, mark, delete, _),) = planned.sequences
    assert isinstance(count, Merge) and isinstance(mark, Merge) and isinstance(delete, Delete)
    assert (count.subresource, mark.subresource, delete.announce[0].reason) == ("", "status", "RecreateGroup")
    return count.patch["metadata"]["annotations"][GROUP_RESTART_COUNTS_ANNOTATION]


def ends(planned: Plan) -> bool:
    return planned.sequences[-1][-1].announce[0].reason == "ReplicaRestartBudgetExceeded"


@pytest.mark.parametrize(
    ("limit", "counts", "expected"),
    [
        pytest.param(2, None, f'{{"{KEY}/1":1}}', id="the first"),
        pytest.param(2, f'{{"{KEY}/1":1}}', f'{{"{KEY}/1":2}}', id="the last"),
        pytest.param(2, f'{{"{KEY}/1":2}}', None, id="used up"),
        pytest.param(1, f'{{"{KEY}/1":2}}', None, id="the limit was lowered"),
        pytest.param(0, None, None, id="limit 0"),
        pytest.param(1, '{"key-b/1":1}', f'{{"{KEY}/1":1,"key-b/1":1}}', id="on another revision"),
        pytest.param(1, f'{{"{KEY}/0":1}}', f'{{"{KEY}/0":1,"{KEY}/1":1}}', id="of another group"),
    ],
)
def test_a_limit_in_the_template_ends_the_group(limit: int, counts: str | None, expected: str | None) -> None:
    planned = decided(counted(counts, maxGroupRestarts=limit))
    if expected is None:
        assert ends(planned)
    else:
        assert count_written(planned) == expected


def test_upstream_counts_need_a_limit_or_backoff() -> None:
    planned = decided(counted(f'{{"{KEY}/1":9}}'))
    assert [type(action) for action in planned.sequences[0]] == [Merge, Delete, Delete]


def test_our_limit_is_independent_of_upstream_counts() -> None:
    limits: dict[str, Any] = {"maxGroupRestarts": 3, "template": {"maxGroupRestarts": 3}}
    snapshot = group(status_with_restarts(f"3.3.{THEN - 900}.{KEY}"), **limits)
    ((merge,),) = decided(snapshot).sequences
    assert isinstance(merge, Merge) and merge.announce[0].reason == "GroupFailed"


def test_unreadable_counts_stop_every_restart() -> None:
    planned = decided(counted("[]", maxGroupRestarts=1))
    assert planned.is_empty and planned.again_after == 30.0
    assert "invalid group restart counts: expected a JSON object" in planned.waiting_for


def test_disruptions_are_not_in_upstream_counts() -> None:
    evicted_group = evicted(counted(f'{{"{KEY}/1":1}}', maxGroupRestarts=1))
    assert [type(action) for action in decided(evicted_group).sequences[0]] == [Merge, Delete, Delete]


def test_the_count_is_raised_once_for_a_failed_deletion() -> None:
    snapshot = counted(f'{{"{KEY}/1":1}}', maxGroupRestarts=1)
    recorded = {**snapshot.lws, "status": {"members": {"1": marked(DELETING)}}}
    ((delete, _),) = decided(replace(snapshot, lws=recorded)).sequences
    assert isinstance(delete, Delete) and delete.announce[0].reason == "RecreateGroup"


@pytest.mark.parametrize(
    "template",
    [{"maxGroupRestarts": 1}, {"maxGroupRestarts": 0}, {"restartBackoff": {}}, {"maxGroupRestarts": 9}],
)
def test_a_restart_counted_before_a_cut_is_completed(template: dict[str, Any]) -> None:
    """Neither the limit nor a wait applies to it again."""
    snapshot = counted(f'{{"{KEY}/1":1}}', age=0, **template)
    annotations = increment(snapshot.lws, snapshot.leader, ()).patch["metadata"]["annotations"]
    lws = {**snapshot.lws, "metadata": {**snapshot.lws["metadata"], "annotations": annotations}}
    ((record, delete, _),) = decided(replace(snapshot, lws=lws)).sequences
    assert isinstance(record, Merge) and record.subresource == "status"
    assert isinstance(delete, Delete) and delete.announce[0].reason == "RecreateGroup"
    another = {**snapshot.leader, "metadata": {**snapshot.leader["metadata"], "uid": "another"}}
    assert not is_counted(lws, another), "the next leader is another incarnation"


def test_our_backoff_applies_without_restart_backoff() -> None:
    snapshot = counted(f'{{"{KEY}/1":3}}', maxGroupRestarts=9)
    waiting = {**snapshot.lws, "status": status_with_restarts(f"3.3.{THEN - 15}.{KEY}")}
    assert decided(replace(snapshot, lws=waiting)).again_after == 25.0


@pytest.mark.parametrize(
    ("count", "seconds"), [(0, 10), (1, 20), (2, 40), (3, 80), (4, 160), (5, 300), (30, 300), (999, 300)]
)
def test_the_wait_doubles_from_the_creation_of_the_leader(count: int, seconds: int) -> None:
    counts = f'{{"{KEY}/1":{count}}}'
    early = decided(counted(counts, age=seconds - 1, restartBackoff={}))
    assert (early.sequences, early.again_after) == ((), 1.0)
    assert early.announce[0].reason == "RecreateGroupDelayed"
    late = decided(counted(counts, age=seconds, restartBackoff={}))
    assert count_written(late) == f'{{"{KEY}/1":{count + 1}}}'


def test_an_api_server_whose_clock_is_ahead_does_not_extend_the_wait() -> None:
    """The leader was created an hour later, by the clock of the API server, than it failed by ours."""
    snapshot = counted(f'{{"{KEY}/1":1}}', age=-3600 + 19, restartBackoff={})
    failed_since = datetime.fromtimestamp(CREATED - 3600, UTC)
    assert decided(replace(snapshot, failed_since=failed_since)).again_after == 1.0


def test_restart_backoff_replaces_our_backoff() -> None:
    snapshot = counted(None, age=3600, restartBackoff={"baseSeconds": 5, "capSeconds": 60})
    waiting = {**snapshot.lws, "status": status_with_restarts(f"6.6.{CREATED + 3590}.{KEY}")}
    assert count_written(decided(replace(snapshot, lws=waiting))) == f'{{"{KEY}/1":1}}'


def test_a_deletion_at_the_limit_is_not_delayed() -> None:
    assert ends(decided(counted(f'{{"{KEY}/1":1}}', age=0, maxGroupRestarts=1, restartBackoff={})))


@pytest.mark.parametrize(
    ("count", "times"),
    [(0, "0 times"), (1, "once"), (2, "2 times")],
)
def test_the_waiting_reason_contains_the_number_of_recreations(count: int, times: str) -> None:
    (event,) = decided(counted(f'{{"{KEY}/1":{count}}}', age=0, restartBackoff={})).announce
    assert event.note.startswith(f"group 1 was recreated {times} on this revision; next attempt not before ")
