"""Tests that each pass of faulty stories plans the same from whole and from trimmed objects.

Every field that was read has a row in its table.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from lws.leaderworkerset import registration
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.builders import make_pod_template, make_set
from test.unit.seeds import for_each_seed
from test.unit.stories import fake_manager
from test.unit.stories.fake_cluster import NAME, FakeCluster
from test.unit.stories.promises import REVISIONS, SIZES
from test.unit.stories.world import FAULTS, World
from test.unit.whole import doubled

EVENTS = ("change", "strike", "scale", "garble", "lose", "orphan", "restart", "miss", "policies", "wait")
PORTS = {"ports": [{"name": "http", "port": 80}]}


def happen(world: World, event: str, chance: random.Random) -> None:
    """Play the event of this name with random arguments."""
    if event == "change":
        world.change(chance.choice(REVISIONS))
    elif event == "strike":
        world.strike(chance.choice(FAULTS), chance.randint(0, 9))
    elif event == "scale":
        world.scale(chance.randint(1, 4))
    elif event == "garble":
        world.garble()
    elif event in ("lose", "orphan"):
        world.lose_leaders(leaves_pods=event == "orphan")
    elif event == "restart":
        world.restart()
    elif event == "miss":
        world.miss(chance.randint(0, 4))
    elif event == "policies":
        restart = chance.choice(["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"])
        startup, termination = ["LeaderCreated", "LeaderReady"], ["Default", "Parallel"]
        world.set_policies(restart, chance.choice(startup), chance.choice(termination))
    else:
        world.cluster.pass_time(100)
        world.manager.ring()


@for_each_seed(15)
def test_trimmed_fields_change_no_plan(seed: int) -> None:
    chance = random.Random(seed)
    with asyncio.Runner() as runner, doubled(fake_manager, registration) as reads:
        world = World.new(runner.get_loop(), bool(seed % 2), chance.choice(REVISIONS), 3)
        world.configure(maxUnavailable=chance.choice([1, 2, "50%"]), maxSurge=chance.choice([0, 1]))
        world.settle()
        for event in chance.choices(EVENTS, k=4):
            happen(world, event, chance)
            world.go_on(chance.randint(0, 30), seed, trouble=0.1 * (seed % 3))
        world.settle()
    assert min(reads.compared["set"], reads.compared["group"]) > 5
    assert reads.without_row() == []


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"leaderService": PORTS, "podDisruptionBudget": {}}, id="Service and disruption budget"),
        pytest.param({"startupPolicy": "LeaderReady"}, id="leaders first"),
        pytest.param({"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}, id="a Service per group"),
        pytest.param({"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}}, id="a zone per group"),
        pytest.param({"template": {"subGroupPolicy": {"subGroupSize": 3}}}, id="subgroups"),
        pytest.param({"tpu": True}, id="TPUs"),
    ],
)
def test_features_of_a_set_read_no_trimmed_field(spec: dict[str, Any]) -> None:
    cluster, has_tpus = FakeCluster(has_feature=False), spec.pop("tpu", False)
    lws = make_set(NAME, image="E", size=SIZES["E"], replicas=2, **spec)
    template = make_pod_template("E")
    if has_tpus:
        template["spec"]["containers"][0]["resources"] = {"limits": {"google.com/tpu": "4"}}
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"] = template
    cluster.add(lws)
    node = {"name": "node", "labels": {"zone": "a"}}
    cluster.add({"apiVersion": "v1", "kind": "Node", "metadata": node})
    with asyncio.Runner() as runner, doubled(fake_manager, registration) as reads:
        world = World(runner.get_loop(), cluster)
        world.settle()
        world.strike("crash", 1)
        world.settle()
        world.strike("evicted", 1)
        world.settle()
        for kind in ("Service", "PodDisruptionBudget", "ControllerRevision", "StatefulSet"):
            for obj in list(cluster.of_kind(kind)):
                cluster.change(obj, {"ownerReferences": None})
            world.go_on_fairly(8)
    assert reads.compared["group"] > 5
    assert reads.without_row() == []
