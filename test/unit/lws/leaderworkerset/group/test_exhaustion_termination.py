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


def noted(policy: str | None) -> dict[str, str]:
    return {POD_TERMINATION_POLICY_ANNOTATION: policy} if policy else {}


def workers_of(leader: Object, note: str | None = None, **how: Any) -> Object:
    workers = make_worker_statefulset(leader, **how)
    workers["metadata"]["annotations"] = noted(note)
    return workers


LEADER = make_leader_pod()
GOING = make_leader_pod(terminating=True)
ORPHANING = make_leader_pod(terminating=True)
ORPHANING["metadata"]["finalizers"] = [ORPHAN_FINALIZER]
NOTING = make_leader_pod(terminating=True, annotations=noted(PARALLEL))
FORMER = make_leader_pod(uid="former")


def deleted(planned: Plan) -> list[Reference]:
    found = [action for sequence in planned.sequences for action in sequence]
    for each in found:
        assert isinstance(each, Delete)
        assert (each.propagation, each.grace_seconds) == ("Foreground", None)
        assert each.why == "its leader pod is being deleted (podTerminationPolicy Parallel)"
    return [each.target for each in found if isinstance(each, Delete)]


@pytest.mark.parametrize(
    ("policy", "leader", "workers", "goes"),
    [
        pytest.param(PARALLEL, GOING, workers_of(GOING), True, id="Parallel"),
        pytest.param(DEFAULT, GOING, workers_of(GOING), False, id="Default"),
        pytest.param(None, GOING, workers_of(GOING), False, id="nothing, which is Default"),
        pytest.param("Later", GOING, workers_of(GOING), False, id="a value that nobody knows"),
        pytest.param([], GOING, workers_of(GOING), False, id="no value at all"),
        pytest.param(DEFAULT, GOING, workers_of(GOING, PARALLEL), False, id="the set counts, not the note"),
        pytest.param(PARALLEL, GOING, workers_of(GOING, DEFAULT), True, id="the set counts, if newer"),
        pytest.param(PARALLEL, GOING, None, False, id="no workers"),
        pytest.param(PARALLEL, GOING, workers_of(GOING, terminating=True), False, id="terminating already"),
        pytest.param(PARALLEL, GOING, workers_of(FORMER), False, id="of another leader"),
        pytest.param(PARALLEL, ORPHANING, workers_of(ORPHANING), False, id="deleted without its workers"),
    ],
)
def test_termination_by_policy(policy: Any, leader: Object, workers: Object | None, goes: bool) -> None:
    group = GroupSnapshot(make_set(podTerminationPolicy=policy), leader, NOW, worker_statefulset=workers)
    planned = plan(group)
    assert deleted(planned) == ([Reference.to(workers)] if workers is not None and goes else [])
    assert planned.waiting_for == "the leader pod or the set to be gone"


@pytest.mark.parametrize(
    ("leader", "note", "goes"),
    [
        pytest.param(GOING, PARALLEL, True, id="noted"),
        pytest.param(GOING, None, False, id="not noted"),
        pytest.param(GOING, DEFAULT, False, id="noted otherwise"),
        pytest.param(NOTING, None, True, id="noted on the leader, as upstream does"),
        pytest.param(NOTING, DEFAULT, False, id="the newer note counts"),
        pytest.param(ORPHANING, PARALLEL, False, id="deleted without its workers"),
    ],
)
def test_of_a_set_that_is_gone(leader: Object, note: str | None, goes: bool) -> None:
    workers = workers_of(leader, note)
    planned = plan(Abandoned(leader=leader, workers=workers))
    assert deleted(planned) == ([Reference.to(workers)] if goes else [])


def test_a_set_that_is_deleted_takes_no_workers_of_a_leader_that_stays() -> None:
    """A finalizer of another controller may keep the set for long."""
    lws = make_set(podTerminationPolicy=PARALLEL, terminating=True)
    assert plan(GroupSnapshot(lws, LEADER, NOW, worker_statefulset=workers_of(LEADER))).sequences == ()


def test_a_set_that_another_controller_runs_is_left_to_it() -> None:
    lws = make_set(podTerminationPolicy=PARALLEL, managedBy="example.com/other", terminating=True)
    assert plan(GroupSnapshot(lws, GOING, NOW, worker_statefulset=workers_of(GOING))).sequences == ()


@pytest.mark.parametrize(
    ("policy", "leader", "note", "expected"),
    [
        pytest.param(PARALLEL, LEADER, None, PARALLEL, id="turned on"),
        pytest.param(PARALLEL, LEADER, PARALLEL, None, id="on"),
        pytest.param(DEFAULT, LEADER, PARALLEL, DEFAULT, id="turned off"),
        pytest.param(None, LEADER, PARALLEL, DEFAULT, id="taken away"),
        pytest.param(None, LEADER, None, None, id="never asked for"),
        pytest.param(DEFAULT, LEADER, None, None, id="off, as ever"),
        pytest.param(PARALLEL, NOTING, None, None, id="noted by upstream"),
        pytest.param(DEFAULT, NOTING, None, DEFAULT, id="noted by upstream, and turned off since"),
        pytest.param(PARALLEL, LEADER, "Later", PARALLEL, id="edited"),
    ],
)
def test_a_changed_policy_is_noted_beside_the_pods(
    policy: str | None, leader: Object, note: str | None, expected: str | None
) -> None:
    workers = workers_of(leader, note)
    group = GroupSnapshot(make_set(podTerminationPolicy=policy), leader, NOW, worker_statefulset=workers)
    merges = [action for sequence in plan_termination_annotation(group).sequences for action in sequence]
    patches = [each.patch for each in merges if isinstance(each, Merge)]
    assert patches == ([{"metadata": {"annotations": noted(expected)}}] if expected else [])
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
def test_it_is_noted_when_workers_are_created(
    policy: str | None, leader: Object, expected: str | None
) -> None:
    made = build_worker_statefulset(SetSpec.of(make_set(podTerminationPolicy=policy)), leader)
    assert made["metadata"].get("annotations", {}) == noted(expected)
    assert POD_TERMINATION_POLICY_ANNOTATION not in made["spec"]["template"]["metadata"]["annotations"]
