"""Tests of lws.leaderworkerset.assessment.ownership: objects that users created are not adopted.

An adopted object is deleted with its set.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lws.kube.conditions import find
from lws.kube.ownership import Ownership
from lws.leaderworkerset.assessment.ownership import (
    may_be_adopted,
    ownership_of_disruption_budget,
    ownership_of_leaders,
    ownership_of_service,
    ownership_of_workers,
)
from lws.leaderworkerset.children.services import build_group_service, build_service
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import SetOwner
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REVISION_LABEL
from test.unit import api_server
from test.unit.builders import NOW, make_leader_pod, make_set, make_worker_statefulset, trim
from test.unit.compat.states import load, names
from test.unit.set_world import actions_of, carried_out, settled

Change = Callable[[dict[str, Any]], Any]
OURS = make_set(podDisruptionBudget={"maxUnavailableGroups": 1})
WRITERS = [{"manager": "kubectl-create", "operation": "Update", "fieldsV1": {"f:spec": {"f:selector": {}}}}]


def created_by_a_user(obj: dict[str, Any]) -> None:
    obj["metadata"]["managedFields"] = WRITERS


def orphan(obj: Any, change: Change = lambda obj: None) -> dict[str, Any]:
    orphaned: dict[str, Any] = copy.deepcopy(dict(obj))
    orphaned["metadata"]["ownerReferences"] = []
    change(orphaned)
    return orphaned


STATEFULSETS = [
    pytest.param(lambda obj: None, Ownership.ORPHAN, id="as the set creates it"),
    pytest.param(
        lambda obj: obj["metadata"]["labels"].update(team="a"),
        Ownership.ORPHAN,
        id="with an additional label",
    ),
    pytest.param(
        lambda obj: obj["metadata"]["labels"].pop(NAME_LABEL), Ownership.NAME_CLASH, id="no name label"
    ),
    pytest.param(
        lambda obj: obj["spec"].update(selector={"matchLabels": {"app": "x"}}),
        Ownership.NAME_CLASH,
        id="another selector",
    ),
    pytest.param(
        lambda obj: obj["spec"]["selector"].update(matchExpressions=[{"key": "a", "operator": "Exists"}]),
        Ownership.NAME_CLASH,
        id="a narrower selector",
    ),
    pytest.param(lambda obj: obj["spec"].update(serviceName="x"), Ownership.NAME_CLASH, id="another Service"),
    pytest.param(
        lambda obj: obj["spec"].update(podManagementPolicy="OrderedReady"),
        Ownership.NAME_CLASH,
        id="pods in order",
    ),
    pytest.param(
        lambda obj: obj["spec"]["template"]["metadata"]["labels"].pop(REVISION_LABEL),
        Ownership.NAME_CLASH,
        id="pods of no revision",
    ),
]


@pytest.mark.parametrize(("change", "ownership"), STATEFULSETS)
def test_a_statefulset_is_adopted_only_if_the_set_could_have_created_it(
    change: Change, ownership: Ownership
) -> None:
    snapshot = settled(OURS)
    snapshot = replace(
        snapshot, leaders=orphan(snapshot.leaders, change), set_read_live=snapshot.lws, groups=()
    )
    assert ownership_of_leaders(snapshot) is ownership
    adopted = [action.target.kind for action in actions_of(plan(snapshot)) if isinstance(action, SetOwner)]
    assert adopted == ["StatefulSet"] * (ownership is Ownership.ORPHAN)


@pytest.mark.parametrize(("change", "ownership"), STATEFULSETS)
def test_workers_are_adopted_only_if_the_group_could_have_created_them(
    change: Change, ownership: Ownership
) -> None:
    leader = make_leader_pod(OURS, 1)
    workers = orphan(make_worker_statefulset(leader), change)
    assert ownership_of_workers(workers, leader, "demo", ()) is ownership
    other_leader = make_leader_pod(OURS, 0)
    assert ownership_of_workers(workers, other_leader, "demo", ()) is Ownership.NAME_CLASH, (
        "they are of another group"
    )


@pytest.mark.parametrize("name", names())
def test_objects_created_by_upstream_are_adopted(name: str) -> None:
    state = load(name)
    snapshot = SetSnapshot(state.lws, NOW, leaders=orphan(state.leaders))
    assert ownership_of_leaders(snapshot) is Ownership.ORPHAN
    pods = {pod["metadata"]["name"]: pod for pod in state.of_kind("Pod")}
    workers = [
        statefulset for statefulset in state.of_kind("StatefulSet") if statefulset["metadata"]["name"] in pods
    ]
    for statefulset in workers:
        leader, set_name = pods[statefulset["metadata"]["name"]], state.lws["metadata"]["name"]
        assert ownership_of_workers(orphan(statefulset), leader, set_name, ()) is Ownership.ORPHAN


SHARED = build_service("demo", "demo", {NAME_LABEL: "demo"}, OURS)
OWN = build_group_service("demo", make_leader_pod(OURS, 1))
SERVICES = [
    pytest.param(lambda obj: None, Ownership.ORPHAN, id="as the set creates it"),
    pytest.param(created_by_a_user, Ownership.SUFFICIENT, id="a user's, like ours"),
    pytest.param(
        lambda obj: obj["metadata"].pop("managedFields"), Ownership.SUFFICIENT, id="without managed fields"
    ),
    pytest.param(lambda obj: obj["metadata"].pop("labels"), Ownership.SUFFICIENT, id="without our label"),
    pytest.param(
        lambda obj: (
            created_by_a_user(obj),
            obj["spec"].pop("publishNotReadyAddresses"),
            obj["spec"].update(ports=[{"port": 80}]),
        ),
        Ownership.SUFFICIENT,
        id="a user's, with ports and ready pods only",
    ),
    pytest.param(
        lambda obj: (created_by_a_user(obj), obj["spec"].update(clusterIP="10.0.0.1")),
        Ownership.NAME_CLASH,
        id="a user's, not headless",
    ),
    pytest.param(
        lambda obj: obj["spec"].update(selector={"app": "x"}), Ownership.NAME_CLASH, id="another selector"
    ),
    pytest.param(
        lambda obj: obj["spec"]["selector"].update(app="x"), Ownership.NAME_CLASH, id="a narrower selector"
    ),
    pytest.param(lambda obj: obj["spec"].pop("selector"), Ownership.NAME_CLASH, id="no selector"),
]


@pytest.mark.parametrize("intent", [SHARED, OWN], ids=["of the set", "of a group"])
@pytest.mark.parametrize(("change", "ownership"), SERVICES)
def test_a_users_own_headless_service_satisfies_the_need(
    intent: dict[str, Any], change: Change, ownership: Ownership
) -> None:
    service = trim(orphan(api_server.stored(copy.deepcopy(intent)), change))
    assert ownership_of_service(service, "u-owner", intent, ()) is ownership
    assert not may_be_adopted(service) or ownership is not Ownership.SUFFICIENT


def test_an_equivalent_service_of_a_user_causes_no_problem_and_no_write() -> None:
    snapshot = settled(OURS)
    own = trim(orphan(snapshot.service, created_by_a_user))
    snapshot = replace(snapshot, service=own, set_read_live=snapshot.lws)
    planned = plan(snapshot)
    assert planned.is_empty and planned.announce == ()
    assert planned.again_after == 30.0, "no stream may show its deletion"
    assert find(carried_out(snapshot, planned).lws["status"]["conditions"], "ReplicaFailure") is None
    assert actions_of(plan(replace(snapshot, service=None))) != [], "it is deleted: the set creates its own"


def test_a_service_with_another_controller_is_a_name_clash() -> None:
    owner = {"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": "u-9", "controller": True}
    service = orphan(api_server.stored(copy.deepcopy(SHARED)))
    service["metadata"]["ownerReferences"] = [owner]
    assert ownership_of_service(service, "u-owner", SHARED, {"u-9"}) is Ownership.NAME_CLASH


@pytest.mark.parametrize(
    ("selector", "ownership"),
    [
        pytest.param({"matchLabels": {NAME_LABEL: "demo"}}, Ownership.ORPHAN, id="ours"),
        pytest.param(
            {"matchLabels": {NAME_LABEL: "demo", GROUP_INDEX_LABEL: "0"}},
            Ownership.NAME_CLASH,
            id="narrower selector",
        ),
        pytest.param({}, Ownership.NAME_CLASH, id="empty selector"),
    ],
)
def test_a_budget_is_adopted_only_if_it_selects_the_pods_of_the_set(
    selector: Any, ownership: Ownership
) -> None:
    snapshot = settled(OURS)
    budget = orphan(snapshot.pod_disruption_budget, lambda obj: obj["spec"].update(selector=selector))
    assert ownership_of_disruption_budget(replace(snapshot, pod_disruption_budget=budget)) is ownership
