"""Tests of lws.leaderworkerset.left_alone: sets that the controller does not act on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.kube.conditions import find, is_true
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.scheduling import NO_SCHEDULER
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Plan
from test.unit.builders import NOW, make_leader_pod, make_set
from test.unit.set_world import judged, settled


@pytest.mark.parametrize("namespace_is_new", [True, False], ids=["a new set", "a running set"])
def test_a_set_in_an_uncovered_namespace_gets_only_a_condition(
    namespace_is_new: bool,
) -> None:
    snapshot = SetSnapshot(make_set(), NOW) if namespace_is_new else settled(make_set())
    planned = plan(judged(snapshot, is_covered=False))
    assert planned.sequences == () and planned.is_left_alone
    (status,) = planned.statuses
    condition = find(status.patch["conditions"], "ReplicaFailure")
    assert condition is not None and condition["reason"] == "NamespaceNotCovered"
    assert "namespaceSelector of the pod webhook does not select namespace default" in condition["message"]
    assert status.patch.keys() == {"conditions"}
    (event,) = planned.announce
    assert (event.type, event.reason, event.note) == ("Warning", "NamespaceNotCovered", condition["message"])


def test_an_uncovered_namespace_is_reported_once() -> None:
    snapshot = judged(settled(make_set()), is_covered=False)
    (status,) = plan(snapshot).statuses
    lws = {**snapshot.lws, "status": {**snapshot.lws["status"], **status.patch}}
    again = plan(replace(snapshot, lws=lws))
    assert (again.statuses, again.announce, again.sequences) == ((), (), ())


def test_other_conditions_are_kept_and_the_problem_is_removed_with_its_cause() -> None:
    snapshot = judged(settled(make_set()), is_covered=False)
    (status,) = plan(snapshot).statuses
    lws = {**snapshot.lws, "status": {**snapshot.lws["status"], **status.patch}}
    assert is_true(lws["status"]["conditions"], "Available")
    (status,) = plan(judged(replace(snapshot, lws=lws))).statuses
    assert find(status.patch["conditions"], "ReplicaFailure") is None


@pytest.mark.parametrize("name", [None, "leaderworkerset.sigs.k8s.io/lws-controller"])
def test_sets_of_this_controller_are_reconciled(name: str | None) -> None:
    assert why_left_alone(make_set(managedBy=name), True, NO_SCHEDULER) is None
    ours = settled(make_set())
    named = {**ours.lws, "spec": {**ours.lws["spec"], "managedBy": name}}
    assert plan(judged(replace(ours, lws=named))) == plan(ours)


@pytest.mark.parametrize(
    "facts",
    [{}, {"is_covered": False}, {"fault": "spec.replicas is 'two', not a whole number"}],
    ids=["plain", "a namespace that is not covered", "a spec that cannot be read"],
)
@pytest.mark.parametrize("runs", [True, False], ids=["a running set", "a new set"])
def test_a_set_of_another_controller_gets_no_writes(facts: dict[str, Any], runs: bool) -> None:
    plain = settled(make_set()) if runs else SetSnapshot(make_set(scheduling={}), NOW)
    lws = {**plain.lws, "spec": {**plain.lws["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}}
    planned = plan(judged(replace(plain, lws=lws), **facts))
    assert planned == Plan(), "no metrics either: they are those of the other controller"
    problem = why_left_alone(lws, True, NO_SCHEDULER)
    assert problem is not None
    assert problem.message == "kueue.x-k8s.io/multikueue runs this set (spec.managedBy)"


def test_groups_of_a_set_of_another_controller_get_no_writes() -> None:
    lws = make_set(managedBy="kueue.x-k8s.io/multikueue")
    leader = make_leader_pod(lws, 0)
    leader["status"] |= {"phase": "Failed"}
    planned = plan_group(judged(GroupSnapshot(lws, leader, NOW)))
    assert (planned.sequences, planned.announce, planned.statuses) == ((), (), ())


def test_a_set_with_an_invalid_spec_is_left_alone() -> None:
    planned = plan(judged(settled(make_set()), fault="spec.replicas is 'two', not a whole number"))
    (event,) = planned.announce
    assert (planned.sequences, event.reason) == ((), "UnreadableSpec")
    assert event.note.startswith("spec.replicas is 'two', not a whole number: ")
