"""The real scheduler places groups on the nodes of their index, and next to other sets, as specified."""

from __future__ import annotations

from typing import Any

from lws_api.leaderworkerset.placement import (
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
)
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, GROUP_INDEX_LABEL
from test.harness.groups import labels_of, pods_of, settle
from test.harness.manifests import a_set
from test.harness.world import World
from test.integration.fields.test_placement import assert_apart, domains
from tools.localcluster.nodes import POOL_LABEL


def test_groups_run_on_the_node_pool_of_their_index(world: World) -> None:
    annotations = {
        GROUP_NODE_SELECTOR_ANNOTATION: f"{POOL_LABEL}=pool-$(GROUP_INDEX)",
        GROUP_TOLERATIONS_ANNOTATION: "example.com/group=$(GROUP_NAME):NoSchedule",
    }
    world.create(a_set("own", 2, 2, annotations=annotations))
    settle(world, "own")
    # The gate in the template holds no leader back, and leader and workers are on the same pool.
    assert domains(world, "own", POOL_LABEL, GROUP_INDEX_LABEL) == {("0",): {"pool-0"}, ("1",): {"pool-1"}}
    for pod in pods_of(world, "own"):
        index = labels_of(pod)[GROUP_INDEX_LABEL]
        tolerated = {toleration.get("value") for toleration in pod["spec"]["tolerations"]}
        assert f"own-{index}" in tolerated, pod["metadata"]["name"]


def pools(world: World, name: str) -> dict[tuple[str, ...], set[str]]:
    return domains(world, name, POOL_LABEL, GROUP_INDEX_LABEL)


def on_two_pools(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    """Return a set that may use only the nodes of two pools."""
    expression = {"key": POOL_LABEL, "operator": "In", "values": ["pool-0", "pool-1"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    node_affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    lws = a_set(name, 2, 2, annotations=annotations)
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["affinity"] = node_affinity
    return lws


def test_sets_that_are_exclusive_for_themselves_only_share_pools_with_others(world: World) -> None:
    alone = {
        EXCLUSIVE_TOPOLOGY_ANNOTATION: POOL_LABEL,
        EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION: "LeaderWorkerSet",
    }
    world.create(on_two_pools("one", alone))
    world.create(on_two_pools("two", alone))
    world.create(on_two_pools("guest", {SHARED_TOPOLOGY_ANNOTATION: POOL_LABEL}))
    # With upstream's scope, four groups would need four pools.
    settle(world, "one", "two", "guest")
    assert_apart(pools(world, "one"), 2)
    assert_apart(pools(world, "two"), 2)
    guests = pools(world, "guest")
    assert len(guests) == 2
    assert all(len(used) == 1 for used in guests.values()), guests
