"""lws.cli.facts.set_status: how a set stands; see test_status_view for how that looks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.cli.facts.set_status import revision_number, standing_of
from lws.leaderworkerset.revisions.history import record
from test.unit.builders import make_leader_statefulset, make_set
from test.unit.lws.cli.histories import found, past, revision_of, sets, snapshot_of, with_status

A, B = sets("app:1", "app:2", replicas=2)
HISTORY = [revision_of(A, 1), revision_of(B, 2)]


def test_settings_that_no_revision_has_recorded() -> None:
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    live = make_set(image="app:1", template={"restartPolicy": "None"})
    revisions = [revision_of(make_set(image="app:1", template=policy), 1)]
    facts = standing_of(found(snapshot_of(live, revisions), revisions))
    assert [line.split(":")[0] for line in facts.live_only] == [
        "restartPolicy is None, revision 1 has recorded RecreateGroupOnPodRestart",
        "persistentVolumeClaimRetentionPolicy is not set, revision 1 has recorded whenDeleted Delete",
    ]
    assert standing_of(found(snapshot_of(A, HISTORY), HISTORY)).live_only == ()


def test_a_key_without_a_revision_is_shown_itself() -> None:
    snapshot = with_status(snapshot_of(B, HISTORY[1:], [A, B]))
    assert standing_of(found(snapshot, HISTORY[1:])).groups[0].revision == record(A).key
    assert revision_number(past(A), "") == "<none>"


@pytest.mark.parametrize(
    ("status", "leader", "running", "settled"),
    [
        pytest.param({}, {}, [B, B], True, id="settled"),
        pytest.param({"observedGeneration": 0}, {}, [B, B], False, id="not looked at yet"),
        pytest.param({"conditions": []}, {}, [B, B], False, id="not said yet"),
        pytest.param({}, {}, [A, B], False, id="outdated"),
        pytest.param({}, {}, [B], False, id="missing"),
        pytest.param({}, {"replicas": 3}, [B, B, B], False, id="surge"),
        pytest.param({}, {"replicas": 3}, [B, B], False, id="surge to come"),
    ],
)
def test_settled(
    status: dict[str, Any], leader: dict[str, Any], running: list[dict[str, Any]], settled: bool
) -> None:
    leaders = make_leader_statefulset(B, key=record(B).key, **leader)
    snapshot = with_status(snapshot_of(B, HISTORY, running, leader=leaders), **status)
    facts = standing_of(found(snapshot, HISTORY))
    assert (facts.is_settled, bool(facts.waiting_for)) == (settled, not settled)


def test_a_set_that_is_left_alone_says_so() -> None:
    """It was stored by a later release of the original."""
    hashed = make_set(image="app:1", groupIdentity="Hash")
    facts = standing_of(found(snapshot_of(hashed, HISTORY), HISTORY))
    assert not facts.is_settled
    assert facts.waiting_for.startswith("spec.groupIdentity: groups have ordinals here")


def test_claims_that_go_with_their_group() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    lws = make_set(image="app:1", template={"volumeClaimTemplates": [claim]})
    revisions = [revision_of(lws, 1)]
    snapshot = snapshot_of(lws, revisions)
    assert standing_of(found(snapshot, revisions)).at_risk == ()
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    groups = tuple(
        replace(each, workers={**each.workers, "spec": {**each.workers["spec"], **policy}})
        for each in snapshot.groups
        if each.workers is not None
    )
    (line,) = standing_of(found(replace(snapshot, groups=groups), revisions)).at_risk
    assert line.startswith("worker StatefulSet demo-0 and 1 more: whenDeleted is Delete, as the original")
