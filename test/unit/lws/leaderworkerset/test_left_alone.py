"""lws.leaderworkerset.left_alone: sets that the controller does not act on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lws.kube.conditions import find, is_true
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import SetSnapshot
from test.unit.builders import NOW, make_set
from test.unit.set_world import settled


@pytest.mark.parametrize("namespace_is_new", [True, False], ids=["nothing is there", "it runs"])
def test_a_set_in_a_namespace_that_the_pod_webhook_does_not_see_gets_a_condition_and_nothing_else(
    namespace_is_new: bool,
) -> None:
    snapshot = SetSnapshot(make_set(), NOW) if namespace_is_new else settled(make_set())
    planned = plan(replace(snapshot, is_covered=False))
    assert planned.sequences == ()
    (status,) = planned.statuses
    condition = find(status.patch["conditions"], "ReplicaFailure")
    assert condition is not None and condition["reason"] == "NamespaceNotCovered"
    assert "namespaceSelector of the pod webhook does not select namespace default" in condition["message"]
    assert status.patch.keys() == {"conditions"}
    (event,) = planned.announce
    assert (event.type, event.reason, event.note) == ("Warning", "NamespaceNotCovered", condition["message"])


def test_it_is_reported_once() -> None:
    snapshot = replace(settled(make_set()), is_covered=False)
    (status,) = plan(snapshot).statuses
    lws = {**snapshot.lws, "status": {**snapshot.lws["status"], **status.patch}}
    again = plan(replace(snapshot, lws=lws))
    assert (again.statuses, again.announce, again.sequences) == ((), (), ())


def test_conditions_that_were_there_stay_and_the_problem_goes_with_its_cause() -> None:
    snapshot = replace(settled(make_set()), is_covered=False)
    (status,) = plan(snapshot).statuses
    lws = {**snapshot.lws, "status": {**snapshot.lws["status"], **status.patch}}
    assert is_true(lws["status"]["conditions"], "Available")
    (status,) = plan(replace(snapshot, lws=lws, is_covered=True)).statuses
    assert find(status.patch["conditions"], "ReplicaFailure") is None


def test_other_sets_are_run() -> None:
    assert why_left_alone(make_set(), is_covered=True) is None


def test_a_set_that_cannot_be_read_is_left_alone() -> None:
    planned = plan(replace(settled(make_set()), fault="spec.replicas is 'two', not a whole number"))
    (event,) = planned.announce
    assert (planned.sequences, event.reason) == ((), "UnreadableSpec")
    assert event.note.startswith("spec.replicas is 'two', not a whole number: ")
