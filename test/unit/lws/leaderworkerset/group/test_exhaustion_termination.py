"""Tests of which workers terminate with their leader (KEP-956), and of the note that outlives the set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.kube.metadata import ORPHAN_FINALIZER
from lws.leaderworkerset.group.exhaustion import Abandoned, plan_termination_annotation
from lws.leaderworkerset.group.objects import build_worker_statefulset
from lws.leaderworkerset.group.plan import plan
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Delete, Merge, Plan, Reference
from lws_api.leaderworkerset.v1 import POD_TERMINATION_POLICY_ANNOTATION
from test.unit.builders import NOW, make_leader_pod, make_set, make_worker_statefulset

Object = dict[str, Any]
PARALLEL, DEFAULT = "Parallel", "Default"


def with_recorded_policy(policy: str | None) -> dict[str, str]:
    return {POD_TERMINATION_POLICY_ANNOTATION: policy} if policy else {}


def workers_of(leader: Object, note: str | None = None, **how: Any) -> Object:
    workers = make_worker_statefulset(leader, **how)
    workers["metadata"]["annotations"] = with_recorded_policy(note)
    return workers


LEADER = make_leader_pod()
TERMINATING = make_leader_pod(terminating=True)
ORPHANING = make_leader_pod(terminating=True)
ORPHANING["metadata"]["finalizers"] = [ORPHAN_FINALIZER]
NOTING = make_leader_pod(terminating=True, annotations=with_recorded_policy(PARALLEL))
FORMER = make_leader_pod(uid="former")


def deleted(planned: Plan) -> list[Reference]:
    actions = [action for sequence in planned.sequences for action in sequence]
    for delete in actions:
        assert isinstance(delete, Delete)
        assert (delete.propagation, delete.grace_seconds) == ("Foreground", None)
        assert delete.why == "its leader pod is being deleted (podTerminationPolicy Parallel)"
    return [delete.target for delete in actions if isinstance(delete, Delete)]


@pytest.mark.parametrize(
    ("policy", "leader", "workers", "deletes_workers"),
    [
        pytest.param(PARALLEL, TERMINATING, workers_of(TERMINATING), True, id="Parallel"),
        pytest.param(DEFAULT, TERMINATING, workers_of(TERMINATING), False, id="Default"),
        pytest.param(None, TERMINATING, workers_of(TERMINATING), False, id="absent, which means Default"),
        pytest.param("Later", TERMINATING, workers_of(TERMINATING), False, id="unknown value"),
        pytest.param([], TERMINATING, workers_of(TERMINATING), False, id="null"),
        pytest.param(
            DEFAULT, TERMINATING, workers_of(TERMINATING, PARALLEL), False, id="the set overrides the record"
        ),
        pytest.param(
            PARALLEL,
            TERMINATING,
            workers_of(TERMINATING, DEFAULT),
            True,
            id="a newer set overrides the record",
        ),
        pytest.param(PARALLEL, TERMINATING, None, False, id="no workers"),
        pytest.param(
            PARALLEL, TERMINATING, workers_of(TERMINATING, terminating=True), False, id="terminating already"
        ),
        pytest.param(PARALLEL, TERMINATING, workers_of(FORMER), False, id="of another leader"),
        pytest.param(PARALLEL, ORPHANING, workers_of(ORPHANING), False, id="deleted without its workers"),
    ],
)
def test_termination_by_policy(
    policy: Any, leader: Object, workers: Object | None, deletes_workers: bool
) -> None:
    group = GroupSnapshot(make_set(podTerminationPolicy=policy), leader, NOW, worker_statefulset=workers)
    planned = plan(group)
    assert deleted(planned) == ([Reference.to(workers)] if workers is not None and deletes_workers else [])
    assert planned.waiting_for == "the leader pod or the set to be gone"


@pytest.mark.parametrize(
    ("leader", "note", "deletes_workers"),
    [
        pytest.param(TERMINATING, PARALLEL, True, id="recorded"),
        pytest.param(TERMINATING, None, False, id="not recorded"),
        pytest.param(TERMINATING, DEFAULT, False, id="recorded differently"),
        pytest.param(NOTING, None, True, id="recorded on the leader, as upstream does"),
        pytest.param(NOTING, DEFAULT, False, id="the newer record applies"),
        pytest.param(ORPHANING, PARALLEL, False, id="deleted without its workers"),
    ],
)
def test_termination_after_the_set_is_deleted(
    leader: Object, note: str | None, deletes_workers: bool
) -> None:
    workers = workers_of(leader, note)
    planned = plan(Abandoned(leader=leader, worker_statefulset=workers))
    assert deleted(planned) == ([Reference.to(workers)] if deletes_workers else [])


def test_a_terminating_set_deletes_no_workers_of_a_kept_leader() -> None:
    """A finalizer of another controller may keep the set for long."""
    lws = make_set(podTerminationPolicy=PARALLEL, terminating=True)
    assert plan(GroupSnapshot(lws, LEADER, NOW, worker_statefulset=workers_of(LEADER))).sequences == ()


def test_a_set_of_another_controller_is_left_alone() -> None:
    lws = make_set(podTerminationPolicy=PARALLEL, managedBy="example.com/other", terminating=True)
    assert (
        plan(GroupSnapshot(lws, TERMINATING, NOW, worker_statefulset=workers_of(TERMINATING))).sequences == ()
    )


@pytest.mark.parametrize(
    ("policy", "leader", "note", "expected"),
    [
        pytest.param(PARALLEL, LEADER, None, PARALLEL, id="turned on"),
        pytest.param(PARALLEL, LEADER, PARALLEL, None, id="on"),
        pytest.param(DEFAULT, LEADER, PARALLEL, DEFAULT, id="turned off"),
        pytest.param(None, LEADER, PARALLEL, DEFAULT, id="removed"),
        pytest.param(None, LEADER, None, None, id="never set"),
        pytest.param(DEFAULT, LEADER, None, None, id="Default as before"),
        pytest.param(PARALLEL, NOTING, None, None, id="recorded by upstream"),
        pytest.param(DEFAULT, NOTING, None, DEFAULT, id="recorded by upstream, then turned off"),
        pytest.param(PARALLEL, LEADER, "Later", PARALLEL, id="edited"),
    ],
)
def test_a_changed_policy_is_recorded_on_the_worker_statefulset(
    policy: str | None, leader: Object, note: str | None, expected: str | None
) -> None:
    workers = workers_of(leader, note)
    group = GroupSnapshot(make_set(podTerminationPolicy=policy), leader, NOW, worker_statefulset=workers)
    merges = [action for sequence in plan_termination_annotation(group).sequences for action in sequence]
    patches = [merge.patch for merge in merges if isinstance(merge, Merge)]
    assert patches == ([{"metadata": {"annotations": with_recorded_policy(expected)}}] if expected else [])
    assert plan_termination_annotation(replace(group, worker_statefulset=None)) == Plan()
    assert (
        plan_termination_annotation(
            replace(group, worker_statefulset=workers_of(leader, note, terminating=True))
        )
        == Plan()
    )


@pytest.mark.parametrize(
    ("policy", "leader", "expected"),
    [(PARALLEL, LEADER, PARALLEL), (DEFAULT, LEADER, None), (None, LEADER, None), (PARALLEL, NOTING, None)],
)
def test_the_policy_is_recorded_when_workers_are_created(
    policy: str | None, leader: Object, expected: str | None
) -> None:
    statefulset = build_worker_statefulset(SetSpec.of(make_set(podTerminationPolicy=policy)), leader)
    assert statefulset["metadata"].get("annotations", {}) == with_recorded_policy(expected)
    assert POD_TERMINATION_POLICY_ANNOTATION not in statefulset["spec"]["template"]["metadata"]["annotations"]
