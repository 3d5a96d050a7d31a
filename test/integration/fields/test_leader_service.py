"""Clients reach the leaders through the Service that a set requests, also after both have changed."""

from __future__ import annotations

from typing import Any

from test.harness.events import events_of
from test.harness.groups import names_of, settle
from test.harness.manifests import a_set, scaled_to
from test.harness.waiting import eventually
from test.harness.world import SET, World

SERVICE = "served-leader"


def backends(world: World) -> set[str]:
    """Return the pods behind the Service."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{world.namespace}/endpointslices"
    slices = world.api.get(f"{path}?labelSelector=kubernetes.io/service-name={SERVICE}")["items"]
    endpoints = [endpoint for endpoint_slice in slices for endpoint in endpoint_slice.get("endpoints") or ()]
    return {endpoint["targetRef"]["name"] for endpoint in endpoints if endpoint["conditions"].get("ready")}


def ports(world: World) -> list[Any]:
    return [port["port"] for port in world.get("Service", SERVICE)["spec"]["ports"]]


def test_endpoints_of_the_leader_service_after_scaling_down(world: World) -> None:
    world.create(a_set("served", 3, 2, leaderService={"ports": [{"port": 80, "targetPort": 8080}]}))
    settle(world, "served")
    leaders = {"served-0", "served-1", "served-2"}
    eventually(
        "the Service has all leaders", lambda: backends(world), lambda now: now == leaders, seconds=120
    )

    world.patch("Service", SERVICE, {"spec": {"selector": {"app": "other"}}})
    world.patch(SET, "served", {"spec": {"leaderService": {"ports": [{"port": 81}]}}})
    eventually("the Service has the new port", lambda: ports(world), lambda now: now == [81], seconds=120)
    eventually(
        "the Service has all leaders again", lambda: backends(world), lambda now: now == leaders, seconds=120
    )
    uid = world.uid("Service", SERVICE)
    world.delete("Service", SERVICE)
    world.gone_or_replaced("Service", SERVICE, uid, seconds=120)
    eventually("the Service is recreated", lambda: world.find("Service", SERVICE), bool, seconds=120)

    cost = {"controller.kubernetes.io/pod-deletion-cost": "-1"}
    world.patch("Pod", "served-0", {"metadata": {"annotations": cost}})
    # The manager may not have seen the label yet when it scales. In any case, index 2 is removed.
    world.patch(SET, "served", scaled_to(2))
    settle(world, "served")
    assert names_of(world.list("Pod")) >= {"served-0", "served-1"}
    events = [event for event in events_of(world, "served") if event.reason == "UnreadyGroupsStay"]
    assert all(event.note.startswith("Scaling down removes served-2, because") for event in events)

    world.patch(SET, "served", {"spec": {"leaderService": None}})
    eventually(
        "the Service is deleted", lambda: world.find("Service", SERVICE), lambda now: now is None, seconds=120
    )
