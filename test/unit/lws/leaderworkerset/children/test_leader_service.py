"""Tests of lws.leaderworkerset.children.services: the Service of leaders is created, repaired and deleted."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.kube.metadata import owner_reference
from lws.leaderworkerset.children.services import build_leader_service, plan_leader_service, ports_of
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Create, Delete, Merge, SetOwner
from lws_api.leaderworkerset.v1 import NAME_LABEL, WORKER_INDEX_LABEL
from test.unit import api_server
from test.unit.builders import NOW, make_set

HTTP = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}


def a_set(**service: Any) -> dict[str, Any]:
    return make_set(leaderService={"ports": [{"name": "http", "port": 80, "targetPort": "http"}], **service})


def snapshot(lws: dict[str, Any], stored: dict[str, Any] | None = None, **facts: Any) -> SetSnapshot:
    return SetSnapshot(lws=lws, now=NOW, leader_service=stored, **facts)


def stored_service(lws: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the Service as the API server stores it."""
    made = api_server.stored(copy.deepcopy(build_leader_service(lws)))
    made["spec"] |= {"clusterIP": "10.0.0.1", **spec}
    return made


def test_a_set_that_does_not_ask_has_none() -> None:
    assert plan_leader_service(snapshot(make_set())).sequences == ()


def test_the_service_field_by_field() -> None:
    lws = a_set()
    ((create,),) = plan_leader_service(snapshot(lws)).sequences
    assert isinstance(create, Create)
    assert create.intent == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "demo-leader",
            "namespace": "default",
            "labels": {NAME_LABEL: "demo"},
            "ownerReferences": [owner_reference(lws)],
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {NAME_LABEL: "demo", WORKER_INDEX_LABEL: "0"},
            "ports": [HTTP],
        },
    }
    assert create.failure is not None
    assert create.failure.note == "Failed to create leader service demo-leader"


def declared(*containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": f"c{i}", "ports": each} for i, each in enumerate(containers)]}}


@pytest.mark.parametrize(
    ("asked", "template", "expected"),
    [
        pytest.param(
            {"ports": [{"port": 8080}]},
            {},
            [{"port": 8080, "protocol": "TCP", "targetPort": 8080}],
            id="a number is enough",
        ),
        pytest.param(
            {"ports": [{"port": 53, "name": "dns", "protocol": "UDP", "targetPort": 5353}]},
            declared([{"containerPort": 1}]),
            [{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353}],
            id="what is asked for counts, not what is declared",
        ),
        pytest.param(
            {},
            declared([{"containerPort": 80, "name": "http"}], [{"containerPort": 9000, "protocol": "UDP"}]),
            [HTTP, {"name": "udp-9000", "port": 9000, "protocol": "UDP", "targetPort": 9000}],
            id="declared ports, by name where they have one",
        ),
        pytest.param(
            {"ports": []},
            declared([{"containerPort": 80, "name": "http"}], [{"containerPort": 80, "name": "again"}]),
            [HTTP],
            id="one number once",
        ),
        pytest.param(
            {},
            declared([{"containerPort": 80, "name": "http"}], [{"containerPort": 81, "name": "http"}]),
            [HTTP, {"name": "tcp-81", "port": 81, "protocol": "TCP", "targetPort": 81}],
            id="one name once",
        ),
        pytest.param({}, {"spec": {}}, [], id="none"),
    ],
)
def test_ports(asked: dict[str, Any], template: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    assert ports_of(asked, template) == expected


def test_without_ports_the_set_says_what_is_missing() -> None:
    part = plan_leader_service(snapshot(make_set(leaderService={})))
    assert part.sequences == ()
    (problem,) = part.problems
    assert problem.reason == "LeaderServiceWithoutPorts"


@pytest.mark.parametrize(
    ("asked", "spec", "patch"),
    [
        pytest.param({}, {}, None, id="as it should be"),
        pytest.param({}, {"sessionAffinity": "ClientIP"}, None, id="the rest is free"),
        pytest.param(
            {},
            {"selector": {NAME_LABEL: "demo", "x": "y"}},
            {"selector": {"x": None, WORKER_INDEX_LABEL: "0"}},
            id="an edited selector",
        ),
        pytest.param(
            {"type": "NodePort"},
            {"ports": [{**HTTP, "nodePort": 30080}, {**HTTP, "name": "old", "port": 81}], "type": "NodePort"},
            {"ports": [{**HTTP, "nodePort": 30080}]},
            id="a port that goes, one that keeps its node port",
        ),
        pytest.param(
            {},
            {"ports": [{**HTTP, "nodePort": 30080}], "type": "NodePort"},
            {"ports": [HTTP], "type": "ClusterIP"},
            id="another type",
        ),
        pytest.param(
            {},
            {"publishNotReadyAddresses": True},
            {"publishNotReadyAddresses": False},
            id="leaders that are not ready",
        ),
    ],
)
def test_it_is_put_back(asked: dict[str, Any], spec: dict[str, Any], patch: dict[str, Any] | None) -> None:
    lws = a_set(**asked)
    sequences = plan_leader_service(snapshot(lws, stored_service(lws, **spec))).sequences
    if patch is None:
        assert sequences == ()
        return
    ((merge,),) = sequences
    assert isinstance(merge, Merge)
    assert merge.patch == {"spec": patch}


def test_that_the_set_asks_for_something_else_is_not_called_an_edit() -> None:
    stored = stored_service(a_set())
    ((merge,),) = plan_leader_service(snapshot(a_set(type="NodePort"), stored)).sequences
    assert isinstance(merge, Merge) and merge.why == "differs from what is wanted: type"


def test_a_lost_label_comes_back() -> None:
    lws = a_set()
    stored = stored_service(lws)
    stored["metadata"]["labels"] = {}
    ((merge,),) = plan_leader_service(snapshot(lws, stored)).sequences
    assert isinstance(merge, Merge)
    assert merge.patch == {"metadata": {"labels": {NAME_LABEL: "demo"}}}


def test_it_goes_when_nobody_asks_any_more_and_a_stranger_stays() -> None:
    mine, lws = stored_service(a_set()), make_set()
    ((delete,),) = plan_leader_service(snapshot(lws, mine)).sequences
    assert isinstance(delete, Delete)
    stranger = copy.deepcopy(mine)
    stranger["metadata"]["ownerReferences"] = []
    assert plan_leader_service(snapshot(lws, stranger)).sequences == ()


def test_a_stranger_of_the_name_is_left_alone_and_named() -> None:
    lws = a_set()
    stranger = stored_service(lws)
    stranger["metadata"] |= {"ownerReferences": []}
    stranger["spec"]["selector"] = {"app": "x"}
    part = plan_leader_service(snapshot(lws, stranger))
    assert part.sequences == ()
    (problem,) = part.problems
    assert problem.reason == "NameClash"
    assert "demo-leader" in problem.message
    assert part.again_after is not None


def test_one_that_is_going_is_waited_for() -> None:
    lws = a_set()
    going = stored_service(lws)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    part = plan_leader_service(snapshot(lws, going))
    assert part.sequences == ()
    assert part.waiting_for == "the former Service of the leaders to be gone"


@pytest.mark.parametrize(
    ("spec", "suffices"),
    [
        pytest.param({}, True, id="the same"),
        pytest.param({"ports": [{**HTTP, "port": 81}]}, False, id="another port"),
        pytest.param({"type": "NodePort"}, False, id="another type"),
    ],
)
def test_a_users_own_service_that_does_the_same_is_not_in_the_way(spec: Any, suffices: bool) -> None:
    lws = a_set()
    own = stored_service(lws, **spec)
    own["metadata"] |= {"ownerReferences": [], "managedFields": []}
    part = plan_leader_service(snapshot(lws, own, reread=lws))
    assert part.sequences == () and part.again_after == 30.0
    assert (part.problems == ()) is suffices


def test_an_orphan_of_the_set_is_adopted() -> None:
    lws = a_set()
    orphan = stored_service(lws)
    orphan["metadata"]["ownerReferences"] = []
    ((adoption,),) = plan_leader_service(snapshot(lws, orphan, reread=lws)).sequences
    assert isinstance(adoption, SetOwner) and adoption.owner == owner_reference(lws)
