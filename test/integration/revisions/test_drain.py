"""When a node is drained in the middle of a rollout, each group is recreated with its own revision only.

The target template differs in every recorded field, so that a mixture of two revisions would be noticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import NAME_LABEL, SIZE_ANNOTATION
from test.harness.drains import cordoned
from test.harness.groups import (
    annotations_of,
    images_of,
    keys_of,
    name_of,
    revisions_of,
    settle,
    uids_of_group,
)
from test.harness.manifests import a_set, pod_template
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import LocalCluster
from tools.localcluster.pods import is_ready

pytestmark = pytest.mark.local_only

Object = dict[str, Any]
NAME = "web"
NEVER_READY = {"localcluster/ready": "false"}


def group(image: str, size: int, subgroup: int, annotations: dict[str, str] | None = None) -> Object:
    return {
        "size": size,
        "leaderTemplate": pod_template(f"leader-{image}", annotations),
        "workerTemplate": pod_template(f"worker-{image}"),
        "subGroupPolicy": {"subGroupSize": subgroup, "subGroupPolicyType": "LeaderWorker"},
    }


def test_a_group_drained_before_its_update_is_recreated_with_its_own_revision(
    world: World, local_cluster: LocalCluster
) -> None:
    former = start_stuck_rollout(world)
    before = {index: uids_of_group(world, NAME, index) for index in (0, 1)}

    hit = drain(world, local_cluster, "web-0")

    assert_recreated(world, former, before, hit)
    good = group("3", 3, 1)
    good["leaderTemplate"]["metadata"] = {"annotations": dict.fromkeys(NEVER_READY)}
    world.patch(SET, NAME, {"spec": {"leaderWorkerTemplate": good}})
    settle(world, NAME)
    assert images_of(world, NAME) == {index: {"leader-3", "worker-3"} for index in range(3)}
    subdomains = {pod["spec"]["subdomain"] for pod in world.list("Pod")}
    assert subdomains == {f"{NAME}-{index}" for index in range(3)}


def test_a_lost_group_is_not_recreated_with_a_revision_that_never_becomes_ready(world: World) -> None:
    former = start_stuck_rollout(world)
    before = {index: uids_of_group(world, NAME, index) for index in (0, 1)}
    nodes = {name_of(node) for node in world.api.get("/api/v1/nodes")["items"]}

    with cordoned(world, nodes):
        world.kubectl("delete", "pods", *(f"{NAME}-{index}" for index in before))
        eventually(
            "the status has no ready group",
            lambda: world.get(SET, NAME)["status"],
            lambda now: not now.get("readyReplicas"),
        )

    assert_recreated(world, former, before, {uid for group in before.values() for uid in group.values()})


def start_stuck_rollout(world: World) -> str:
    """Start a rollout of three groups, the last of which never becomes ready. Return the former key."""
    world.create(a_set(NAME, replicas=3, group=group("1", 2, 1)))
    settle(world, NAME)
    former = next(iter(keys_of(world, NAME)[0]))
    stuck = group("2", 3, 1, NEVER_READY)
    network = {"subdomainPolicy": "UniquePerReplica"}
    world.patch(SET, NAME, {"spec": {"leaderWorkerTemplate": stuck, "networkConfig": network}})
    eventually(
        "the rollout is stuck", lambda: images_of(world, NAME), lambda now: "leader-2" in now.get(2, ())
    )
    return former


def assert_recreated(
    world: World, former: str, before: Mapping[int, Mapping[str, str]], hit: Set[str]
) -> None:
    """Wait for the groups, and check that each is completely as it was.

    before: UIDs of each group's pods by name. hit: UIDs of pods that have to be replaced.
    """

    def is_back(pod: Object) -> bool:
        return is_ready(pod) and pod["metadata"]["uid"] not in hit

    def missing() -> dict[str, Object | None]:
        """Return the current objects, or None, for pods that are not back yet."""
        pods = {name_of(pod): pod for pod in world.list("Pod")}
        current = {name: pods.get(name) for group in before.values() for name in group}
        return {name: pod for name, pod in current.items() if not pod or not is_back(pod)}

    eventually("both groups are complete again", missing, lambda now: now == {})
    for index in before:
        if not hit & set(before[index].values()):
            assert uids_of_group(world, NAME, index) == before[index]
        assert images_of(world, NAME)[index] == {"leader-1", "worker-1"}
        assert keys_of(world, NAME)[index] == {former}
        pods = [world.get("Pod", name) for name in before[index]]
        assert {annotations_of(pod)[SIZE_ANNOTATION] for pod in pods} == {"2"}
        assert {pod["spec"]["subdomain"] for pod in pods} == {NAME}
        assert world.get("StatefulSet", f"{NAME}-{index}")["spec"]["replicas"] == 1
    assert len(revisions_of(world, NAME)) == 2


def drain(world: World, cluster: LocalCluster, pod: str) -> set[str]:
    """Drain the pod's node, but only of pods of the test. Return the UIDs of these pods."""
    node = world.get("Pod", pod)["spec"]["nodeName"]
    hit = {obj["metadata"]["uid"] for obj in world.list("Pod") if obj["spec"].get("nodeName") == node}
    ours = f"--pod-selector={NAME_LABEL}={NAME}"
    cluster.kubectl("drain", node, "--force", "--ignore-daemonsets", "--delete-emptydir-data", ours)
    cluster.kubectl("uncordon", node)
    return hit
