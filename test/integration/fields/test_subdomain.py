"""Pods keep the Service that their DNS names need while the subdomain policy changes, in both directions."""

from __future__ import annotations

from test.harness.groups import names_of, pods_of, settle
from test.harness.manifests import a_set
from test.harness.waiting import eventually
from test.harness.world import SET, World

SHARED, UNIQUE = (
    {"networkConfig": {"subdomainPolicy": "Shared"}},
    {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}},
)


def services(world: World) -> set[str]:
    return names_of(world.list("Service"))


def subdomains(world: World, name: str) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"]["subdomain"] for pod in pods_of(world, name)}


def addresses(world: World, name: str) -> set[str]:
    return {pod["spec"]["containers"][0]["env"][0]["value"] for pod in pods_of(world, name)}


def test_the_subdomain_policy_can_be_changed_and_changed_back(world: World) -> None:
    world.create(a_set("net", 2, 2))
    settle(world, "net")
    assert services(world) == {"net"}

    world.patch(SET, "net", {"spec": UNIQUE})
    settle(world, "net")
    eventually(
        "only Services of groups exist", lambda: services(world), lambda now: now == {"net-0", "net-1"}
    )
    assert subdomains(world, "net") == {
        "net-0": "net-0",
        "net-0-1": "net-0",
        "net-1": "net-1",
        "net-1-1": "net-1",
    }
    assert addresses(world, "net") == {f"net-{i}.net-{i}.{world.namespace}" for i in (0, 1)}

    world.delete("Service", "net-1")
    eventually("the Service is recreated", lambda: services(world), lambda now: now == {"net-0", "net-1"})

    world.patch(SET, "net", {"spec": SHARED})
    settle(world, "net")
    eventually("only the shared Service exists", lambda: services(world), lambda now: now == {"net"})
    assert set(subdomains(world, "net").values()) == {"net"}
