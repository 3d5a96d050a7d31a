"""Tests of lws.leaderworkerset.assessment.assessment: the state of a set, for plans and commands."""

from __future__ import annotations

from dataclasses import replace

from lws.kube.ownership import Ownership
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.state import Budget
from lws.leaderworkerset.snapshot import SetSnapshot
from test.unit.builders import NOW, make_leader_statefulset, make_set
from test.unit.lws.cli.histories import revision_of, sets, snapshot_of

A, B = sets("app:1", "app:2", replicas=4, max_surge="30%", max_unavailable="50%")
HISTORY = [revision_of(A, 1), revision_of(B, 2)]


def test_settled_set() -> None:
    assessment = assess(snapshot_of(A, HISTORY[:1]))
    assert (assessment.target.key, assessment.rollout.replicas, assessment.ownership) == (
        record(A).key,
        4,
        Ownership.OURS,
    )
    assert assessment.rollout.statefulset == LeaderStatefulSet(replicas=4, partition=0, last_replicas=4)
    assert assessment.rollout.budget == Budget(unavailable=2, surge=2)
    assert (assessment.rollout.outdated, assessment.rollout.pinned, assessment.rollout.paused) == (
        (),
        (),
        False,
    )


def test_set_during_a_rollout() -> None:
    assessment = assess(snapshot_of(B, HISTORY, [A, A, B, B]))
    assert assessment.target.key == record(B).key
    assert assessment.rollout.outdated == (0, 1)
    assert [group.outdated for group in assessment.groups] == [True, True, False, False]


def test_a_surge_group_is_not_replaced() -> None:
    assert assess(snapshot_of(B, HISTORY, [B, B, B, B, A])).rollout.outdated == ()


def test_set_with_a_partition() -> None:
    partitioned = make_set(image="app:2", replicas=4, partition=3)
    assessment = assess(snapshot_of(partitioned, HISTORY, [A, B, A, A]))
    assert (assessment.rollout.pinned, assessment.rollout.outdated) == ((0, 2), (3,))


def test_paused_rollout() -> None:
    paused = make_set(image="app:2", replicas=4, rolloutStrategy={"paused": True})
    assessment = assess(snapshot_of(paused, HISTORY, [A, A, A, B]))
    assert assessment.rollout.paused
    assert assessment.rollout.outdated == (0, 1, 2)


def test_new_set() -> None:
    assessment = assess(SetSnapshot(lws=A, now=NOW))
    assert (assessment.target.key, assessment.ownership) == (record(A).key, Ownership.ABSENT)
    assert assessment.rollout.statefulset is None


def test_a_foreign_statefulset_with_the_name_is_not_ours() -> None:
    foreign = make_leader_statefulset(make_set("other"))
    foreign["metadata"]["name"] = "demo"
    uid = foreign["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another-owner"
    snapshot = replace(snapshot_of(A, HISTORY, [], leader=foreign), owners_alive=frozenset({uid}))
    assessment = assess(snapshot)
    assert (assessment.ownership, assessment.rollout.statefulset) == (Ownership.NAME_CLASH, None)
