"""Tests that a plan has its parts in order, and leaves out parts that must wait."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from itertools import chain

import pytest

from lws.disaggregatedset.names import Identity, identity_of, key_of
from lws.disaggregatedset.plan import plan
from lws.disaggregatedset.revisions.record import record
from lws.disaggregatedset.slices.course import MOST_RECORDED
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.kube.conditions import Rejection
from lws.runtime.actions import Action, Apply, Create, Figures, Merge
from lws_api.disaggregatedset.v1 import NAME_LABEL, REVISION_LABEL
from test.unit.builders import NOW
from test.unit.disaggregated import ROLES, make_disaggregated, make_facts, make_role
from test.unit.lws.disaggregatedset.revisions.histories import recorded

RECORDED_FIRST = ["ControllerRevision", *("LeaderWorkerSet" for _ in make_disaggregated()["spec"]["roles"])]


def kinds(snapshot: DisaggregatedSnapshot) -> list[str]:
    """Return the kinds of the created objects."""
    actions = (action for sequence in plan(snapshot).sequences for action in sequence)
    return [action.intent["kind"] for action in actions if isinstance(action, Create)]


def test_no_child_is_created_before_its_revision() -> None:
    """The revision and the objects are in one sequence, which stops at its first failure."""
    obj = make_disaggregated()
    snapshot = DisaggregatedSnapshot(obj, NOW, set_read_live=obj)
    assert len(plan(snapshot).sequences) == 1 and kinds(snapshot) == RECORDED_FIRST


@pytest.mark.parametrize(
    ("slices", "remaining"),
    [pytest.param(2, 0, id="two slices"), pytest.param(1, 2, id="one slice remains")],
)
def test_slices_do_not_wait_for_each_other(slices: int, remaining: int) -> None:
    """One sequence for all slices would stop at the first failure in any of them. Revisions are already
    recorded.
    """
    former, obj = (
        make_disaggregated(roles=[make_role(*role, image) for role in ROLES.items()], slices=slices)
        for image in ("app:1", "app:2")
    )
    revision = recorded(former, 1)
    children = tuple(make_facts(obj, Identity(index, revision.key, "prefill")) for index in range(remaining))
    snapshot = DisaggregatedSnapshot(obj, NOW, children, revisions=(revision,), set_read_live=obj)
    assert kinds(snapshot) == ["ControllerRevision"] and plan(snapshot).again_after == 0
    (sequence,) = plan(snapshot).sequences
    second = recorded(obj, 2)
    later = plan(replace(snapshot, revisions=(revision, second)))
    of_slices = [{str(index_of(action)) for action in actions} for actions in later.sequences]
    assert len(sequence) == 1 and all(len(indices) == 1 for indices in of_slices)
    assert len(set(chain(*of_slices))) > 1


def index_of(action: Action) -> int:
    """Return the index of the slice that an action concerns."""
    name = action.intent["metadata"]["name"] if isinstance(action, Create | Apply) else action.target.name
    identity = identity_of("demo", name)
    assert identity is not None
    return identity.slice_index


@pytest.mark.parametrize("revisions", [1, 2, 4])
def test_the_status_of_the_largest_set_fits_into_etcd(revisions: int) -> None:
    """etcd accepts 1.5 MiB for the whole set, which has most slices and roles and the longest names. With
    several old revisions, its rollouts were overtaken.
    """
    name, roles = "s" * 29, [f"role-{number:05}" for number in range(10)]
    images = [f"app:{number}" for number in range(revisions + 1)]
    *former, obj = (
        make_disaggregated(name, [make_role(role, 900_000, image) for role in roles], slices=100)
        for image in images
    )
    recorded_revisions = [recorded(dset, number) for number, dset in enumerate((*former, obj), start=1)]
    children = tuple(
        make_facts(obj, Identity(index, revision.key, role), 900_000)
        for index in range(100)
        for revision in recorded_revisions[:-1]
        for role in roles
    )
    (status,) = plan(
        DisaggregatedSnapshot(obj, NOW, children, revisions=tuple(recorded_revisions), set_read_live=obj)
    ).statuses
    rollouts = status.patch["rollouts"]
    assert sum(len(counts["initialReplicas"]) for counts in rollouts.values()) <= MOST_RECORDED
    assert len(rollouts) == min(100, MOST_RECORDED // (10 * revisions))
    assert len(json.dumps(status.patch)) < 200 * 1024
    is_told = any("no room to remember" in line for line in status.patch.get("pending", ()))
    assert is_told == (len(rollouts) < 100)


def test_missing_revisions_of_running_children_are_created_first() -> None:
    former, obj = (
        make_disaggregated(roles=[make_role(*role, image) for role in ROLES.items()])
        for image in ("app:1", "app:2")
    )
    running = tuple(
        make_facts(former, Identity(0, key_of(record(former).roles), role), count)
        for role, count in ROLES.items()
    )
    snapshot = DisaggregatedSnapshot(obj, NOW, running, set_read_live=obj)
    assert kinds(snapshot) == ["ControllerRevision"] * 2
    assert [status_write.only_after_failure for status_write in plan(snapshot).statuses] == [True]
    assert plan(snapshot).again_after == 0


def test_a_rejected_revision_blocks_the_set_and_is_reported() -> None:
    obj = make_disaggregated()
    refused = Rejection("cannot create ControllerRevision demo-1", "exceeded quota")
    snapshot = DisaggregatedSnapshot(obj, NOW, set_read_live=obj, rejections=(refused,))
    assert len(plan(snapshot).sequences) == 1 and kinds(snapshot) == RECORDED_FIRST
    (status,) = plan(snapshot).statuses
    (problem,) = [
        condition for condition in status.patch["conditions"] if condition["type"] == "ReplicaFailure"
    ]
    assert (problem["reason"], problem["message"]) == ("QuotaExceeded", refused.message)


def test_a_terminating_or_unreadable_set_is_not_changed() -> None:
    terminating = make_disaggregated()
    terminating["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert plan(DisaggregatedSnapshot(terminating, NOW)).is_empty
    planned = plan(DisaggregatedSnapshot(make_disaggregated(), NOW, fault="spec.roles is 7, not a list"))
    assert not planned.sequences and "spec.roles is 7" in planned.waiting_for
    (status,) = planned.statuses
    assert status.patch["conditions"][0]["reason"] == "UnreadableSpec"


def test_metrics_report_sets_in_a_rollout_and_stalled_sets() -> None:
    former, obj = (
        make_disaggregated(
            roles=[make_role(*role, image) for role in ROLES.items()], progressDeadlineSeconds=60
        )
        for image in ("app:1", "app:2")
    )
    revisions = recorded(former, 1), recorded(obj, 2)
    old, new = (
        tuple(make_facts(obj, Identity(0, revision.key, role), count) for role, count in ROLES.items())
        for revision in revisions
    )
    rolled = DisaggregatedSnapshot(obj, NOW, new, revisions=revisions)
    assert plan(rolled).standing == frozenset()
    rolling = DisaggregatedSnapshot(obj, NOW, (*old, *new), revisions=revisions)
    assert plan(rolling).standing == {"InRollout"}
    assert [figures(snapshot).numbers["rolling", ""] for snapshot in (rolled, rolling)] == [False, True]
    unready = tuple(replace(facts, ready=0, is_settled=False) for facts in new)
    (status,) = plan(DisaggregatedSnapshot(obj, NOW, unready, revisions=revisions)).statuses
    for seconds, expected in ((59, frozenset()), (60, {"Stalled"})):
        then = NOW + timedelta(seconds=seconds)
        waiting = DisaggregatedSnapshot({**obj, "status": status.patch}, then, unready, revisions=revisions)
        assert plan(waiting).standing == expected
        assert figures(waiting).numbers["stalled", ""] == bool(expected)


def figures(snapshot: DisaggregatedSnapshot) -> Figures:
    result = plan(snapshot).figures
    assert result is not None
    return result


def test_metrics_show_the_groups_of_each_role() -> None:
    former, obj = (
        make_disaggregated(roles=[make_role(*role, image) for role in ROLES.items()])
        for image in ("app:1", "app:2")
    )
    revisions = recorded(former, 1), recorded(obj, 2)
    old, new = (
        tuple(make_facts(obj, Identity(0, revision.key, role), count) for role, count in ROLES.items())
        for revision in revisions
    )
    row = figures(DisaggregatedSnapshot(obj, NOW, (*old, *new), revisions=revisions))
    assert (row.kind, row.name, row.revision) == ("DisaggregatedSet", "demo", revisions[1].name)
    for role, count in ROLES.items():
        numbers = [row.numbers[word, role] for word in ("desired", "existing", "ready", "updated")]
        assert numbers == [count, 2 * count, 2 * count, count]


def test_a_failed_repair_of_a_revision_stops_no_other() -> None:
    former, obj = (
        make_disaggregated(roles=[make_role(*role, image) for role in ROLES.items()])
        for image in ("app:1", "app:2")
    )
    edited = {NAME_LABEL: "llm", REVISION_LABEL: "x"}
    revisions = (recorded(former, 1, labels=edited), recorded(obj, 2, labels=edited))
    planned = plan(DisaggregatedSnapshot(obj, NOW, revisions=revisions, set_read_live=obj))
    repairs = [
        sequence
        for sequence in planned.sequences
        if any(
            isinstance(action, Merge) and action.target.kind == "ControllerRevision" for action in sequence
        )
    ]
    assert [len(sequence) for sequence in repairs] == [1, 1]
