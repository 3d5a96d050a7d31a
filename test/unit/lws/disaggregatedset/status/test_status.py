"""Tests of lws.disaggregatedset.status: counters, conditions in upstream's words, and records."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.spec import parse
from lws.disaggregatedset.status import ObservedRoles, can_wait, disaggregated_status
from lws.disaggregatedset.target import target_revision
from lws.kube.conditions import is_true
from lws.kube.patches import merge_patch
from lws.kube.pods import NodeWait
from lws.runtime.actions import Problem
from test.unit.builders import NOW
from test.unit.disaggregated import make_disaggregated, make_facts

REACHED = "All roles have reached their desired replica count, ready and updated to the current revision"
UNDER_WAY = REACHED.replace("All", "Not all")
DESIRED = {"prefill": 2, "decode": 1}
OWNER = make_disaggregated()
TARGET = target_revision(DisaggregatedSnapshot(OWNER, NOW))
NEW, OLD = TARGET.key, "2" * 8


def facts(role: str, replicas: int, key: str = NEW, **more: Any) -> Any:
    return make_facts(OWNER, Identity(0, key, role), replicas, **more)


AT_REST = (facts("prefill", 2), facts("decode", 1))


def observed(
    stored: Any = None,
    *,
    children: tuple[Any, ...] = AT_REST,
    now: datetime = NOW,
    desired: Mapping[str, int | None] = DESIRED,
    deadline: int | None = None,
    paused: bool = False,
    **more: Any,
) -> ObservedRoles:
    """Return what a pass observes, by default of a set at rest. stored: the status. more: other fields."""
    obj = make_disaggregated(
        status=stored or {}, progressDeadlineSeconds=deadline, rolloutStrategy={"paused": paused}
    )
    snapshot = DisaggregatedSnapshot(obj, now, children)
    return ObservedRoles(snapshot, parse(obj), TARGET, desired, TARGET.name, **more)


def written(stored: Any = None, **seen: Any) -> dict[str, Any]:
    """Return the status after the pass."""
    patch = disaggregated_status(observed(stored, **seen)).patch or {}
    after = {**(stored or {}), **patch}
    return {name: value for name, value in after.items() if value is not None}


def conditions(status: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return the conditions, except for Reconciling, which repeats Progressing."""
    rows = [
        (condition["type"], condition["status"], condition["reason"], condition["message"])
        for condition in status.get("conditions", ())
    ]
    progressing = [("Reconciling", *row[1:]) for row in rows if row[:2] == ("Progressing", "True")]
    is_stalled = any(row[:2] == ("Stalled", "True") for row in rows)
    assert [row for row in rows if row[0] == "Reconciling"] == ([] if is_stalled else progressing)
    return [row for row in rows if row[0] != "Reconciling"]


def test_a_set_at_rest() -> None:
    status = written()
    assert conditions(status) == [("Available", "True", "AllRolesReady", REACHED)]
    assert status["observedGeneration"] == 1
    assert status["roleStatuses"] == [
        {"name": "prefill", "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2},
        {"name": "decode", "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1},
    ]
    assert status["currentRevision"] == status["updateRevision"] == TARGET.name
    assert (status["slices"], status["selector"]) == (
        1,
        "disaggregatedset.x-k8s.io/name=demo,leaderworkerset.sigs.k8s.io/worker-index=0",
    )
    assert status["sliceStatuses"] == [
        {
            "index": 0,
            "revisions": [
                {
                    "revision": NEW,
                    "roles": [
                        {"name": "decode", "replicas": 1, "readyReplicas": 1},
                        {"name": "prefill", "replicas": 2, "readyReplicas": 2},
                    ],
                }
            ],
        }
    ]
    assert disaggregated_status(observed(status)).patch is None


@pytest.mark.parametrize(
    "children",
    [
        pytest.param((), id="no groups yet"),
        pytest.param((facts("prefill", 2, ready=1), facts("decode", 1)), id="one group not ready"),
        pytest.param((facts("prefill", 2), facts("decode", 2)), id="too many"),
        pytest.param((facts("prefill", 2, OLD), facts("decode", 1)), id="one group on another revision"),
        pytest.param(
            (facts("prefill", 2), facts("decode", 1), facts("decode", 1, OLD)),
            id="one group of another revision remains",
        ),
    ],
)
def test_a_set_in_a_rollout(children: Any) -> None:
    status = written(children=children)
    assert conditions(status) == [("Progressing", "True", "RolloutInProgress", UNDER_WAY)]


def test_a_removed_role_is_absent_from_role_statuses() -> None:
    """Upstream's status omits the role, too. The slices list its remaining groups."""
    status = written(children=(*AT_REST, facts("router", 1, OLD)))
    assert [role["name"] for role in status["roleStatuses"]] == ["prefill", "decode"]
    assert conditions(status)[0][:2] == ("Available", "True")
    assert "router" in str(status["sliceStatuses"])


def test_a_set_progresses_while_an_empty_old_revision_remains() -> None:
    status = written(rolling=frozenset({0}))
    assert conditions(status) == [("Progressing", "True", "RolloutInProgress", UNDER_WAY)]


def test_the_deadline_does_not_count_while_pods_wait_for_nodes() -> None:
    begun = written(children=(), deadline=60)
    homeless = facts("prefill", 2, ready=0, is_settled=False, waits=(NodeWait(NOW),))
    waiting: dict[str, Any] = {"children": (homeless,), "deadline": 60, "now": NOW + timedelta(seconds=600)}
    status = disaggregated_status(observed(begun, **waiting))
    assert (status.due_in, status.is_stalled) == (60.0, False)
    stalled = {**begun, "conditions": [{"type": "Stalled", "status": "True", "reason": "x", "message": ""}]}
    after = written(stalled, **waiting)
    (stalled_condition,) = (condition for condition in after["conditions"] if condition["type"] == "Stalled")
    assert (stalled_condition["status"], stalled_condition["reason"]) == ("False", "PodsUnscheduled")


def test_a_role_without_replicas_is_never_available() -> None:
    status = written(desired={"prefill": 2, "decode": None})
    assert conditions(status)[0][0] == "Progressing"


def test_a_set_with_zero_replicas_is_available() -> None:
    status = written(desired={"prefill": 0, "decode": 0}, children=())
    assert status["roleStatuses"] == [{"name": "prefill"}, {"name": "decode"}]
    assert conditions(status)[0][0] == "Available" and "slices" not in status


def test_exclusive_conditions_change_at_the_same_time() -> None:
    status = written(written(), children=(), now=NOW + timedelta(seconds=5))
    assert conditions(status) == [
        ("Available", "False", "RolloutInProgress", UNDER_WAY),
        ("Progressing", "True", "RolloutInProgress", UNDER_WAY),
    ]
    assert {condition["lastTransitionTime"] for condition in status["conditions"]} == {"2026-03-01T12:00:05Z"}


def test_foreign_conditions_are_kept() -> None:
    foreign = {"type": "Paid", "status": "True", "reason": "Yes", "message": "", "lastTransitionTime": "x"}
    assert foreign in written({"conditions": [foreign]})["conditions"]


def test_an_obstacle_is_reported_as_long_as_it_exists() -> None:
    problems = (Problem("QuotaExceeded", "role prefill: no"), Problem("NameClash", "role decode: taken"))
    status = written(problems=problems)
    failure = ("ReplicaFailure", "True", "QuotaExceeded", "role prefill: no; role decode: taken")
    assert failure in conditions(status)
    assert len(conditions(written(status))) == 1


def test_an_exceeded_deadline_is_reported_once_with_its_reason() -> None:
    begun = written(children=(), deadline=60)
    assert begun["lastProgressTime"] == "2026-03-01T12:00:00Z"
    waiting: dict[str, Any] = {"children": (), "deadline": 60}
    waiting |= {"waiting_for": "prefill of slice 0 to be ready"}
    early = disaggregated_status(observed(begun, **waiting, now=NOW + timedelta(seconds=10)))
    assert early.due_in == 50.0
    late = disaggregated_status(observed(begun, **waiting, now=NOW + timedelta(seconds=60)))
    message = "No progress for 60 s; prefill of slice 0 to be ready"
    assert [(event.reason, event.type, event.note) for event in late.announce] == [
        ("Stalled", "Warning", message)
    ]
    assert late.due_in is None and late.patch is not None
    stalled = {**begun, **late.patch}
    assert ("Stalled", "True", "ProgressDeadlineExceeded", message) in conditions(stalled)
    assert not disaggregated_status(observed(stalled, **waiting)).announce
    paused = written(stalled, **waiting, paused=True)
    assert ("Stalled", "False", "RolloutPaused", "The rollout is paused") in conditions(paused)


def test_rollout_records_are_written_and_removed() -> None:
    memory = {"0": {"revision": NEW, "initialReplicas": {"demo-0-22222222-decode": 1}}}
    status = written(rollouts=memory, pending=("networkConfig of role decode",))
    assert (status["rollouts"], status["pending"]) == (memory, ["networkConfig of role decode"])
    after = written(status)
    assert "rollouts" not in after and "pending" not in after


@pytest.mark.parametrize(("count", "last"), [(20, "line 20"), (21, "and 1 more"), (1000, "and 980 more")])
def test_omitted_pending_items_are_counted(count: int, last: str) -> None:
    lines = [f"line {number}" for number in range(1, count + 1)]
    pending = written(pending=lines)["pending"]
    assert pending[:20] == lines[:20] and pending[-1] == last and len(pending) <= 21


def test_count_updates_can_wait_but_condition_updates_cannot() -> None:
    before = written(children=(facts("prefill", 1), facts("decode", 1)))
    more = written(before, children=(facts("prefill", 2, ready=1), facts("decode", 1)))
    done = written(before)
    assert can_wait(before, merge_patch(before, more) or {}, 1)
    assert not can_wait(before, merge_patch(before, done) or {}, 1)


def test_the_deletion_of_the_last_excess_slice_is_reported_at_once() -> None:
    assert [can_wait({"slices": 3}, {"slices": count}, 1) for count in (2, 1)] == [True, False]
    assert can_wait({}, {"slices": 1}, 1), "the first groups of a new set are created"


def test_slices_in_a_rollout_come_first_in_a_truncated_status() -> None:
    roles = [f"role-{index}" for index in range(10)]
    children = tuple(make_facts(OWNER, Identity(index, NEW, role)) for index in range(30) for role in roles)
    status = written(desired=dict.fromkeys(roles, 30), children=children, rolling=frozenset({29}))
    indices = [slice_status["index"] for slice_status in status["sliceStatuses"]]
    assert indices == [*range(19), 29]


def test_edited_children_are_reported_while_there_are_any() -> None:
    edited = [facts(f"role-{number}", 1) for number in range(7)]
    status = disaggregated_status(observed(edited=edited))
    (event,) = status.announce
    (row,) = [row for row in conditions(dict(status.patch or {})) if row[0] == "RolesEdited"]
    assert row[:3] == ("RolesEdited", "True", "LeaderWorkerSetEdited")
    assert row[3].startswith(
        ", ".join(child.name for child in edited[:5]) + " and 2 more: the template is not"
    )
    assert (event.reason, event.type, event.note) == ("LeaderWorkerSetEdited", "Warning", row[3])
    first = written(edited=edited)
    fewer = disaggregated_status(observed(first, edited=edited[:1]))
    assert fewer.announce == ()
    assert is_true((fewer.patch or {})["conditions"], "RolesEdited")
    none = written(first)
    assert ("RolesEdited", "False") in [row[:2] for row in conditions(none)]
    assert "RolesEdited" not in [row[0] for row in conditions(written())]
