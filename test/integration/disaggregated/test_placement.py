"""The real scheduler gives each slice its own topology domain."""

from __future__ import annotations

from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, SLICE_LABEL
from test.harness.disaggregated.manifests import a_disaggregated_set, a_role, new_roles
from test.harness.disaggregated.standing import SECONDS, settle
from test.harness.disaggregated.watching import Watch
from test.harness.groups import labels_of
from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster.nodes import ZONE_LABEL

Object = dict[str, Any]

GPU = "nvidia.com/gpu"


def zones_of(world: World, topology: str = ZONE_LABEL) -> dict[tuple[str, str], set[str]]:
    """Return the zones of each set and slice; "" stands for pods without a node."""
    nodes = {
        node["metadata"]["name"]: labels_of(node).get(topology, "")
        for node in world.api.get("/api/v1/nodes")["items"]
    }
    result: dict[tuple[str, str], set[str]] = {}
    for pod in world.list("Pod", NAME_LABEL):
        labels = labels_of(pod)
        zones = result.setdefault((labels[NAME_LABEL], labels[SLICE_LABEL]), set())
        if "nodeName" in pod["spec"]:
            zones.add(nodes[pod["spec"]["nodeName"]])
    return result


def placed(name: str, kind: str, image: str = "server:1", *, slices: int = 1, **policy: Any) -> Object:
    of = [a_role("prefill", 1, image, size=2), a_role("decode", 2, image)]
    topology = {"type": kind, "topology": ZONE_LABEL, **policy}
    return a_disaggregated_set(name, of, slices=slices, placementPolicy=topology)


def test_each_slice_has_its_own_zone_and_keeps_it_during_a_rollout(world: World) -> None:
    watch = Watch(world)
    world.create(placed("pd", "ExclusiveSlice", slices=2))
    world.create(placed("other", "ExclusiveSlice"))
    settle(world, "pd", "other")
    before = zones_of(world)
    assert [len(zones) for zones in before.values()] == [1, 1, 1]
    assert before["pd", "0"] != before["pd", "1"], "the other set may share either zone"
    world.patch(KIND, "pd", {"spec": placed("pd", "ExclusiveSlice", "server:2", slices=2)["spec"]})
    settle(world, "pd")
    # New pods of a slice go to the zone of its old ones.
    assert zones_of(world) == before
    watch.judge("pd")


def test_sets_with_exclusive_topology_share_no_zone(world: World) -> None:
    for name in ("pd", "other"):
        world.create(placed(name, "ExclusiveTopology"))
    settle(world, "pd", "other")
    zones_by_slice = zones_of(world)
    assert [len(zones) for zones in zones_by_slice.values()] == [1, 1]
    assert zones_by_slice["pd", "0"] != zones_by_slice["other", "0"]


@pytest.mark.parametrize("strength", ["Required", "Preferred"])
def test_a_slice_without_a_free_zone_is_reported_or_runs_elsewhere(world: World, strength: str) -> None:
    """There are two zones for three slices."""
    manifest = placed("pd", "ExclusiveSlice", slices=3, strength=strength)
    world.create(manifest)
    if strength == "Preferred":
        settle(world, "pd")
        return
    waiting = [f"slice {index}: role" for index in "012"]
    (reported,) = eventually(
        "one slice is reported",
        lambda: [text for text in waiting if text in pending(world, "pd")],
        is_one,
        SECONDS,
    )
    homeless = [f"slice {index}: role" for (_, index), zones in zones_of(world).items() if not zones]
    assert homeless == [reported]
    world.patch(KIND, "pd", {"spec": {"slices": 2}})
    settle(world, "pd")


def is_one(messages: list[str]) -> bool:
    return len(messages) == 1


def pending(world: World, name: str) -> str:
    """Return what the set waits for, from its status."""
    status = world.get(KIND, name).get("status") or {}
    return "; ".join(message for message in status.get("pending", ()) if "wait for nodes" in message)


def roles_filling_a_zone(image: str, **budget: Any) -> list[Object]:
    """Return roles of which decode fills a zone: eight GPUs of each of its nodes."""
    spec = {"containers": [{"name": "server", "image": image, "resources": {"limits": {GPU: "8"}}}]}
    return [
        a_role("prefill", 2, image, budget=budget or None),
        a_role("decode", NODES_OF_A_ZONE, image, budget=budget or None, **spec),
    ]


NODES_OF_A_ZONE = 4


def test_a_surge_without_room_is_reported_and_a_smaller_budget_helps(world: World) -> None:
    watch = Watch(world)
    policy = {"type": "ExclusiveSlice", "topology": ZONE_LABEL}
    of = a_disaggregated_set("pd", roles_filling_a_zone("server:1"), placementPolicy=policy)
    world.create(of)
    settle(world, "pd")
    world.patch(KIND, "pd", new_roles(roles_filling_a_zone("server:2")))
    why = "slice 0: role decode"
    eventually("the role is reported", lambda: pending(world, "pd"), lambda message: why in message, SECONDS)
    world.patch(KIND, "pd", new_roles(roles_filling_a_zone("server:2", maxUnavailable=1, maxSurge=0)))
    settle(world, "pd")
    eventually("nothing is reported any more", lambda: pending(world, "pd"), lambda why: not why)
    watch.judge("pd")
