"""Tests of lws.leaderworkerset.children.services: creation, repair and deletion of the Services of a set.

test_plan.py covers the creation of the shared Service.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from lws.kube.metadata import owner_reference
from lws.leaderworkerset.children.services import (
    build_leader_service,
    plan_leader_service,
    plan_service,
    ports_of,
)
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Create, Delete, Merge, SetOwner
from lws_api.leaderworkerset.v1 import NAME_LABEL, WORKER_INDEX_LABEL
from test.unit import api_server
from test.unit.builders import NOW, make_set
from test.unit.set_world import actions_of, carried_out, settled, with_groups, with_spec

UNIQUE = {"subdomainPolicy": "UniquePerReplica"}
HTTP = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}


def set_with_unused_shared_service() -> SetSnapshot:
    """Return a set whose policy has changed from Shared and whose last group has moved."""
    before = settled(make_set())
    started = with_spec(before, make_set(networkConfig=UNIQUE))
    return with_groups(carried_out(started, plan(started)))


def test_shared_service_is_deleted_after_the_last_group_moved() -> None:
    before = settled(make_set())
    started = with_spec(before, make_set(networkConfig=UNIQUE))
    assert not any(
        isinstance(action, Delete) and action.target.kind == "Service" for action in actions_of(plan(started))
    )
    done = set_with_unused_shared_service()
    (delete,) = (action for action in actions_of(plan(done)) if isinstance(action, Delete))
    assert (delete.target.kind, delete.target.name, delete.propagation) == ("Service", "demo", "Background")
    assert done.service is not None
    assert delete.target.uid == done.service["metadata"]["uid"]


def without_owner(snapshot: SetSnapshot) -> SetSnapshot:
    assert snapshot.service is not None
    service: dict[str, Any] = dict(snapshot.service)
    service["metadata"] = {**service["metadata"], "ownerReferences": []}
    return replace(snapshot, service=service)


def with_key(snapshot: SetSnapshot, key: str) -> SetSnapshot:
    return replace(snapshot, live_keys=snapshot.live_keys | {key})


def old_key(snapshot: SetSnapshot) -> str:
    (key,) = {revision.key for revision in snapshot.revisions} - snapshot.live_keys
    return key


def without_history(snapshot: SetSnapshot) -> SetSnapshot:
    live_revisions = tuple(revision for revision in snapshot.revisions if revision.key in snapshot.live_keys)
    return replace(snapshot, revisions=live_revisions)


@pytest.mark.parametrize(
    ("snapshot", "is_done"),
    [
        pytest.param(set_with_unused_shared_service(), False, id="a group is not updated yet"),
        pytest.param(
            with_key(set_with_unused_shared_service(), old_key(set_with_unused_shared_service())),
            True,
            id="a pod still has the old revision",
        ),
        pytest.param(
            with_key(set_with_unused_shared_service(), "unknown"), True, id="the revision of a pod is unknown"
        ),
        pytest.param(
            without_history(set_with_unused_shared_service()),
            True,
            id="history does not contain the old revision",
        ),
        pytest.param(without_owner(set_with_unused_shared_service()), True, id="not owned by the set"),
        pytest.param(replace(set_with_unused_shared_service(), service=None), True, id="already deleted"),
    ],
)
def test_shared_service_is_kept(snapshot: SetSnapshot, is_done: bool) -> None:
    assert plan_service(snapshot, is_done).sequences == ()


def test_shared_service_is_recreated_when_the_policy_changes_back() -> None:
    without_service = replace(set_with_unused_shared_service(), service=None)
    back = with_spec(without_service, make_set())
    ((create,),) = plan_service(back, is_done=False).sequences
    assert "create" in type(create).__name__.lower()


def set_with_leader_service(**service: Any) -> dict[str, Any]:
    return make_set(leaderService={"ports": [{"name": "http", "port": 80, "targetPort": "http"}], **service})


def snapshot(lws: dict[str, Any], stored: dict[str, Any] | None = None, **facts: Any) -> SetSnapshot:
    return SetSnapshot(lws=lws, now=NOW, leader_service=stored, **facts)


def stored_service(lws: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the Service as the API server stores it."""
    service = api_server.stored(copy.deepcopy(build_leader_service(lws)))
    service["spec"] |= {"clusterIP": "10.0.0.1", **spec}
    return service


def test_no_leader_service_without_the_field() -> None:
    assert plan_leader_service(snapshot(make_set())).sequences == ()


def test_leader_service_field_by_field() -> None:
    lws = set_with_leader_service()
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


def template_with_ports(*containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": f"c{i}", "ports": ports} for i, ports in enumerate(containers)]}}


@pytest.mark.parametrize(
    ("requested", "template", "expected"),
    [
        pytest.param(
            {"ports": [{"port": 8080}]},
            {},
            [{"port": 8080, "protocol": "TCP", "targetPort": 8080}],
            id="port number only",
        ),
        pytest.param(
            {"ports": [{"port": 53, "name": "dns", "protocol": "UDP", "targetPort": 5353}]},
            template_with_ports([{"containerPort": 1}]),
            [{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353}],
            id="requested ports replace declared ports",
        ),
        pytest.param(
            {},
            template_with_ports(
                [{"containerPort": 80, "name": "http"}], [{"containerPort": 9000, "protocol": "UDP"}]
            ),
            [HTTP, {"name": "udp-9000", "port": 9000, "protocol": "UDP", "targetPort": 9000}],
            id="declared ports, targeted by name if they have one",
        ),
        pytest.param(
            {"ports": []},
            template_with_ports(
                [{"containerPort": 80, "name": "http"}], [{"containerPort": 80, "name": "again"}]
            ),
            [HTTP],
            id="duplicate number",
        ),
        pytest.param(
            {},
            template_with_ports(
                [{"containerPort": 80, "name": "http"}], [{"containerPort": 81, "name": "http"}]
            ),
            [HTTP, {"name": "tcp-81", "port": 81, "protocol": "TCP", "targetPort": 81}],
            id="duplicate name",
        ),
        pytest.param(
            {},
            template_with_ports(
                [{"containerPort": 80, "name": "http"}, {"containerPort": 82, "name": "tcp-81"}],
                [{"containerPort": 81, "name": "http"}],
            ),
            [
                HTTP,
                {"name": "tcp-81", "port": 82, "protocol": "TCP", "targetPort": "tcp-81"},
                {"name": "tcp-81-2", "port": 81, "protocol": "TCP", "targetPort": 81},
            ],
            id="duplicate name whose replacement is another port's name",
        ),
        pytest.param({}, {"spec": {}}, [], id="no ports"),
    ],
)
def test_ports_of_the_leader_service(
    requested: dict[str, Any], template: dict[str, Any], expected: list[dict[str, Any]]
) -> None:
    assert ports_of(requested, template) == expected


def test_leader_service_without_ports_is_reported() -> None:
    part = plan_leader_service(snapshot(make_set(leaderService={})))
    assert part.sequences == ()
    (problem,) = part.problems
    assert problem.reason == "LeaderServiceWithoutPorts"


@pytest.mark.parametrize(
    ("requested", "spec", "patch"),
    [
        pytest.param({}, {}, None, id="unchanged"),
        pytest.param({}, {"sessionAffinity": "ClientIP"}, None, id="an unmanaged field"),
        pytest.param(
            {},
            {"selector": {NAME_LABEL: "demo", "x": "y"}},
            {"selector": {"x": None, WORKER_INDEX_LABEL: "0"}},
            id="selector",
        ),
        pytest.param(
            {"type": "NodePort"},
            {"ports": [{**HTTP, "nodePort": 30080}, {**HTTP, "name": "old", "port": 81}], "type": "NodePort"},
            {"ports": [{**HTTP, "nodePort": 30080}]},
            id="a port is removed, another keeps its node port",
        ),
        pytest.param(
            {},
            {"ports": [{**HTTP, "nodePort": 30080}], "type": "NodePort"},
            {"ports": [HTTP], "type": "ClusterIP"},
            id="type",
        ),
        pytest.param(
            {},
            {"publishNotReadyAddresses": True},
            {"publishNotReadyAddresses": False},
            id="publishNotReadyAddresses",
        ),
    ],
)
def test_edits_of_the_leader_service_are_repaired(
    requested: dict[str, Any], spec: dict[str, Any], patch: dict[str, Any] | None
) -> None:
    lws = set_with_leader_service(**requested)
    sequences = plan_leader_service(snapshot(lws, stored_service(lws, **spec))).sequences
    if patch is None:
        assert sequences == ()
        return
    ((merge,),) = sequences
    assert isinstance(merge, Merge)
    assert merge.patch == {"spec": patch}


def test_reason_of_a_change_by_the_set() -> None:
    stored = stored_service(set_with_leader_service())
    ((merge,),) = plan_leader_service(snapshot(set_with_leader_service(type="NodePort"), stored)).sequences
    assert isinstance(merge, Merge) and merge.why == "differs from the desired state: type"


def test_label_of_the_leader_service_is_repaired() -> None:
    lws = set_with_leader_service()
    stored = stored_service(lws)
    stored["metadata"]["labels"] = {}
    ((merge,),) = plan_leader_service(snapshot(lws, stored)).sequences
    assert isinstance(merge, Merge)
    assert merge.patch == {"metadata": {"labels": {NAME_LABEL: "demo"}}}


def test_leader_service_is_deleted_with_the_field_but_a_foreign_service_is_kept() -> None:
    mine, lws = stored_service(set_with_leader_service()), make_set()
    ((delete,),) = plan_leader_service(snapshot(lws, mine)).sequences
    assert isinstance(delete, Delete)
    foreign = copy.deepcopy(mine)
    foreign["metadata"]["ownerReferences"] = []
    assert plan_leader_service(snapshot(lws, foreign)).sequences == ()


def test_foreign_service_with_the_name_is_left_alone_and_reported() -> None:
    lws = set_with_leader_service()
    foreign = stored_service(lws)
    foreign["metadata"] |= {"ownerReferences": []}
    foreign["spec"]["selector"] = {"app": "x"}
    part = plan_leader_service(snapshot(lws, foreign))
    assert part.sequences == ()
    (problem,) = part.problems
    assert problem.reason == "NameClash"
    assert "demo-leader" in problem.message
    assert part.again_after is not None


def test_terminating_leader_service_is_waited_for() -> None:
    lws = set_with_leader_service()
    terminating = stored_service(lws)
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    part = plan_leader_service(snapshot(lws, terminating))
    assert part.sequences == ()
    assert part.waiting_for == "the former Service of the leaders to be gone"


@pytest.mark.parametrize(
    ("spec", "is_equivalent"),
    [
        pytest.param({}, True, id="equivalent"),
        pytest.param({"ports": [{**HTTP, "port": 81}]}, False, id="different port"),
        pytest.param({"type": "NodePort"}, False, id="different type"),
    ],
)
def test_equivalent_service_of_a_user_is_accepted(spec: Any, is_equivalent: bool) -> None:
    lws = set_with_leader_service()
    own = stored_service(lws, **spec)
    own["metadata"] |= {"ownerReferences": [], "managedFields": []}
    part = plan_leader_service(snapshot(lws, own, set_read_live=lws))
    assert part.sequences == () and part.again_after == 30.0
    assert (part.problems == ()) is is_equivalent


def test_orphaned_leader_service_is_adopted() -> None:
    lws = set_with_leader_service()
    orphan = stored_service(lws)
    orphan["metadata"]["ownerReferences"] = []
    ((adoption,),) = plan_leader_service(snapshot(lws, orphan, set_read_live=lws)).sequences
    assert isinstance(adoption, SetOwner) and adoption.owner == owner_reference(lws)
