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
        each["metadata"]["name"]: labels_of(each).get(topology, "")
        for each in world.api.get("/api/v1/nodes")["items"]
    }
    found: dict[tuple[str, str], set[str]] = {}
    for pod in world.list("Pod", NAME_LABEL):
        labels = labels_of(pod)
        place = found.setdefault((labels[NAME_LABEL], labels[SLICE_LABEL]), set())
        if "nodeName" in pod["spec"]:
            place.add(nodes[pod["spec"]["nodeName"]])
    return found


def placed(name: str, kind: str, image: str = "server:1", *, slices: int = 1, **policy: Any) -> Object:
    of = [a_role("prefill", 1, image, size=2), a_role("decode", 2, image)]
    topology = {"type": kind, "topology": ZONE_LABEL, **policy}
    return a_disaggregated_set(name, of, slices=slices, placementPolicy=topology)


def test_slices_of_a_set_have_zones_of_their_own_and_keep_them_in_a_rollout(world: World) -> None:
    watch = Watch(world)
    world.create(placed("pd", "ExclusiveSlice", slices=2))
    world.create(placed("other", "ExclusiveSlice"))
    settle(world, "pd", "other")
    before = zones_of(world)
    assert [len(each) for each in before.values()] == [1, 1, 1]
    assert before["pd", "0"] != before["pd", "1"], "the other set may be in either"
    world.patch(KIND, "pd", {"spec": placed("pd", "ExclusiveSlice", "server:2", slices=2)["spec"]})
    settle(world, "pd")
    # New pods of a slice go to the zone of its old ones.
    assert zones_of(world) == before
    watch.judge("pd")


def test_a_set_has_zones_that_no_other_has(world: World) -> None:
    for name in ("pd", "other"):
        world.create(placed(name, "ExclusiveTopology"))
    settle(world, "pd", "other")
    found = zones_of(world)
    assert [len(each) for each in found.values()] == [1, 1]
    assert found["pd", "0"] != found["other", "0"]


@pytest.mark.parametrize("strength", ["Required", "Preferred"])
def test_a_slice_that_finds_no_zone_is_told_or_runs_elsewhere(world: World, strength: str) -> None:
    """There are two zones for three slices."""
    made = placed("pd", "ExclusiveSlice", slices=3, strength=strength)
    world.create(made)
    if strength == "Preferred":
        settle(world, "pd")
        return
    waiting = [f"slice {index}: role" for index in "012"]
    (told,) = eventually(
        "one is told", lambda: [each for each in waiting if each in pending(world, "pd")], is_one, SECONDS
    )
    homeless = [f"slice {index}: role" for (_, index), zones in zones_of(world).items() if not zones]
    assert homeless == [told]
    world.patch(KIND, "pd", {"spec": {"slices": 2}})
    settle(world, "pd")


def is_one(found: list[str]) -> bool:
    return len(found) == 1


def pending(world: World, name: str) -> str:
    """Return what the status says that the set waits for."""
    status = world.get(KIND, name).get("status") or {}
    return "; ".join(each for each in status.get("pending", ()) if "wait for nodes" in each)


def hungry(image: str, **budget: Any) -> list[Object]:
    """Return roles of which decode fills a zone: eight GPUs of each of its nodes."""
    one = {"containers": [{"name": "server", "image": image, "resources": {"limits": {GPU: "8"}}}]}
    return [
        a_role("prefill", 2, image, budget=budget or None),
        a_role("decode", NODES_OF_A_ZONE, image, budget=budget or None, **one),
    ]


NODES_OF_A_ZONE = 4


def test_a_surge_without_room_is_told_with_its_role_and_a_smaller_budget_helps(world: World) -> None:
    watch = Watch(world)
    policy = {"type": "ExclusiveSlice", "topology": ZONE_LABEL}
    of = a_disaggregated_set("pd", hungry("server:1"), placementPolicy=policy)
    world.create(of)
    settle(world, "pd")
    world.patch(KIND, "pd", new_roles(hungry("server:2")))
    why = "slice 0: role decode"
    eventually("it is told", lambda: pending(world, "pd"), lambda told: why in told, SECONDS)
    world.patch(KIND, "pd", new_roles(hungry("server:2", maxUnavailable=1, maxSurge=0)))
    settle(world, "pd")
    eventually("it is told no more", lambda: pending(world, "pd"), lambda why: not why)
    watch.judge("pd")
