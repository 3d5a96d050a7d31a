"""lws.cli.facts.prospect: where a set stands in its rollout."""

from __future__ import annotations

from dataclasses import replace

from lws.cli.facts.prospect import prospect_of
from lws.kube.ownership import Standing
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.state import Budget
from lws.leaderworkerset.snapshot import SetSnapshot
from test.unit.builders import NOW, make_leader_statefulset, make_set
from test.unit.lws.cli.histories import revision_of, sets, snapshot_of

A, B = sets("app:1", "app:2", replicas=4, max_surge="30%", max_unavailable="50%")
HISTORY = [revision_of(A, 1), revision_of(B, 2)]


def test_at_rest() -> None:
    prospect = prospect_of(snapshot_of(A, HISTORY[:1]))
    assert (prospect.key, prospect.replicas, prospect.standing) == (record(A).key, 4, Standing.OURS)
    assert prospect.state.statefulset == LeaderStatefulSet(replicas=4, partition=0, asked=4)
    assert prospect.state.budget == Budget(unavailable=2, surge=2)
    assert (prospect.outdated, prospect.held, prospect.is_paused) == ((), (), False)


def test_in_a_rollout() -> None:
    prospect = prospect_of(snapshot_of(B, HISTORY, [A, A, B, B]))
    assert prospect.key == record(B).key
    assert prospect.outdated == (0, 1)
    assert [group.outdated for group in prospect.groups] == [True, True, False, False]


def test_a_surge_group_is_not_replaced() -> None:
    assert prospect_of(snapshot_of(B, HISTORY, [B, B, B, B, A])).outdated == ()


def test_behind_a_partition() -> None:
    held = make_set(image="app:2", replicas=4, partition=3)
    prospect = prospect_of(snapshot_of(held, HISTORY, [A, B, A, A]))
    assert (prospect.held, prospect.outdated) == ((0, 2), (3,))


def test_paused() -> None:
    paused = make_set(image="app:2", replicas=4, rolloutStrategy={"paused": True})
    prospect = prospect_of(snapshot_of(paused, HISTORY, [A, A, A, B]))
    assert prospect.is_paused
    assert prospect.outdated == (0, 1, 2)


def test_a_set_that_does_not_exist_yet() -> None:
    prospect = prospect_of(SetSnapshot(lws=A, now=NOW))
    assert (prospect.key, prospect.standing) == (record(A).key, Standing.ABSENT)
    assert prospect.state.statefulset is None


def test_a_stranger_has_its_name() -> None:
    other = make_leader_statefulset(make_set("other"))
    other["metadata"]["name"] = "demo"
    uid = other["metadata"]["ownerReferences"][0]["uid"] = "somebody"
    snapshot = replace(snapshot_of(A, HISTORY, [], leader=other), owners_alive=frozenset({uid}))
    prospect = prospect_of(snapshot)
    assert (prospect.standing, prospect.state.statefulset) == (Standing.CLASH, None)
