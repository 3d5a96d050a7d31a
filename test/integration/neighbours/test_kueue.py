"""Kueue treats our sets as it treats upstream's; the test runs a real Kueue.

Its version is in the module `kueue`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import WORKER_INDEX_LABEL
from test.harness.following import Following
from test.harness.groups import (
    annotations_of,
    condition,
    controller_of,
    images_of,
    labels_of,
    name_of,
    pod_uids,
    pods_of,
    settle,
    uids_of_group,
)
from test.harness.manifests import new_image, rolling, scaled_to
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.integration.neighbours.queues import (
    API,
    holds,
    index_of,
    make_queue,
    pod_requesting,
    queued,
    workloads,
)
from tools.localcluster.nodes import POOL_LABEL, SIMULATED_LABEL

PRIORITY = "kueue.x-k8s.io/priority-class"
GROUP_OF_PODS = "kueue.x-k8s.io/pod-group-name"
SUSPENDED_BY = "kueue.x-k8s.io/pod-suspending-parent"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
HOLDS = "kueue.x-k8s.io/managed"
ADMISSION = "kueue.x-k8s.io/admission"

CPUS_IN_ALL = "5"

Object = dict[str, Any]


@pytest.fixture
def queue(world: World) -> World:
    """The namespace, with a queue for five CPUs."""
    make_queue(world, "cpu", CPUS_IN_ALL)
    return world


@pytest.fixture
def priorities(world: World) -> Iterator[tuple[str, str]]:
    """Two priority classes, the lower one first."""
    path = f"/apis/{API}/workloadpriorityclasses"
    names = (f"{world.namespace}-low", f"{world.namespace}-high")
    for name, value in zip(names, (1000, 5000), strict=True):
        kind = {
            "apiVersion": API,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        world.api.create(path, kind)
    yield names
    for name in names:
        world.api.delete(f"{path}/{name}")


def gates(world: World, name: str) -> dict[str, list[str]]:
    """Return the scheduling gates of each pod."""
    return {
        name_of(pod): [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
        for pod in pods_of(world, name)
    }


def conditions_of(world: World, name: str) -> dict[str, tuple[str, str]]:
    """Return status and reason of each condition, as clients read them."""
    lws = world.get(SET, name)
    kinds = ("Available", "Progressing")
    return {
        kind: tuple(condition(lws, kind).get(part, "") for part in ("status", "reason")) for kind in kinds
    }


def ready_groups(world: World, name: str) -> int:
    return int((world.get(SET, name).get("status") or {}).get("readyReplicas", 0))


IS_AVAILABLE = ("True", "AllGroupsReady")
# The reason stays from the time when the condition was True.
NO_LONGER_AVAILABLE = {"Available": ("False", "AllGroupsReady"), "Progressing": ("True", "GroupsProgressing")}


def wait_until_admitted(world: World, name: str) -> None:
    """Wait until the set is settled and every group was admitted."""
    settle(world, name)
    replicas = world.get(SET, name)["spec"]["replicas"]
    admitted = eventually(
        f"every group of {name} is admitted",
        lambda: workloads(world, name),
        lambda now: (
            now.keys() == set(map(str, range(replicas)))
            and all(holds(workload, "Admitted") for workload in now.values())
        ),
    )
    assert not any(gates(world, name).values())
    # Just after a loss, the status that `settle` saw may be older than the pods.
    eventually(
        f"{name} is available",
        lambda: conditions_of(world, name)["Available"],
        lambda now: now == IS_AVAILABLE,
    )
    for pod in pods_of(world, name):
        index = labels_of(pod)["leaderworkerset.sigs.k8s.io/group-index"]
        assert labels_of(pod)[GROUP_OF_PODS] == name_of(admitted[index])


def delete_and_wait(world: World, name: str) -> None:
    """Delete the set, and wait until none of its objects is left."""
    world.delete(SET, name)
    eventually(f"{name} is gone", lambda: world.find(SET, name), lambda now: now is None)
    eventually(f"the pods of {name} are gone", lambda: pods_of(world, name), lambda now: not now)
    eventually(f"the Workloads of {name} are gone", lambda: workloads(world, name), lambda now: not now)


def wait_until_preempted(world: World, name: str, former: dict[str, str]) -> None:
    """Wait until all pods are replaced and gated, and the status reports it."""
    eventually(
        f"all pods of {name} are replaced and gated",
        lambda: (pod_uids(world, name), gates(world, name)),
        lambda now: (
            now[0].keys() == former.keys()
            and not set(now[0].values()) & set(former.values())
            and all(ADMISSION in waits for waits in now[1].values())
        ),
    )
    eventually(
        f"{name} is not available",
        lambda: (ready_groups(world, name), conditions_of(world, name)),
        lambda now: now == (0, NO_LONGER_AVAILABLE),
    )


@pytest.mark.parametrize("startup", ["LeaderCreated", "LeaderReady"])
def test_each_group_is_admitted_individually_when_the_set_is_scaled(queue: World, startup: str) -> None:
    leader = {"leaderTemplate": pod_requesting("150m")} if startup == "LeaderReady" else {}
    queue.create(queued("lws", replicas=2, group=leader, startupPolicy=startup))
    wait_until_admitted(queue, "lws")
    counts = {
        pod_set["name"]: pod_set["count"] for pod_set in workloads(queue, "lws")["0"]["spec"]["podSets"]
    }
    assert counts == ({"leader": 1, "worker": 2} if leader else {"main": 3})
    assert all(annotations_of(pod)[SUSPENDED_BY] for pod in pods_of(queue, "lws"))
    before = pod_uids(queue, "lws")

    queue.patch(SET, "lws", scaled_to(3))
    wait_until_admitted(queue, "lws")
    queue.patch(SET, "lws", scaled_to(1))
    wait_until_admitted(queue, "lws")
    assert pod_uids(queue, "lws").items() <= before.items()
    # StatefulSets have the queue label too, but do not count as separate workloads.
    assert {controller_of(workload).get("kind", SET) for workload in queue.list("Workload")} == {SET}
    delete_and_wait(queue, "lws")


def test_a_set_beyond_the_quota_waits_until_another_is_deleted(queue: World) -> None:
    queue.create(queued("first", cpu="1"))
    wait_until_admitted(queue, "first")
    queue.create(queued("second", cpu="1"))
    eventually(
        "the second set has a pending Workload",
        lambda: workloads(queue, "second"),
        lambda now: (
            now.keys() == {"0"}
            and any(
                (entry["type"], entry["status"], entry["reason"]) == ("QuotaReserved", "False", "Pending")
                for entry in (now["0"].get("status") or {}).get("conditions") or ()
            )
        ),
    )
    eventually(
        "all pods of the second set are gated",
        lambda: gates(queue, "second"),
        lambda now: len(now) == 3 and all(ADMISSION in waits for waits in now.values()),
    )
    assert ready_groups(queue, "second") == 0
    before = pod_uids(queue, "second")

    delete_and_wait(queue, "first")
    wait_until_admitted(queue, "second")
    assert pod_uids(queue, "second") == before


@pytest.mark.parametrize(
    ("surge", "unavailable"), [pytest.param(1, 0, id="one at a time"), pytest.param(2, 2, id="two at a time")]
)
def test_surge_groups_are_admitted_during_a_rollout(queue: World, surge: int, unavailable: int) -> None:
    budget = rolling(maxSurge=surge, maxUnavailable=unavailable)
    queue.create(queued("lws", replicas=4, size=1, rolloutStrategy=budget))
    wait_until_admitted(queue, "lws")

    change = new_image("server:2")
    change["spec"]["leaderWorkerTemplate"]["workerTemplate"] = pod_requesting("200m", image="server:2")
    following = Following(queue.api, queue.path("Workload"), "", queue.ended)
    queue.patch(SET, "lws", change)
    settle(queue, "lws")
    wait_until_admitted(queue, "lws")
    eventually(
        "each surge group has had a Workload",
        lambda: {index_of(update.obj) for update in following.changes() if update.obj is not None},
        lambda indices: indices >= {str(4 + index) for index in range(surge)},
    )
    assert images_of(queue, "lws") == {index: {"server:2"} for index in range(4)}


def test_a_set_of_higher_priority_preempts_another_until_it_is_deleted(
    queue: World, priorities: tuple[str, str]
) -> None:
    low, high = priorities
    # No failure is allowed, and preemption does not count as one.
    queue.create(queued("poor", cpu="1", labels={PRIORITY: low}, maxGroupRestarts=0))
    wait_until_admitted(queue, "poor")
    before = pod_uids(queue, "poor")
    queue.create(queued("rich", cpu="1", labels={PRIORITY: low}))
    eventually("the pods of the second set exist", lambda: pod_uids(queue, "rich"), lambda now: len(now) == 3)

    queue.patch(SET, "rich", {"metadata": {"labels": {PRIORITY: high}}})
    wait_until_preempted(queue, "poor", before)
    assert holds(workloads(queue, "poor")["0"], "Preempted")
    wait_until_admitted(queue, "rich")

    delete_and_wait(queue, "rich")
    wait_until_admitted(queue, "poor")


def test_a_group_with_a_deactivated_workload_waits_until_it_is_active_again(queue: World) -> None:
    queue.create(queued("lws", replicas=2, maxGroupRestarts=0))
    wait_until_admitted(queue, "lws")
    untouched, former = uids_of_group(queue, "lws", 0), uids_of_group(queue, "lws", 1)
    workload = workloads(queue, "lws")["1"]

    queue.patch("Workload", name_of(workload), {"spec": {"active": False}})
    eventually(
        "the pods of the group are replaced and gated",
        lambda: (uids_of_group(queue, "lws", 1), gates(queue, "lws")),
        lambda now: (
            now[0].keys() == former.keys()
            and not set(now[0].values()) & set(former.values())
            and all(ADMISSION in now[1][pod] for pod in now[0])
        ),
    )
    eventually(
        "the set is not available",
        lambda: conditions_of(queue, "lws"),
        lambda now: now == NO_LONGER_AVAILABLE,
    )
    assert workloads(queue, "lws")["1"]["metadata"]["uid"] == workload["metadata"]["uid"]

    queue.patch("Workload", name_of(workload), {"spec": {"active": True}})
    wait_until_admitted(queue, "lws")
    assert uids_of_group(queue, "lws", 0) == untouched


@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "None"])
def test_lost_pods_are_recreated_and_admitted_as_the_restart_policy_says(queue: World, policy: str) -> None:
    queue.create(queued("lws", group={"restartPolicy": policy}))
    wait_until_admitted(queue, "lws")
    before = pod_uids(queue, "lws")

    queue.delete("Pod", "lws-0-1")
    queue.gone_or_replaced("Pod", "lws-0-1", before["lws-0-1"])
    lost = {"lws-0-1"} if policy == "None" else set(before)
    eventually(
        f"{lost} are recreated",
        lambda: pod_uids(queue, "lws"),
        lambda now: now.keys() == before.keys() and {pod for pod in now if now[pod] != before[pod]} >= lost,
    )
    wait_until_admitted(queue, "lws")
    now = pod_uids(queue, "lws")
    assert {pod for pod in now if now[pod] != before[pod]} == lost


@pytest.mark.usefixtures("holding_kueue")
def test_groups_are_recreated_and_deleted_although_kueue_holds_their_pods(queue: World) -> None:
    queue.create(queued("lws", replicas=2))
    wait_until_admitted(queue, "lws")
    assert all(pod["metadata"]["finalizers"] == [HOLDS] for pod in pods_of(queue, "lws"))
    before = pod_uids(queue, "lws")

    queue.delete("Pod", "lws-0-1")
    for pod in ("lws-0", "lws-0-1", "lws-0-2"):
        queue.gone_or_replaced("Pod", pod, before[pod])
    wait_until_admitted(queue, "lws")
    queue.patch(SET, "lws", scaled_to(1))
    wait_until_admitted(queue, "lws")
    delete_and_wait(queue, "lws")


def test_groups_are_placed_within_a_topology_by_the_index_of_their_pods(world: World) -> None:
    topology = {
        "apiVersion": API,
        "kind": "Topology",
        "metadata": {"name": world.namespace},
        "spec": {"levels": [{"nodeLabel": POOL_LABEL}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }
    world.api.create(f"/apis/{API}/topologies", topology)
    make_queue(
        world, "nvidia.com/gpu", "64", nodeLabels={SIMULATED_LABEL: "true"}, topologyName=world.namespace
    )
    # A pool has two nodes with eight GPUs.
    worker = pod_requesting("8", "nvidia.com/gpu", annotations={REQUIRED_TOPOLOGY: POOL_LABEL})
    world.create(queued("lws", replicas=2, size=2, workers=worker))
    wait_until_admitted(world, "lws")
    nodes = {name_of(node): labels_of(node)[POOL_LABEL] for node in world.api.get("/api/v1/nodes")["items"]}
    placed = {
        index: [
            str(pod["spec"]["nodeName"])
            for pod in sorted(pods_of(world, "lws"), key=lambda pod: labels_of(pod)[WORKER_INDEX_LABEL])
            if name_of(pod).split("-")[1] == index
        ]
        for index in ("0", "1")
    }
    pools = [{nodes[node] for node in placed[index]} for index in placed]
    assert [len(pool) for pool in pools] == [1, 1] and pools[0] != pools[1]
    assert all(used == sorted(used) and len(set(used)) == 2 for used in placed.values())
    delete_and_wait(world, "lws")
