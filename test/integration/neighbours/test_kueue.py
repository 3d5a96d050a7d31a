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
from test.integration.neighbours.queues import API, asking, holds, index_of, make_queue, queued, workloads
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


def standing(world: World, name: str) -> dict[str, tuple[str, str]]:
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


def come_up(world: World, name: str) -> None:
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
        f"{name} is available", lambda: standing(world, name)["Available"], lambda now: now == IS_AVAILABLE
    )
    for pod in pods_of(world, name):
        index = labels_of(pod)["leaderworkerset.sigs.k8s.io/group-index"]
        assert labels_of(pod)[GROUP_OF_PODS] == name_of(admitted[index])


def goes(world: World, name: str) -> None:
    """Delete the set, and wait until nothing is left, whatever holds its pods."""
    world.delete(SET, name)
    eventually(f"{name} is gone", lambda: world.find(SET, name), lambda now: now is None)
    eventually(f"the pods of {name} are gone", lambda: pods_of(world, name), lambda now: not now)
    eventually(f"the Workloads of {name} are gone", lambda: workloads(world, name), lambda now: not now)


def falls_back(world: World, name: str, former: dict[str, str]) -> None:
    """Wait until all pods were replaced and wait for admission, and the status says so."""
    eventually(
        f"all pods of {name} were replaced and wait",
        lambda: (pod_uids(world, name), gates(world, name)),
        lambda now: (
            now[0].keys() == former.keys()
            and not set(now[0].values()) & set(former.values())
            and all(ADMISSION in waits for waits in now[1].values())
        ),
    )
    eventually(
        f"the status of {name} says so",
        lambda: (ready_groups(world, name), standing(world, name)),
        lambda now: now == (0, NO_LONGER_AVAILABLE),
    )


@pytest.mark.parametrize("startup", ["LeaderCreated", "LeaderReady"])
def test_groups_are_admitted_one_by_one_as_the_set_is_scaled_and_go_with_it(
    queue: World, startup: str
) -> None:
    leader = {"leaderTemplate": asking("150m")} if startup == "LeaderReady" else {}
    queue.create(queued("lws", replicas=2, group=leader, startupPolicy=startup))
    come_up(queue, "lws")
    counts = {
        pod_set["name"]: pod_set["count"] for pod_set in workloads(queue, "lws")["0"]["spec"]["podSets"]
    }
    assert counts == ({"leader": 1, "worker": 2} if leader else {"main": 3})
    assert all(annotations_of(pod)[SUSPENDED_BY] for pod in pods_of(queue, "lws"))
    before = pod_uids(queue, "lws")

    queue.patch(SET, "lws", scaled_to(3))
    come_up(queue, "lws")
    queue.patch(SET, "lws", scaled_to(1))
    come_up(queue, "lws")
    assert pod_uids(queue, "lws").items() <= before.items()
    # StatefulSets have the queue label too, but do not count as separate workloads.
    assert {controller_of(workload).get("kind", SET) for workload in queue.list("Workload")} == {SET}
    goes(queue, "lws")


def test_a_set_beyond_the_quota_waits_until_another_leaves(queue: World) -> None:
    queue.create(queued("first", cpu="1"))
    come_up(queue, "first")
    queue.create(queued("second", cpu="1"))
    eventually(
        "the second one is told to wait",
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
        "its pods wait as a whole",
        lambda: gates(queue, "second"),
        lambda now: len(now) == 3 and all(ADMISSION in waits for waits in now.values()),
    )
    assert ready_groups(queue, "second") == 0
    before = pod_uids(queue, "second")

    goes(queue, "first")
    come_up(queue, "second")
    assert pod_uids(queue, "second") == before


@pytest.mark.parametrize(
    ("surge", "unavailable"), [pytest.param(1, 0, id="one by one"), pytest.param(2, 2, id="two and two")]
)
def test_groups_on_top_are_admitted_during_a_rollout(queue: World, surge: int, unavailable: int) -> None:
    budget = rolling(maxSurge=surge, maxUnavailable=unavailable)
    queue.create(queued("lws", replicas=4, size=1, rolloutStrategy=budget))
    come_up(queue, "lws")

    change = new_image("server:2")
    change["spec"]["leaderWorkerTemplate"]["workerTemplate"] = asking("200m", image="server:2")
    following = Following(queue.api, queue.path("Workload"), "", queue.ended)
    queue.patch(SET, "lws", change)
    settle(queue, "lws")
    come_up(queue, "lws")
    eventually(
        "each group on top has had a Workload",
        lambda: {index_of(update.obj) for update in following.changes() if update.obj is not None},
        lambda indices: indices >= {str(4 + index) for index in range(surge)},
    )
    assert images_of(queue, "lws") == {index: {"server:2"} for index in range(4)}


def test_a_set_of_a_higher_priority_takes_the_place_of_another_until_it_leaves(
    queue: World, priorities: tuple[str, str]
) -> None:
    low, high = priorities
    # No failure is allowed, and preemption does not count as one.
    queue.create(queued("poor", cpu="1", labels={PRIORITY: low}, maxGroupRestarts=0))
    come_up(queue, "poor")
    before = pod_uids(queue, "poor")
    queue.create(queued("rich", cpu="1", labels={PRIORITY: low}))
    eventually("its pods wait", lambda: pod_uids(queue, "rich"), lambda now: len(now) == 3)

    queue.patch(SET, "rich", {"metadata": {"labels": {PRIORITY: high}}})
    falls_back(queue, "poor", before)
    assert holds(workloads(queue, "poor")["0"], "Preempted")
    come_up(queue, "rich")

    goes(queue, "rich")
    come_up(queue, "poor")


def test_a_group_whose_workload_is_deactivated_waits_until_it_is_active_again(queue: World) -> None:
    queue.create(queued("lws", replicas=2, maxGroupRestarts=0))
    come_up(queue, "lws")
    untouched, former = uids_of_group(queue, "lws", 0), uids_of_group(queue, "lws", 1)
    workload = workloads(queue, "lws")["1"]

    queue.patch("Workload", name_of(workload), {"spec": {"active": False}})
    eventually(
        "the pods of the group were replaced and wait",
        lambda: (uids_of_group(queue, "lws", 1), gates(queue, "lws")),
        lambda now: (
            now[0].keys() == former.keys()
            and not set(now[0].values()) & set(former.values())
            and all(ADMISSION in now[1][pod] for pod in now[0])
        ),
    )
    eventually(
        "the set is not available", lambda: standing(queue, "lws"), lambda now: now == NO_LONGER_AVAILABLE
    )
    assert workloads(queue, "lws")["1"]["metadata"]["uid"] == workload["metadata"]["uid"]

    queue.patch("Workload", name_of(workload), {"spec": {"active": True}})
    come_up(queue, "lws")
    assert uids_of_group(queue, "lws", 0) == untouched


@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "None"])
def test_what_is_lost_comes_back_admitted_as_the_restart_policy_says(queue: World, policy: str) -> None:
    queue.create(queued("lws", group={"restartPolicy": policy}))
    come_up(queue, "lws")
    before = pod_uids(queue, "lws")

    queue.delete("Pod", "lws-0-1")
    queue.gone_or_replaced("Pod", "lws-0-1", before["lws-0-1"])
    lost = {"lws-0-1"} if policy == "None" else set(before)
    eventually(
        f"{lost} are other ones",
        lambda: pod_uids(queue, "lws"),
        lambda now: now.keys() == before.keys() and {pod for pod in now if now[pod] != before[pod]} >= lost,
    )
    come_up(queue, "lws")
    now = pod_uids(queue, "lws")
    assert {pod for pod in now if now[pod] != before[pod]} == lost


@pytest.mark.usefixtures("holding_kueue")
def test_groups_go_and_are_recreated_though_kueue_holds_their_pods(queue: World) -> None:
    queue.create(queued("lws", replicas=2))
    come_up(queue, "lws")
    assert all(pod["metadata"]["finalizers"] == [HOLDS] for pod in pods_of(queue, "lws"))
    before = pod_uids(queue, "lws")

    queue.delete("Pod", "lws-0-1")
    for pod in ("lws-0", "lws-0-1", "lws-0-2"):
        queue.gone_or_replaced("Pod", pod, before[pod])
    come_up(queue, "lws")
    queue.patch(SET, "lws", scaled_to(1))
    come_up(queue, "lws")
    goes(queue, "lws")


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
    worker = asking("8", "nvidia.com/gpu", annotations={REQUIRED_TOPOLOGY: POOL_LABEL})
    world.create(queued("lws", replicas=2, size=2, workers=worker))
    come_up(world, "lws")
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
    goes(world, "lws")
