"""With the manager's PodGroups, the scheduler of Kubernetes places a group completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL
from test.cluster import require_version
from test.harness.groups import (
    controller_of,
    labels_of,
    names_of,
    pod_uids,
    pods_of,
    settle,
    uids_of_group,
)
from test.harness.manifests import a_set, new_image, pod_template, rolling
from test.harness.product import Product, running_product
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.integration.gangs import FIRST, native
from tools.localcluster import LocalCluster

PROVIDER = ("--set", "gangSchedulingManagement.schedulerProvider=kubernetes")
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
A_WHOLE_NODE = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}

Object = dict[str, Any]


@pytest.fixture(scope="module")
def product(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart, and a manager that creates PodGroups of Kubernetes."""
    require_version(cluster, FIRST, "earlier schedulers know no PodGroups")
    with running_product(cluster, tmp_path_factory.mktemp("kubernetes"), *PROVIDER) as product:
        yield product


def path_of(world: World, name: str = "") -> str:
    root = f"/apis/scheduling.k8s.io/{native().version}/namespaces/{world.namespace}/podgroups"
    return f"{root}/{name}" if name else root


def pod_groups(world: World) -> dict[str, Object]:
    """Return the PodGroups by name."""
    return {pod_group["metadata"]["name"]: pod_group for pod_group in world.api.get(path_of(world))["items"]}


def pod_groups_of(world: World, index: int) -> list[Object]:
    return [
        pod_group
        for pod_group in pod_groups(world).values()
        if labels_of(pod_group)[GROUP_INDEX_LABEL] == str(index)
    ]


def pod_group_name_in(world: World, name: str) -> dict[str, set[str]]:
    """Return the PodGroups that the pods of each group name."""
    result: dict[str, set[str]] = {}
    for pod in pods_of(world, name):
        group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
        result.setdefault(labels_of(pod)[GROUP_INDEX_LABEL], set()).add(group)
    return result


def nodes_of(world: World, name: str, index: int) -> list[str]:
    """Return the nodes of a group's pods, "" for a pod without a node."""
    mine = [pod for pod in pods_of(world, name) if labels_of(pod)[GROUP_INDEX_LABEL] == str(index)]
    return [str(pod["spec"].get("nodeName") or "") for pod in mine]


def is_unschedulable(pod_group: Object) -> bool:
    conditions = (pod_group.get("status") or {}).get("conditions") or ()
    return any(
        (condition["type"], condition["status"]) == (native().scheduled, "False") for condition in conditions
    )


def test_a_surge_group_waits_until_there_is_room_for_all_its_pods(world: World) -> None:
    taker = {**pod_template(), "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "taker"}}
    taker["spec"]["containers"][0] |= A_WHOLE_NODE
    world.create(taker)
    eventually("the pod has a node", lambda: world.get("Pod", "taker")["spec"].get("nodeName"))

    template = pod_template()
    template["spec"]["containers"][0] |= A_WHOLE_NODE
    strategy = rolling(maxSurge=1, maxUnavailable=0)
    world.create(a_set("gang", 1, 2, workers=template, rolloutStrategy=strategy))
    settle(world, "gang")
    (first,) = pod_groups(world).values()
    assert first["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert controller_of(first)["uid"] == world.uid("Pod", "gang-0")
    assert pod_group_name_in(world, "gang") == {"0": names_of([first])}
    before = uids_of_group(world, "gang", 0)

    # One node is left, and the surge group needs two.
    change = new_image("server:2")
    change["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0] |= A_WHOLE_NODE
    world.patch(SET, "gang", change)
    eventually(
        "the scheduler has tried to place the surge group",
        lambda: pod_groups_of(world, 1),
        lambda groups: any(is_unschedulable(pod_group) for pod_group in groups),
    )
    assert nodes_of(world, "gang", 1) == ["", ""]
    assert uids_of_group(world, "gang", 0) == before

    world.delete("Pod", "taker")
    settle(world, "gang")
    assert len(set(nodes_of(world, "gang", 0))) == 2
    remaining = eventually(
        "only the PodGroup of the remaining group exists",
        lambda: set(pod_groups(world)),
        lambda names: pod_group_name_in(world, "gang") == {"0": names},
    )
    assert remaining.isdisjoint(names_of([first]))


@pytest.fixture
def high(world: World) -> Iterator[str]:
    """Create a priority class, and return its name."""
    name = f"{world.namespace}-high"
    metadata = {"metadata": {"name": name}}
    world.api.create(
        PRIORITIES,
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **metadata, "value": 1000},
    )
    yield name
    world.api.delete(f"{PRIORITIES}/{name}")


@pytest.mark.kubernetes("1.37", "PodGroups of 1.36 know no disruption mode")
def test_a_pod_that_needs_one_node_preempts_a_whole_group(world: World, high: str) -> None:
    template = pod_template()
    template["spec"]["containers"][0] |= A_WHOLE_NODE
    world.create(a_set("low", 2, 2, workers=template))
    settle(world, "low")
    assert all(pod_group["spec"]["disruptionMode"] == {"all": {}} for pod_group in pod_groups(world).values())

    taker = {**pod_template(), "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "taker"}}
    taker["spec"]["containers"][0] |= A_WHOLE_NODE
    taker["spec"]["priorityClassName"] = high
    world.create(taker)
    eventually("the pod has a node", lambda: world.get("Pod", "taker")["spec"].get("nodeName"))
    preempted = eventually(
        "the scheduler reports the preempted pods",
        lambda: {
            event["regarding"]["name"] for event in world.list("Event") if event["reason"] == "Preempted"
        },
        lambda names: len(names) > 1,
    )
    assert preempted in ({"low-0", "low-0-1"}, {"low-1", "low-1-1"})


def test_each_leader_has_its_own_pod_group_which_exists_as_long_as_its_pods(world: World) -> None:
    world.create(a_set("gang", 2, 2))
    settle(world, "gang")
    uids, former = pod_uids(world, "gang"), pod_groups(world)
    assert len(former) == 2
    assert pod_group_name_in(world, "gang").keys() == {"0", "1"}

    # Kubernetes keeps PodGroups that pods name, so the group is not affected.
    (pod_group,) = pod_groups_of(world, 1)
    world.api.delete(path_of(world, pod_group["metadata"]["name"]))
    (pod_group,) = pod_groups_of(world, 1)
    assert pod_group["metadata"].get("deletionTimestamp")

    # This is a background deletion, as users do it: the next leader is created while the old workers exist.
    world.delete("Pod", "gang-0")
    world.gone_or_replaced("Pod", "gang-0", uids["gang-0"])
    settle(world, "gang")
    now = pod_uids(world, "gang")
    assert {pod for pod in now if now[pod] == uids[pod]} == {"gang-1", "gang-1-1"}

    world.delete("Pod", "gang-1-1")
    world.gone_or_replaced("Pod", "gang-1", uids["gang-1"])
    settle(world, "gang")
    remaining = eventually(
        "only the PodGroups of both groups exist",
        lambda: set(pod_groups(world)),
        lambda names: set().union(*pod_group_name_in(world, "gang").values()) == names and len(names) == 2,
    )
    assert remaining.isdisjoint(former)
