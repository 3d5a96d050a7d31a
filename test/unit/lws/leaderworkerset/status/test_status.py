"""Tests of counters, conditions and Events of a set."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from lws.kube.pods import NodeWait
from lws.leaderworkerset.group_records import KEPT, Members, Restarts, record_patch
from lws.leaderworkerset.rollout.state import Budget, RolloutState
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.leaderworkerset.status.status import SetStatus, StatusInput, figures_of, set_status
from lws.runtime.actions import Problem
from lws_api.leaderworkerset.v1 import RESTART_BUDGET_EXHAUSTED_ANNOTATION, RESTART_BUDGET_FINALIZER
from test.unit.builders import KEY, NOW, make_group, make_leader_pod, make_leader_statefulset, make_set
from test.unit.stories.letters import groups

BEFORE = "2026-02-01T00:00:00Z"
JUST_NOW = "2026-03-01T12:00:00Z"
SELECTOR = "leaderworkerset.sigs.k8s.io/name=demo,leaderworkerset.sigs.k8s.io/worker-index=0"

AVAILABLE = ("Available", "True", "AllGroupsReady", "All replicas are ready")
PROGRESSING = ("Progressing", "True", "GroupsProgressing", "Replicas are progressing")
UPDATING = ("UpdateInProgress", "True", "GroupsUpdating", "Rolling Upgrade is in progress")
NOT_PROGRESSING = ("Progressing", "False", "GroupsProgressing", "No group is being created or replaced")
NOT_UPDATING = ("UpdateInProgress", "False", "GroupsUpdating", "No group is waiting to be updated")


def not_available(message: str) -> tuple[str, str, str, str]:
    return ("Available", "False", "AllGroupsReady", message)


def not_updated(count: int) -> tuple[str, str, str, str]:
    return not_available(f"All groups are ready, {count} of 4 groups are on the target revision")


def condition(fields: tuple[str, str, str, str], since: str = BEFORE, generation: int = 3) -> dict[str, Any]:
    return {
        "type": fields[0],
        "status": fields[1],
        "reason": fields[2],
        "message": fields[3],
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def status_of(letters: str, *stored: tuple[str, str, str, str], replicas: int = 4, **more: Any) -> SetStatus:
    conditions = [condition(fields) for fields in stored]
    lws = make_set(replicas=replicas, generation=3, status={"conditions": conditions} if stored else None)
    return set_status(observed(lws, letters, **more))


def observed(
    lws: dict[str, Any],
    letters: str,
    *,
    existing: int | None = None,
    now: datetime = NOW,
    floor: int = 0,
    facts: Iterable[GroupFacts] = (),
    waits: tuple[NodeWait, ...] = (),
    exhausted: Iterable[int] = (),
    out_of_restarts: Iterable[int] = (),
    **decided: Any,
) -> StatusInput:
    """Return what a pass over these groups observes and decides.

    existing: number of groups in the status of the leader StatefulSet; by default the number of letters.
    waits: those of the pods of the last group.
    exhausted: groups that have used up their restarts by upstream's rules.
    out_of_restarts: groups that have used up `spec.maxGroupRestarts`.
    """
    known = [*facts, *map(exhausted_group, exhausted)]
    known += [replace(make_group(index=len(letters) - 1), waits=waits)] if waits else []
    for index in out_of_restarts:
        lws = with_restarts_used_up(lws, index)
        known.append(make_group(index=index))
    count = len(letters) if existing is None else existing
    leaders = make_leader_statefulset(lws, status={"replicas": count})
    snapshot = SetSnapshot(lws, now, leaders=leaders, groups=tuple(known))
    spec = snapshot.spec
    rollout = RolloutState(spec.replicas, Budget(1, 0), floor, groups(letters), paused=spec.paused)
    return StatusInput(snapshot, rollout, **decided)


def exhausted_group(index: int) -> GroupFacts:
    group = make_group(index=index, annotations={RESTART_BUDGET_EXHAUSTED_ANNOTATION: "true"})
    group.leader["metadata"]["finalizers"] = [RESTART_BUDGET_FINALIZER]
    return group


def with_restarts_used_up(lws: dict[str, Any], index: int) -> dict[str, Any]:
    record = record_patch(index, make_leader_pod(index=index), Restarts(2, key=KEY), KEPT)
    spec = {**lws["spec"], "maxGroupRestarts": 2}
    return {**lws, "spec": spec, "status": {**lws.get("status", {}), **record}}


def beside_degraded(status: SetStatus) -> list[Any]:
    """Return the conditions without Degraded, which every set has, and Reconciling, a copy of Progressing."""
    return [
        entry for entry in status.intended["conditions"] if entry["type"] not in ("Degraded", "Reconciling")
    ]


def conditions_in(status: SetStatus) -> list[tuple[str, str, str, str]]:
    return [
        (entry["type"], entry["status"], entry["reason"], entry["message"])
        for entry in beside_degraded(status)
    ]


@pytest.mark.parametrize(
    ("letters", "stored", "expected"),
    [
        pytest.param("uuuu", [], [PROGRESSING], id="created: no condition that was never true"),
        pytest.param("----", [], [PROGRESSING], id="created: no pod yet"),
        pytest.param("RRRR", [PROGRESSING], [NOT_PROGRESSING, AVAILABLE], id="all ready"),
        pytest.param("RRRR", [], [NOT_PROGRESSING, AVAILABLE], id="all ready before the first status"),
        pytest.param(
            "rrrr",
            [NOT_PROGRESSING, AVAILABLE],
            [PROGRESSING, not_updated(0), UPDATING],
            id="an update begins: all at once",
        ),
        pytest.param(
            "rrtR",
            [PROGRESSING, not_available("All of them"), UPDATING],
            [PROGRESSING, not_available("3 of 4 groups are ready"), UPDATING],
            id="it continues",
        ),
        pytest.param(
            "-RRR",
            [PROGRESSING, not_available(""), UPDATING],
            [PROGRESSING, not_available("3 of 4 groups are ready"), UPDATING],
            id="the last group is being created: still an update",
        ),
        pytest.param(
            "RRRR",
            [PROGRESSING, not_available(""), UPDATING],
            [NOT_PROGRESSING, AVAILABLE, NOT_UPDATING],
            id="the update is done",
        ),
        pytest.param(
            "RRRu",
            [NOT_PROGRESSING, AVAILABLE, NOT_UPDATING],
            [PROGRESSING, not_available("3 of 4 groups are ready"), NOT_UPDATING],
            id="a group fails at rest: no update",
        ),
        pytest.param("RRRRu", [PROGRESSING], [NOT_PROGRESSING, AVAILABLE], id="surge does not count"),
    ],
)
def test_conditions(letters: str, stored: list[Any], expected: list[Any]) -> None:
    assert conditions_in(status_of(letters, *stored)) == expected


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        pytest.param("rrRR", [NOT_PROGRESSING, AVAILABLE, NOT_UPDATING], id="all in scope updated"),
        pytest.param(
            "rrrR",
            [PROGRESSING, not_updated(1), UPDATING],
            id="one in scope outdated",
        ),
        pytest.param(
            "xrRR",
            [PROGRESSING, not_available("3 of 4 groups are ready"), UPDATING],
            id="all in scope updated, a group out of scope is broken",
        ),
    ],
)
def test_with_a_partition_only_groups_in_scope_are_updated(letters: str, expected: list[Any]) -> None:
    status = status_of(letters, PROGRESSING, not_available(""), UPDATING, floor=2)
    assert conditions_in(status) == expected


def upstream_conditions(stored: dict[str, tuple[str, str]], letters: str, floor: int) -> None:
    """Update the conditions, type → (status, reason), as upstream does until nothing changes."""
    total, letter_of = 4, dict(enumerate(letters[:4]))
    scope = [letter for index, letter in letter_of.items() if index >= floor and letter != "-"]
    if sum(letter in "Ru" for letter in scope) < len(scope):
        holding = [UPDATING, PROGRESSING]
    elif sum(letter in "rR" for letter in letter_of.values()) == total and scope.count("R") == len(scope):
        holding = [AVAILABLE]
    else:
        holding = [PROGRESSING]
    for type_, status, reason, _ in holding:
        stored[type_] = (status, reason)
        for opposite in (AVAILABLE,) if type_ != "Available" else (PROGRESSING, UPDATING):
            if opposite[0] in stored:
                stored[opposite[0]] = ("False", stored[opposite[0]][1])


@pytest.mark.parametrize("floor", [0, 2])
def test_type_status_and_reason_match_upstream_in_every_state(floor: int) -> None:
    states = ["".join(state) for state in product("-xruR", repeat=4)]
    random.Random(floor).shuffle(states)
    conditions: list[Any] = []
    expected: dict[str, tuple[str, str]] = {"Degraded": ("False", "AsExpected")}
    for letters in ["uuuu", "RRRR", "rrrr", *states]:
        upstream_conditions(expected, letters, floor)
        lws = make_set(replicas=4, generation=3, status={"conditions": conditions} if conditions else None)
        status = set_status(observed(lws, letters, floor=floor))
        conditions = list(status.intended["conditions"])
        actual = {entry["type"]: (entry["status"], entry["reason"]) for entry in conditions}
        assert (actual.pop("Reconciling", None) is not None) is (actual["Progressing"][0] == "True")
        assert actual == expected, letters


AS_EXPECTED = ("Degraded", "False", "AsExpected", "No replica has exhausted its restart budget")
REPORTED_BY_FAILED = (
    *AS_EXPECTED[:3],
    "The condition Failed names the groups that have used up spec.maxGroupRestarts",
)


@pytest.mark.parametrize(
    ("letters", "out_of_restarts", "expected"),
    [
        pytest.param("RRRR", (), AS_EXPECTED, id="healthy"),
        pytest.param("----", (), AS_EXPECTED, id="no pod yet"),
        pytest.param("RRRu", (3,), REPORTED_BY_FAILED, id="our own limit"),
    ],
)
def test_every_set_has_the_condition_degraded(
    letters: str, out_of_restarts: tuple[int, ...], expected: tuple[str, str, str, str]
) -> None:
    lws = make_set(replicas=4, generation=3)
    status = set_status(observed(lws, letters, out_of_restarts=out_of_restarts))
    (degraded,) = (entry for entry in status.intended["conditions"] if entry["type"] == "Degraded")
    assert degraded == condition(expected, since=JUST_NOW)
    lws = {**lws, "status": dict(status.intended)}
    again = set_status(observed(lws, letters, out_of_restarts=out_of_restarts))
    assert (again.patch, again.announce) == (None, ())


def test_a_set_with_0_replicas_is_never_progressing() -> None:
    assert conditions_in(status_of("", replicas=0)) == [AVAILABLE]


def test_transition_times_change_only_with_the_status() -> None:
    status = status_of("RRRu", PROGRESSING, not_available("2 of 4 groups are ready"))
    assert [entry["lastTransitionTime"] for entry in beside_degraded(status)] == [BEFORE, BEFORE]
    status = status_of("RRRR", PROGRESSING, not_available("2 of 4 groups are ready"))
    assert [entry["lastTransitionTime"] for entry in beside_degraded(status)] == [JUST_NOW, JUST_NOW]


def test_a_new_generation_alone_keeps_transition_times() -> None:
    stored = {"conditions": [condition(AVAILABLE, generation=2)]}
    lws = make_set(replicas=1, generation=3, status=stored)
    status = set_status(observed(lws, "R"))
    assert beside_degraded(status) == [condition(AVAILABLE, generation=3)]
    assert status.announce == ()


def test_an_unfinished_update_has_the_new_generation() -> None:
    stored = {"conditions": [condition(PROGRESSING, generation=2), condition(UPDATING, generation=2)]}
    lws = make_set(replicas=2, generation=3, status=stored)
    status = set_status(observed(lws, "uR"))
    assert beside_degraded(status) == [condition(PROGRESSING), condition(UPDATING)]


def test_foreign_conditions_are_kept() -> None:
    foreign = condition(("example.com/Checked", "True", "Checked", "by hand"), generation=1)
    lws = make_set(replicas=1, generation=3, status={"conditions": [foreign]})
    status = set_status(observed(lws, "R"))
    assert status.intended["conditions"][0] == foreign


def test_counters_include_the_surge_and_count_each_group_once() -> None:
    intended = status_of("rrtRRu", replicas=4).intended
    assert (intended["replicas"], intended["readyReplicas"], intended["updatedReplicas"]) == (6, 4, 3)
    assert (intended["observedGeneration"], intended["hpaPodSelector"]) == (3, SELECTOR)


@pytest.mark.parametrize(
    ("letters", "updated"),
    [
        pytest.param("rrrrR", 1, id="a surge counts"),
        pytest.param("rRRRR", 3, id="one is to be replaced yet"),
        pytest.param("uRRRR", 3, id="that one starts"),
        pytest.param("-RRRR", 3, id="that one is gone"),
        pytest.param("RRRRR", 5, id="surge no longer needed"),
        pytest.param("uRRR", 4, id="there is no surge"),
    ],
)
def test_updated_replicas_with_a_surge_reach_the_total_only_when_done(letters: str, updated: int) -> None:
    """Kueue deletes the pods of a surge once the number of updated groups reaches the desired number."""
    assert status_of(letters).intended["updatedReplicas"] == updated


def test_zero_counters_are_omitted() -> None:
    assert status_of("----", replicas=4).intended.keys() == {
        "replicas",
        "hpaPodSelector",
        "observedGeneration",
        "conditions",
        "groups",
        "lastProgressTime",
    }
    status = status_of("", replicas=0)
    assert status.intended.keys() == {"hpaPodSelector", "observedGeneration", "conditions"}
    assert conditions_in(status) == [AVAILABLE]


def test_an_unchanged_status_is_not_written() -> None:
    first = status_of("RRRR", PROGRESSING)
    lws = make_set(replicas=4, generation=3, status=dict(first.intended))
    later = observed(lws, "RRRR", now=NOW + timedelta(hours=1))
    assert set_status(later) == SetStatus(first.intended, None)


def test_the_patch_is_minimal() -> None:
    first = status_of("RRRR", PROGRESSING)
    lws = make_set(
        replicas=4, generation=3, status={**first.intended, "remembered": {"by": "another client"}}
    )
    surge = {"name": "demo-4", "state": "NotReady", "reason": "leader pod is not ready"}
    assert set_status(observed(lws, "RRRRu")).patch == {
        "replicas": 5,
        "updatedReplicas": 5,
        "groups": {"counts": {"NotReady": 1}, "unsettled": [surge]},
    }
    emptied = set_status(observed(lws, "----", existing=0)).patch
    assert emptied is not None
    assert emptied["groups"]["counts"] == {"Ready": None, "Missing": 4}
    ignored = ("conditions", "groups", "lastProgressTime")
    assert {field: value for field, value in emptied.items() if field not in ignored} == {
        "replicas": None,
        "readyReplicas": None,
        "updatedReplicas": None,
    }


def test_an_edited_selector_is_repaired() -> None:
    lws = make_set(status={"hpaPodSelector": "mine=yes"})
    assert set_status(observed(lws, "")).intended["hpaPodSelector"] == SELECTOR


def test_revisions_are_recorded_and_kept() -> None:
    lws = make_set(status={"currentRevision": "demo-a-1", "updateRevision": "demo-a-1", "collisionCount": 2})
    revisions = {"updateRevision": "demo-b-2", "collisionCount": 3}
    intended = set_status(observed(lws, "", revisions=revisions)).intended
    assert (intended["currentRevision"], intended["updateRevision"], intended["collisionCount"]) == (
        "demo-a-1",
        "demo-b-2",
        3,
    )
    first = set_status(observed(make_set(), "", revisions={"collisionCount": 0}))
    assert "collisionCount" not in first.intended


@pytest.mark.parametrize(
    ("letters", "stored", "reason", "note"),
    [
        pytest.param(
            "uuuu",
            [],
            "GroupsProgressing",
            "Replicas are progressing, with 0 groups ready of total 4 groups",
            id="created",
        ),
        pytest.param(
            "RRRRR",
            [PROGRESSING],
            "AllGroupsReady",
            "All replicas are ready, with 5 groups ready of total 4 groups",
            id="ready, surge included",
        ),
        pytest.param(
            "rrrr",
            [AVAILABLE],
            "GroupsUpdating",
            "Rolling Upgrade is in progress, with 4 groups ready of total 4 groups",
            id="two become true, the first is named",
        ),
        pytest.param(
            "rrrr",
            [AVAILABLE, PROGRESSING],
            "GroupsUpdating",
            "Rolling Upgrade is in progress, with 4 groups ready of total 4 groups",
            id="an update while progressing",
        ),
    ],
)
def test_an_event_is_emitted_when_a_condition_becomes_true(
    letters: str, stored: list[Any], reason: str, note: str
) -> None:
    (announce,) = status_of(letters, *stored).announce
    assert (announce.reason, announce.action, announce.type, announce.note) == (
        reason,
        "Update",
        "Normal",
        note,
    )
    assert str(announce.regarding) == "LeaderWorkerSet default/demo"


@pytest.mark.parametrize(
    ("letters", "stored"),
    [
        pytest.param("RRRR", [AVAILABLE], id="at rest"),
        pytest.param("uuRR", [PROGRESSING], id="one more is ready"),
        pytest.param("rrRR", [PROGRESSING, UPDATING], id="one more is updated"),
    ],
)
def test_no_event_is_emitted_otherwise(letters: str, stored: list[Any]) -> None:
    assert status_of(letters, *stored).announce == ()


def test_problems_are_reported_in_a_condition_while_they_exist() -> None:
    clash = Problem("NameClash", "StatefulSet demo belongs to another owner")
    quota = Problem("FailedCreate", "exceeded quota")
    status = status_of("----", PROGRESSING, problems=(clash, quota))
    expected = ("ReplicaFailure", "True", "NameClash", f"{clash.message}; exceeded quota")
    assert conditions_in(status) == [PROGRESSING, expected]
    assert status.announce == ()
    lws = make_set(replicas=4, generation=3, status=dict(status.intended))
    assert conditions_in(set_status(observed(lws, "----"))) == [PROGRESSING]


def test_messages_are_truncated_to_the_limit_of_the_api() -> None:
    status = status_of("----", problems=(Problem("FailedCreate", "x" * 40000),))
    assert len(beside_degraded(status)[-1]["message"]) == 32768


# --- Records ------------------------------------------------------------------------------------------------


FIRST, SECOND = make_group(index=0), make_group(index=1)


def members_of(group: GroupFacts) -> str:
    return str(Members.of(group.uid, group.worker_uids))


def at_rest(**more: Any) -> dict[str, Any]:
    """Return a settled set of two groups with a written status, and further fields in it."""
    lws = make_set(generation=3)
    status = dict(set_status(observed(lws, "RR", facts=(FIRST, SECOND))).intended)
    return make_set(generation=3, status={**status, **more})


def patch_of(lws: dict[str, Any], facts: Iterable[GroupFacts] = (FIRST, SECOND), **more: Any) -> Any:
    return set_status(observed(lws, "RR", facts=facts, **more)).patch


def test_members_are_written_with_the_counters() -> None:
    assert at_rest()["status"]["members"] == {"0": members_of(FIRST), "1": members_of(SECOND)}
    assert patch_of(at_rest()) is None


def test_removing_records_causes_no_separate_write() -> None:
    assert patch_of(at_rest(), facts=(FIRST,)) is None
    assert patch_of(at_rest(), facts=()) is None
    assert patch_of(at_rest(), facts=(FIRST,), existing=1) == {"replicas": 1, "members": {"1": None}}


def test_changed_members_are_written_at_once() -> None:
    other = make_group(index=1, uid="another")
    assert patch_of(at_rest(), facts=(FIRST, other)) == {"members": {"1": members_of(other)}}


def test_the_rollout_position_is_recorded_and_kept() -> None:
    position = {"revision": "demo-b-2", "partition": 1}
    assert patch_of(at_rest(), position=position) == {"rollout": position}
    assert patch_of(at_rest(rollout=position)) is None
    moved = {**position, "partition": 0}
    assert patch_of(at_rest(rollout=position), position=moved) == {"rollout": {"partition": 0}}


def test_restarts_are_kept_while_the_group_is_desired() -> None:
    restarts = {"0": "1.1.1772366400.k", "1": "2.0.1772366400.k", "7": "1.1.1772366400.k", "x": "?"}
    assert patch_of(at_rest(restarts={"0": "1.1.1772366400.k"})) is None
    assert patch_of(at_rest(restarts=restarts)) == {"restarts": {"7": None, "x": None}}


# --- Stalled ------------------------------------------------------------------------------------------------


def later(
    status: SetStatus,
    letters: str,
    seconds: float,
    deadline: int | None = 600,
    waits: tuple[NodeWait, ...] = (),
    **spec: Any,
) -> SetStatus:
    """Return the status of the next pass, with nothing between the passes but time."""
    fields = {"progressDeadlineSeconds": deadline} if deadline is not None else {}
    lws = make_set(replicas=4, generation=3, status=dict(status.intended), **fields, **spec)
    return set_status(observed(lws, letters, now=NOW + timedelta(seconds=seconds), waits=waits))


def stall_of(status: SetStatus) -> tuple[str, str] | None:
    stalled = [entry for entry in status.intended["conditions"] if entry["type"] == "Stalled"]
    return (stalled[0]["status"], stalled[0]["reason"]) if stalled else None


def test_a_set_without_progress_is_stalled_and_reported_once() -> None:
    first = later(status_of("RRRu"), "RRRu", 0)
    assert (first.due_in, stall_of(first)) == (600, None)
    waiting = later(first, "RRRu", 599)
    assert (waiting.due_in, waiting.patch, waiting.announce) == (1, None, ())
    stalled = later(first, "RRRu", 600)
    assert stall_of(stalled) == ("True", "ProgressDeadlineExceeded")
    assert stalled.due_in is None, "nothing more happens with time"
    (event,) = stalled.announce
    note = "No progress for 600 s; group 3: leader pod is not ready"
    assert (event.type, event.reason, event.note) == ("Warning", "Stalled", note)
    again = later(stalled, "RRRu", 2000)
    assert (again.patch, again.announce, again.due_in) == (None, (), None)


def test_a_regression_does_not_restart_the_deadline() -> None:
    first = status_of("RRRu")
    worse = later(first, "RRtu", 300)
    back = later(worse, "RRRu", 450)
    assert worse.due_in == 300
    # One more ready group than in the recorded status counts as progress.
    assert back.due_in == 600


def test_progress_ends_a_stall() -> None:
    stalled = later(status_of("RRuu"), "RRuu", 700)
    better = later(stalled, "RRRu", 800)
    assert stall_of(better) == ("False", "Progressing")
    assert better.due_in == 600
    done = later(later(better, "RRRu", 1500), "RRRR", 1600)
    assert stall_of(done) == ("False", "AtRest")
    assert done.due_in is None


def test_a_failure_after_a_long_rest_gets_the_full_deadline() -> None:
    ready = later(status_of("RRRu"), "RRRR", 10)
    assert later(ready, "RRRR", 9000).patch is None
    trouble = later(ready, "RRRu", 9000)
    assert (trouble.due_in, stall_of(trouble)) == (600, None)


def test_the_deadline_is_read_from_the_set() -> None:
    assert stall_of(later(status_of("RRRu"), "RRRu", 31, deadline=30)) is not None
    assert stall_of(later(status_of("RRRu"), "RRRu", 29, deadline=30)) is None


def test_a_set_without_a_deadline_is_never_stalled() -> None:
    never = later(status_of("RRRu"), "RRRu", 1_000_000, deadline=None)
    assert (never.due_in, stall_of(never), never.announce) == (None, None, ())


@pytest.mark.parametrize("seconds", [601, 800], ids=["as it was", "after progress"])
def test_the_condition_stalled_is_removed_with_the_deadline(seconds: int) -> None:
    stalled = later(status_of("RRuu"), "RRuu", 600)
    assert stall_of(stalled) is not None
    without = later(stalled, "RRuu" if seconds == 601 else "RRRu", seconds, deadline=None)
    assert (stall_of(without), without.due_in, without.announce) == (None, None, ())
    assert later(without, "RRuu" if seconds == 601 else "RRRu", seconds + 1, deadline=None).patch is None


def test_a_set_whose_pods_are_gated_or_cannot_be_scheduled_is_not_stalled() -> None:
    gated = NodeWait(NOW)
    for seconds in (599, 600, 9000):
        waiting = later(status_of("RRRu"), "RRRu", seconds, waits=(gated,))
        assert (stall_of(waiting), waiting.patch) == (None, None), "and nothing is written while they wait"
    placed = NodeWait(NOW, NOW + timedelta(seconds=9000))
    first = later(status_of("RRRu"), "RRRu", 9001, waits=(placed,))
    assert (stall_of(first), first.due_in) == (None, 599)
    assert stall_of(later(first, "RRRu", 9600, waits=(placed,))) == ("True", "ProgressDeadlineExceeded")


def test_a_stalled_set_whose_pods_lose_their_nodes_is_no_longer_stalled() -> None:
    stalled = later(status_of("RRRu"), "RRRu", 700)
    waiting = later(stalled, "RRRu", 900, waits=(NodeWait(NOW + timedelta(seconds=800)),))
    assert stall_of(waiting) == ("False", "PodsUnscheduled")


def test_a_paused_rollout_is_not_stalled() -> None:
    paused = {"rolloutStrategy": {"paused": True}}
    assert stall_of(later(status_of("rrrR"), "rrrR", 9000, **paused)) is None
    stalled = later(status_of("rrrR"), "rrrR", 9000)
    assert stall_of(later(stalled, "rrrR", 9001, **paused)) == ("False", "RolloutPaused")


def test_other_unsettled_groups_are_recorded_with_equal_counters() -> None:
    first = status_of("RRRu")
    second = later(first, "RRuR", 5)
    assert second.patch is not None
    assert set(second.patch) == {"groups"}
    assert [group["name"] for group in second.intended["groups"]["unsettled"]] == ["demo-2"]


@pytest.mark.parametrize(
    ("letters", "replicas", "floor", "done"),
    [
        ("RRRR", 4, 0, True),
        ("RRRRu", 4, 0, True),
        ("RRRu", 4, 0, False),
        ("RRRr", 4, 0, False),
        ("RRR-", 4, 0, False),
        ("RRRR", 4, 1, False),
        ("", 0, 0, True),
    ],
)
def test_is_update_done(letters: str, replicas: int, floor: int, done: bool) -> None:
    assert RolloutState(replicas, Budget(1, 0), floor, groups(letters)).is_done is done


def test_unreadable_fields_are_removed_with_the_next_write() -> None:
    stored = {"conditions": None, "members": None, "restarts": None, "rollout": None, "replicas": None}
    lws = make_set(replicas=1, generation=3, status=stored)
    status = set_status(observed(lws, "R"))
    assert status.patch is not None
    assert {field: status.patch[field] for field in ("members", "restarts", "rollout")} == dict.fromkeys(
        ("members", "restarts", "rollout")
    )
    assert (status.patch["replicas"], None in status.intended.values()) == (1, False)


@pytest.mark.parametrize(
    "index", ["9" * 5000, "٣", "²", "-1", ""], ids=["long", "digit", "square", "sign", "empty"]
)
def test_restarts_of_invalid_indices_are_removed(index: str) -> None:
    lws = make_set(replicas=4, generation=3, status={"restarts": {index: "1.1.1.a", "3": "1.1.1.a"}})
    status = set_status(observed(lws, "RRRR"))
    assert status.intended["restarts"] == {"3": "1.1.1.a"}


# --- Groups that have used up their restarts ----------------------------------------------------------------

STOPPED = "Automatic recovery is stopped for one or more replicas"
EXCEEDED = "ReplicaRestartBudgetExceeded"
DEGRADED = ("Degraded", "True", EXCEEDED, STOPPED)
AT_A_STOP = [
    ("Available", "False", EXCEEDED, "Not all replicas are ready"),
    ("Progressing", "False", EXCEEDED, STOPPED),
    ("UpdateInProgress", "False", EXCEEDED, "No rolling update is in progress"),
]
MOVING = [AT_A_STOP[0], PROGRESSING, AT_A_STOP[2]]


STUCK = (
    "Stalled",
    "True",
    "GroupRestartsExhausted",
    "Groups that are not ready have used up their restarts",
)


def all_conditions_in(status: SetStatus) -> set[tuple[str, ...]]:
    fields = ("type", "status", "reason", "message")
    entries = [entry for entry in status.intended["conditions"] if entry["type"] != "Reconciling"]
    return {tuple(entry[field] for field in fields) for entry in entries}


@pytest.mark.parametrize(
    ("letters", "exhausted", "stored", "expected"),
    [
        pytest.param("RRRT", (3,), [], AT_A_STOP, id="nothing else moves"),
        pytest.param("TRRT", (0, 3), [AVAILABLE], AT_A_STOP, id="two"),
        pytest.param("RRuT", (3,), [], MOVING, id="another group starts"),
        pytest.param("RR-T", (3,), [AVAILABLE], MOVING, id="another group is missing"),
        pytest.param("RRuT", (3,), [UPDATING, PROGRESSING], MOVING, id="a rollout ends"),
        pytest.param("rRRT", (3,), [], [*AT_A_STOP[:1], PROGRESSING, UPDATING], id="a rollout continues"),
        pytest.param("RRRR", (3,), [AVAILABLE], [*AT_A_STOP], id="before it ends"),
        pytest.param("RRuR", (3,), [AVAILABLE], MOVING, id="before it ends, while another group starts"),
        pytest.param("RRRRT", (4,), [], [AVAILABLE], id="one of the surge"),
    ],
)
def test_conditions_of_a_set_with_a_stopped_group(
    letters: str, exhausted: tuple[int, ...], stored: list[Any], expected: list[Any]
) -> None:
    actual = all_conditions_in(status_of(letters, *stored, exhausted=exhausted))
    stuck = {STUCK} if expected is AT_A_STOP else set()
    assert actual - {NOT_PROGRESSING} == {DEGRADED, *expected, *stuck}


@pytest.mark.parametrize("deadline", [None, 60])
def test_a_set_that_waits_for_nothing_else_is_stalled(deadline: int | None) -> None:
    """Our own limit stalls the set, too: tools that follow kstatus know no other failure."""
    lws = make_set(replicas=4, generation=3, progressDeadlineSeconds=deadline)
    status = set_status(observed(lws, "RRRu", out_of_restarts=(3,)))
    types = {entry["type"] for entry in status.intended["conditions"] if entry["status"] == "True"}
    assert types == {"Failed", "Progressing", "Stalled"}
    assert [event.reason for event in status.announce if event.reason == "Stalled"] == []
    figures = figures_of(lws, status.intended, 4, 1).numbers
    assert (figures["stalled", ""], figures["failed", ""]) == (False, 1), "one alert is enough"
    again = {**lws, "status": dict(status.intended)}
    starting = set_status(observed(again, "RRuu", out_of_restarts=(3,)))
    true = {entry["type"] for entry in starting.intended["conditions"] if entry["status"] == "True"}
    assert true == {"Failed", "Progressing", "Reconciling"}, "another group starts"
    mended = set_status(observed(again, "RRRR"))
    true = {entry["type"] for entry in mended.intended["conditions"] if entry["status"] == "True"}
    assert true == {"Available"}


def test_a_set_that_is_stalled_by_its_deadline_is_not_reconciling() -> None:
    lws = make_set(replicas=2, generation=3, progressDeadlineSeconds=60)
    begun = {**lws, "status": dict(set_status(observed(lws, "uu")).intended)}
    later = set_status(observed(begun, "uu", now=NOW + timedelta(seconds=61)))
    true = {entry["type"] for entry in later.intended["conditions"] if entry["status"] == "True"}
    assert true == {"Progressing", "Stalled"}


def test_a_stopped_group_is_reported_once() -> None:
    (event,) = status_of("RRRT", AVAILABLE, exhausted=(3,)).announce
    assert (event.type, event.reason, event.note) == (
        "Normal",
        EXCEEDED,
        f"{STOPPED}, with 3 groups ready of total 4 groups",
    )
    assert status_of("RRRT", DEGRADED, *AT_A_STOP, exhausted=(3,)).announce == ()
    assert status_of("RRRR", DEGRADED, *AT_A_STOP, exhausted=(3,)).announce == ()


def test_a_recovered_group_no_longer_degrades_the_set() -> None:
    actual = all_conditions_in(status_of("RRRu", DEGRADED, *AT_A_STOP))
    assert actual == {AS_EXPECTED, PROGRESSING, not_available("3 of 4 groups are ready"), NOT_UPDATING}
