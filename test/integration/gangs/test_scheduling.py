"""The scheduler of Kubernetes places sets, groups and roles as `spec.scheduling` specifies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    SCHEDULING_LEVEL_LABEL,
)
from test.cluster import require_version
from test.harness.events import wait_for_events
from test.harness.groups import labels_of, pod_uids, pods_of, settle
from test.harness.manifests import a_set, new_image, pod_template
from test.harness.product import Product, running_product
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.demo.exhibit import find_example
from tools.localcluster import LocalCluster

FLAGS = (
    *("--set", "gangSchedulingManagement.schedulerProvider=kubernetes"),
    *("--set", "featureGates.WorkloadAwareScheduling=true"),
)
API = "/apis/scheduling.k8s.io/v1beta1/namespaces"

Object = dict[str, Any]


@pytest.fixture(scope="module")
def product(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart with upstream's feature gate."""
    require_version(cluster, "1.37", "earlier API servers have no Workloads of v1beta1")
    with running_product(cluster, tmp_path_factory.mktemp("scheduling"), *FLAGS) as product:
        yield product


def stored(world: World, plural: str) -> dict[str, Object]:
    """Return the Workloads or PodGroups by name."""
    items = world.api.get(f"{API}/{world.namespace}/{plural}")["items"]
    return {obj["metadata"]["name"]: obj for obj in items}


def the_workload(world: World) -> Object:
    (workload,) = stored(world, "workloads").values()
    return workload


def pod_group_name_in(world: World, name: str) -> dict[str, str]:
    """Return the PodGroup that each pod names."""
    return {
        pod["metadata"]["name"]: (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
        for pod in pods_of(world, name)
    }


def condition_of(world: World, name: str) -> tuple[str, str]:
    conditions = (world.get(SET, name).get("status") or {}).get("conditions") or ()
    matching = [condition for condition in conditions if condition["type"] == "WorkloadSchedulingCreated"]
    return (matching[0]["status"], matching[0]["reason"]) if matching else ("", "")


CREATED = ("True", "SchedulingPrerequisitesCreated")


def wait_until_created(world: World, name: str) -> None:
    eventually(
        "the condition reports the created objects",
        lambda: condition_of(world, name),
        lambda reported: reported == CREATED,
    )


def pod_groups_are(world: World, name: str) -> dict[str, Object]:
    """Wait until the PodGroups are exactly the ones that pods name, and return them."""

    def see() -> tuple[set[str], set[str]]:
        return set(stored(world, "podgroups")), set(pod_group_name_in(world, name).values())

    eventually("every PodGroup has pods", see, lambda seen: seen[0] == seen[1])
    return stored(world, "podgroups")


def test_each_group_is_a_gang_of_its_own(world: World) -> None:
    world.create(a_set("gang", 2, 2, scheduling={"replica": {"disruptionMode": {"all": {}}}}))
    settle(world, "gang")
    wait_until_created(world, "gang")
    workload, lws = the_workload(world), world.get(SET, "gang")
    assert workload["metadata"]["ownerReferences"][0]["uid"] == lws["metadata"]["uid"]
    assert workload["spec"]["controllerRef"] == {
        "apiGroup": "leaderworkerset.x-k8s.io",
        "kind": "LeaderWorkerSet",
        "name": "gang",
    }
    (template,) = workload["spec"]["podGroupTemplates"]
    assert (template["name"], template["schedulingPolicy"]) == ("replica", {"gang": {"minCount": 2}})
    groups = pod_groups_are(world, "gang")
    assert len(groups) == 2
    for pod_group in groups.values():
        assert labels_of(pod_group)[SCHEDULING_LEVEL_LABEL] == "replica"
        assert pod_group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
        assert pod_group["spec"]["disruptionMode"] == {"all": {}}
        assert pod_group["spec"]["workloadRef"] == {
            "workloadName": workload["metadata"]["name"],
            "templateName": "replica",
        }
        owners = [
            (owner["kind"], owner.get("controller")) for owner in pod_group["metadata"]["ownerReferences"]
        ]
        assert owners == [("LeaderWorkerSet", True), ("Workload", None)]
    named = pod_group_name_in(world, "gang")
    assert named["gang-0"] == named["gang-0-1"] != named["gang-1"] == named["gang-1-1"]
    uids = pod_uids(world, "gang")

    # A recreated leader waits for the pods of its former group, and gets another PodGroup.
    world.delete("Pod", "gang-0")
    world.gone_or_replaced("Pod", "gang-0", uids["gang-0"])
    settle(world, "gang")
    after = pod_groups_are(world, "gang")
    assert len(after) == 2 and named["gang-0"] not in after and named["gang-1"] in after
    assert not world.get("Pod", "gang-0")["spec"].get("schedulingGates")
    now = pod_uids(world, "gang")
    assert {pod for pod in now if now[pod] == uids[pod]} == {"gang-1", "gang-1-1"}

    world.patch(SET, "gang", new_image("server:2"))
    settle(world, "gang")
    assert pod_groups_are(world, "gang").keys().isdisjoint(after)
    world.patch(SET, "gang", {"spec": {"replicas": 0}})
    eventually("no PodGroup is left", lambda: stored(world, "podgroups"), lambda remaining: not remaining)
    assert the_workload(world)["metadata"]["uid"] == workload["metadata"]["uid"]


def test_the_example_becomes_ready_as_documented(world: World) -> None:
    example = find_example("scheduling")
    world.kubectl("apply", "-f", str(example.path))
    settle(world, "scheduling")
    wait_until_created(world, "scheduling")
    groups = pod_groups_are(world, "scheduling").values()
    assert len(groups) == 2
    lws = world.uid(SET, "scheduling")
    for pod_group in groups:
        assert pod_group["metadata"]["ownerReferences"][0]["uid"] == lws
        assert pod_group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
        assert pod_group["spec"]["disruptionMode"] == {"all": {}}
    events = [event for event in world.list("Event") if event["regarding"]["kind"] == SET]
    assert [event["note"] for event in events if event["type"] == "Warning"] == []


def test_leaders_and_workers_are_scheduled_separately(world: World) -> None:
    gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    world.create(a_set("roles", 2, 3, scheduling={"replica": {"leader": {}, "worker": gang}}))
    settle(world, "roles")
    wait_until_created(world, "roles")
    templates = the_workload(world)["spec"]["podGroupTemplates"]
    assert {template["name"]: template["schedulingPolicy"] for template in templates} == {
        "leader": {"basic": {}},
        "worker": {"gang": {"minCount": 2}},
    }
    groups = pod_groups_are(world, "roles")
    named = pod_group_name_in(world, "roles")
    assert len(groups) == 4 and named["roles-0-1"] == named["roles-0-2"] != named["roles-0"]
    levels = {labels_of(pod_group)[SCHEDULING_LEVEL_LABEL] for pod_group in groups.values()}
    assert levels == {"role"}
    assert "-0-leader-" in named["roles-0"] and "-0-worker-" in named["roles-0-1"]


def test_the_pod_group_of_a_whole_set_is_scaled_with_it(world: World) -> None:
    world.create(a_set("whole", 2, 2, scheduling={"schedulingPolicy": {"gang": {}}}))
    settle(world, "whole")
    wait_until_created(world, "whole")
    workload = the_workload(world)
    name = f"{workload['metadata']['name']}-lws"
    groups = pod_groups_are(world, "whole")
    assert set(groups) == {name}
    assert groups[name]["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}
    uids = pod_uids(world, "whole")

    world.patch(SET, "whole", {"spec": {"replicas": 3}})
    settle(world, "whole")

    assert sizes(world, name) == (6, 6)
    now = pod_uids(world, "whole")
    assert uids.items() <= now.items()

    world.patch(SET, "whole", {"spec": {"replicas": 0}})
    eventually("no PodGroup is left", lambda: stored(world, "podgroups"), lambda remaining: not remaining)
    assert count_of(the_workload(world)["spec"]["podGroupTemplates"][0]) == 1
    world.patch(SET, "whole", {"spec": {"replicas": 1}})
    settle(world, "whole")
    assert set(pod_groups_are(world, "whole")) == {name}


def count_of(template: Object) -> int:
    return int(template["schedulingPolicy"]["gang"]["minCount"])


def sizes(world: World, name: str) -> tuple[int, int]:
    """Wait until Workload and PodGroup of a set agree, and return its sizes."""

    def see() -> tuple[int, int]:
        (template,) = the_workload(world)["spec"]["podGroupTemplates"]
        return count_of(template), count_of(stored(world, "podgroups")[name]["spec"])

    return eventually("Workload and PodGroup have the same size", see, lambda counts: counts[0] == counts[1])


def test_the_pod_group_of_a_whole_set_follows_the_group_size(world: World) -> None:
    world.create(a_set("larger", 2, 2, scheduling={"schedulingPolicy": {"gang": {}}}))
    settle(world, "larger")
    name = f"{the_workload(world)['metadata']['name']}-lws"
    assert sizes(world, name) == (4, 4)
    world.patch(SET, "larger", {"spec": {"leaderWorkerTemplate": {"size": 3}}})
    settle(world, "larger")
    assert sizes(world, name) == (6, 6)
    assert set(pod_groups_are(world, "larger")) == {name}


def test_pod_groups_of_hash_groups_are_created_and_deleted_with_them(world: World) -> None:
    world.create(a_set("hashed", 2, 2, scheduling={}, groupIdentity="Hash"))
    settle(world, "hashed")
    wait_until_created(world, "hashed")
    before = pod_groups_are(world, "hashed")
    assert len(before) == 2
    world.patch(SET, "hashed", new_image("server:2"))
    settle(world, "hashed")
    after = pod_groups_are(world, "hashed")
    assert len(after) == 2 and after.keys().isdisjoint(before)
    assert {labels_of(pod_group)[GROUP_INDEX_LABEL] for pod_group in after.values()} == {
        labels_of(pod)[GROUP_INDEX_LABEL] for pod in pods_of(world, "hashed")
    }
    assert not any(
        {"name": GROUP_REPLACEMENT_GATE} in (pod["spec"].get("schedulingGates") or ())
        for pod in pods_of(world, "hashed")
    )


def test_no_pod_of_a_gang_is_scheduled_without_room_for_all(world: World) -> None:
    """There are four nodes with eight devices each, and a group needs five nodes."""
    template = pod_template()
    template["spec"]["containers"][0] |= {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    world.create(a_set("large", 1, 5, workers=template, scheduling={}))
    eventually("all pods exist", lambda: pods_of(world, "large"), lambda pods: len(pods) == 5)

    def is_unschedulable() -> bool:
        return any(
            (condition["type"], condition["status"]) == ("PodGroupInitiallyScheduled", "False")
            for pod_group in stored(world, "podgroups").values()
            for condition in (pod_group.get("status") or {}).get("conditions") or ()
        )

    eventually("the scheduler has tried to place the group", is_unschedulable, bool)
    assert [pod["spec"].get("nodeName") for pod in pods_of(world, "large")] == [None] * 5


def test_deleted_workloads_pod_groups_and_pods_are_recreated(world: World, product: Product) -> None:
    world.create(a_set("rough", 2, 2, scheduling={}))
    settle(world, "rough")
    wait_until_created(world, "rough")
    uids, workload = pod_uids(world, "rough"), the_workload(world)
    path, named = f"{API}/{world.namespace}", pod_group_name_in(world, "rough")

    # The Workload is recreated, and PodGroups in use stay: no pod is affected.
    world.api.delete(f"{path}/workloads/{workload['metadata']['name']}")
    world.api.delete(f"{path}/podgroups/{named['rough-1']}")
    eventually(
        "the Workload is recreated",
        lambda: [obj["metadata"]["uid"] for obj in stored(world, "workloads").values()],
        lambda now: now and now != [workload["metadata"]["uid"]],
    )
    product.restart()
    wait_until_created(world, "rough")
    settle(world, "rough")
    assert pod_uids(world, "rough") == uids

    # The group of a failed worker is recreated, with another PodGroup.
    world.delete("Pod", "rough-1-1")
    world.gone_or_replaced("Pod", "rough-1", uids["rough-1"])
    settle(world, "rough")
    assert pod_groups_are(world, "rough").keys().isdisjoint({named["rough-1"]})

    # Workers that outlive their leader never join the gang of the next one.
    before = pod_uids(world, "rough")
    world.delete("Pod", "rough-0", "Orphan")
    world.gone_or_replaced("Pod", "rough-0-1", before["rough-0-1"])
    settle(world, "rough")
    groups = pod_groups_are(world, "rough")
    now = pod_group_name_in(world, "rough")
    assert len(groups) == 2 and now["rough-0"] == now["rough-0-1"]
    assert pod_uids(world, "rough")["rough-1"] == before["rough-1"]


def test_an_unsupported_constraint_is_reported_and_no_pod_is_created(world: World) -> None:
    """The feature gate TopologyAwareWorkloadScheduling is disabled."""
    rack = {"schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}}
    world.create(a_set("racks", 1, 2, scheduling={"replica": rack}))
    eventually(
        "the condition reports the missing capability",
        lambda: condition_of(world, "racks"),
        lambda reported: reported == ("False", "UnsupportedProviderCapability"),
    )
    wait_for_events(world, "racks", "UnsupportedProviderCapability")
    assert world.list("Pod") == []


def test_sets_without_scheduling_are_no_gangs(world: World) -> None:
    """As in upstream, which needs the feature gate for this provider."""
    world.create(a_set("plain", 1, 2))
    settle(world, "plain")
    assert stored(world, "podgroups") == {}
    assert stored(world, "workloads") == {}
    assert condition_of(world, "plain") == ("", "")
