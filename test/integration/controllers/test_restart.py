"""A lost or restarted pod recreates its group as the restart policy says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import (
    GROUP_RESTART_COUNTS_ANNOTATION,
    RECOVER_ANNOTATION,
    RECREATE_GROUP_AFTER_START_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    RESTART_EXEMPT_CONTAINERS_ANNOTATION,
    RESTART_EXEMPT_SIDECARS_ANNOTATION,
)
from test.harness.drains import evict
from test.harness.events import Event, events_of, wait_for_events
from test.harness.groups import condition, settle, uids_of_group
from test.harness.history import History
from test.harness.manifests import CONTAINER, a_set, new_image, pod_template
from test.harness.product import Product
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from tools.deployment import NAMESPACE
from tools.localcluster import Pods
from tools.localcluster.pods import is_ready

Failure = Callable[[World, Pods, str], None]


def container_restart(world: World, pods: Pods, pod: str) -> None:
    pods.restart_container(world.namespace, pod, CONTAINER)


def init_container_restart(world: World, pods: Pods, pod: str) -> None:
    pods.restart_container(world.namespace, pod, "before")


def deletion(world: World, pods: Pods, pod: str) -> None:
    world.delete("Pod", pod)


def eviction(world: World, pods: Pods, pod: str) -> None:
    pods.fail(world.namespace, pod, "Evicted")


def wait_until_recreated(world: World, name: str, index: int, before: dict[str, str]) -> None:
    """Wait until the group has the same pods by name, and none of them by UID."""
    eventually(
        f"group {index} was recreated",
        lambda: uids_of_group(world, name, index),
        lambda now: now.keys() == before.keys() and not set(now.values()) & set(before.values()),
    )
    settle(world, name)


def restart_events(world: World, name: str) -> list[Event]:
    return [event for event in events_of(world, name) if event.reason == "RecreateGroup"]


def restarts_of(world: World, name: str) -> dict[str, str]:
    """Return the restarts that the status records, by group."""
    return dict((world.get(SET, name).get("status") or {}).get("restarts") or {})


def members_of(world: World, name: str) -> dict[str, str]:
    """Return the members of each group that the status records."""
    return dict((world.get(SET, name).get("status") or {}).get("members") or {})


@contextmanager
def lease_held_by_another(world: World) -> Iterator[None]:
    """Hold the Lease with another identity, so that no manager is active during the block."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/b8b2488c.x-k8s.io"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "a test", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    world.api.merge(path, {"spec": spec})
    try:
        yield
    finally:
        world.api.merge(path, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})


def of_policy(policy: str) -> dict[str, Any]:
    if policy == "annotation":
        return {"annotations": {RECREATE_GROUP_AFTER_START_ANNOTATION: "true"}}
    return {"group": {"restartPolicy": policy}}


POLICIES = ["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "annotation"]
FAILURES = [
    pytest.param(container_restart, "g-1-2", id="container of a worker restarts"),
    pytest.param(container_restart, "g-1", id="container of the leader restarts"),
    pytest.param(init_container_restart, "g-1-1", id="init container restarts"),
    pytest.param(deletion, "g-1-1", id="worker is deleted"),
    pytest.param(eviction, "g-1-2", id="worker is evicted"),
]


# If a pod is deleted at once, its replacement may exist before the manager checks.
REPLACED = "it was replaced by another pod of that name"
ONE_OF_THEM = "it, or another worker as young as it, was replaced by another pod of that name"
GONE = {"it is being deleted", REPLACED, ONE_OF_THEM}
REASONS: dict[Failure, set[str]] = {
    container_restart: {f"container {CONTAINER} exited with code 1 (Error) and was restarted"},
    init_container_restart: {"container before exited with code 1 (Error) and was restarted"},
    deletion: GONE,
    eviction: {f"it failed (Evicted), container {CONTAINER} exited with code 137 (Error)", *GONE},
}


@pytest.mark.parametrize(("failure", "pod"), FAILURES)
def test_a_group_is_recreated_as_a_whole(world: World, pods: Pods, failure: Failure, pod: str) -> None:
    workers = pod_template(initContainers=[{"name": "before", "image": "before:1"}])
    world.create(a_set("g", replicas=2, size=3, workers=workers))
    settle(world, "g")
    before, untouched = uids_of_group(world, "g", 1), uids_of_group(world, "g", 0)

    failure(world, pods, pod)
    wait_until_recreated(world, "g", 1, before)

    assert uids_of_group(world, "g", 0) == untouched
    (event,) = wait_for_events(world, "g", "RecreateGroup")
    note, _, why = event.note.partition(": ")
    named = {"g-1-1", "g-1-2"} if why == ONE_OF_THEM else {pod}
    assert note in {
        f"Worker pod {worker} failed, deleted leader pod g-1 to recreate group 1" for worker in named
    }
    assert event == Event("Normal", "RecreateGroup", "Delete", f"{note}: {why}", "Pod g-1")
    assert why in REASONS[failure]
    assert restarts_of(world, "g").keys() == {"1"} and restarts_of(world, "g")["1"].startswith("1.1.")


@pytest.mark.parametrize("policy", [*POLICIES, "None"])
def test_workers_of_a_lost_leader_are_recreated_under_every_policy(world: World, policy: str) -> None:
    slow = pod_template(annotations={"localcluster/stops-after": "1"}, terminationGracePeriodSeconds=600)
    world.create(a_set("led", replicas=2, workers=slow, **of_policy(policy)))
    settle(world, "led")
    before, untouched = uids_of_group(world, "led", 0), uids_of_group(world, "led", 1)

    history = History(world, "led")
    world.delete("Pod", "led-0")
    wait_until_recreated(world, "led", 0, before)

    assert history.early_workers() == [], "StatefulSets back off if a name is still in use"
    assert uids_of_group(world, "led", 1) == untouched
    assert restart_events(world, "led") == []


def test_without_a_policy_only_the_lost_pod_is_recreated(world: World, pods: Pods) -> None:
    world.create(a_set("none", replicas=1, size=3, group={"restartPolicy": "None"}))
    settle(world, "none")
    before = uids_of_group(world, "none", 0)

    container_restart(world, pods, "none-0")
    container_restart(world, pods, "none-0-2")
    stays("restarts of containers have no effect", lambda: uids_of_group(world, "none", 0), 2)
    deletion(world, pods, "none-0-1")
    eventually(
        "the pod is recreated",
        lambda: uids_of_group(world, "none", 0),
        lambda now: now.keys() == before.keys() and now != before,
    )
    settle(world, "none")

    assert {**uids_of_group(world, "none", 0), "none-0-1": ""} == {**before, "none-0-1": ""}
    assert restart_events(world, "none") == []


@pytest.mark.our_simulation
@pytest.mark.parametrize("policy", POLICIES)
def test_restarts_during_the_start_count_only_under_recreate_group_on_pod_restart(
    world: World, pods: Pods, policy: str
) -> None:
    pending = pod_template(annotations={"localcluster/ready-after": "1h"})
    of_set = of_policy(policy)
    group = {**of_set.pop("group", {}), "leaderTemplate": pod_template()}
    world.create(a_set("young", replicas=1, size=2, workers=pending, group=group, **of_set))
    before = eventually(
        "leader and worker exist", lambda: uids_of_group(world, "young", 0), lambda now: len(now) == 2
    )
    eventually("the leader runs", lambda: world.get("Pod", "young-0")["status"]["phase"] == "Running")

    container_restart(world, pods, "young-0")
    if policy != "RecreateGroupOnPodRestart":
        stays("the group is kept", lambda: uids_of_group(world, "young", 0), 2)
        pods.set_ready(world.namespace, "young-0-1", True)
        settle(world, "young")
        assert uids_of_group(world, "young", 0) == before, "restarts during the start do not count"
        assert restart_events(world, "young") == []
        container_restart(world, pods, "young-0")

    eventually(
        "the group was recreated",
        lambda: uids_of_group(world, "young", 0),
        lambda now: len(now) == 2 and not set(now.values()) & set(before.values()),
    )
    assert len(wait_for_events(world, "young", "RecreateGroup")) == 1


@pytest.mark.parametrize("skew", [-180.0, 180.0])
def test_a_restart_after_the_start_counts_whatever_the_clocks_of_nodes_say(
    world: World, product: Product, pods: Pods, skew: float
) -> None:
    world.create(a_set("clocks", replicas=1, size=2, **of_policy("RecreateGroupAfterStart")))
    settle(world, "clocks")
    before = uids_of_group(world, "clocks", 0)
    eventually("the start is recorded", lambda: members_of(world, "clocks").get("0", "").endswith("-0"))
    pods.restart_container(world.namespace, "clocks-0", CONTAINER, skew=skew)
    wait_until_recreated(world, "clocks", 0, before)

    before = uids_of_group(world, "clocks", 0)
    eventually("the start is recorded", lambda: members_of(world, "clocks").get("0", "").endswith("-0"))
    product.stop()
    pods.restart_container(world.namespace, "clocks-0-1", CONTAINER, skew=skew)
    product.start()
    wait_until_recreated(world, "clocks", 0, before)
    assert len(wait_for_events(world, "clocks", "RecreateGroup", 2)) == 2


def test_a_changed_policy_applies_at_once_and_restarts_nothing(world: World, pods: Pods) -> None:
    world.create(a_set("turned", replicas=2, group={"restartPolicy": "None"}))
    settle(world, "turned")
    before, untouched = uids_of_group(world, "turned", 0), uids_of_group(world, "turned", 1)

    patch = {"spec": {"leaderWorkerTemplate": {"restartPolicy": "RecreateGroupOnPodRestart"}}}
    world.patch("LeaderWorkerSet", "turned", patch)
    settle(world, "turned")
    assert uids_of_group(world, "turned", 0) == before

    container_restart(world, pods, "turned-0-1")
    wait_until_recreated(world, "turned", 0, before)
    assert uids_of_group(world, "turned", 1) == untouched


# --- Failures while no manager is active --------------------------------------------------------------------


def test_a_group_is_recreated_after_a_worker_was_replaced_without_a_manager(
    world: World, product: Product
) -> None:
    world.create(a_set("away", replicas=2, size=3))
    settle(world, "away")
    before, untouched = uids_of_group(world, "away", 0), uids_of_group(world, "away", 1)
    eventually(
        "the members of both groups are recorded", lambda: set(members_of(world, "away")) == {"0", "1"}
    )

    product.stop()
    world.delete("Pod", "away-0-1")
    world.gone_or_replaced("Pod", "away-0-1", before["away-0-1"])
    product.start()
    wait_until_recreated(world, "away", 0, before)

    assert uids_of_group(world, "away", 1) == untouched
    (event,) = wait_for_events(world, "away", "RecreateGroup")
    assert event.note.startswith("Worker pod away-0-1 failed, deleted leader pod away-0 to recreate group 0")
    assert restarts_of(world, "away").keys() == {"0"} and restarts_of(world, "away")["0"].startswith("1.1.")


@pytest.mark.local_only
@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"])
def test_a_worker_ready_again_before_a_manager_leads(world: World, product: Product, policy: str) -> None:
    """The test holds the Lease, so the manager only answers webhooks."""
    world.create(a_set("led", replicas=2, size=3, **of_policy(policy)))
    settle(world, "led")
    before, untouched = uids_of_group(world, "led", 0), uids_of_group(world, "led", 1)
    if policy != "None":
        eventually(
            "the members of both groups are recorded", lambda: set(members_of(world, "led")) == {"0", "1"}
        )

    product.stop()
    with lease_held_by_another(world):
        product.start()
        world.delete("Pod", "led-0-2")
        eventually(
            "another worker is ready",
            lambda: world.find("Pod", "led-0-2"),
            lambda pod: pod is not None and pod["metadata"]["uid"] != before["led-0-2"] and is_ready(pod),
        )
        after = uids_of_group(world, "led", 0)
        assert after["led-0"] == before["led-0"]
        if policy == "None":
            # Earlier losses do not count against the group under another policy.
            patch = {"spec": {"leaderWorkerTemplate": {"restartPolicy": "RecreateGroupOnPodRestart"}}}
            world.patch(SET, "led", patch)

    if policy == "None":
        eventually("the manager records members again", lambda: set(members_of(world, "led")) == {"0", "1"})
        settle(world, "led")
        assert (uids_of_group(world, "led", 0), restart_events(world, "led")) == (after, [])
    else:
        wait_until_recreated(world, "led", 0, after)
        (event,) = wait_for_events(world, "led", "RecreateGroup")
        note, _, why = event.note.partition(": ")
        assert note == "Worker pod led-0-2 failed, deleted leader pod led-0 to recreate group 0"
        assert why in {REPLACED, ONE_OF_THEM}
    assert uids_of_group(world, "led", 1) == untouched


# --- Limits of restarts -------------------------------------------------------------------------------------


def test_repeated_failures_back_off(world: World, pods: Pods) -> None:
    world.create(a_set("again", replicas=1, size=2))
    settle(world, "again")
    moments = []
    for _ in range(3):
        before = uids_of_group(world, "again", 0)
        container_restart(world, pods, "again-0-1")
        wait_until_recreated(world, "again", 0, before)
        moments.append(int(restarts_of(world, "again")["0"].split(".")[2]))

    assert restarts_of(world, "again")["0"].startswith("3.3.")
    assert moments[1] - moments[0] >= 10 and moments[2] - moments[1] >= 20
    put_off = [event for event in events_of(world, "again") if event.reason == "RecreateGroupDelayed"]
    assert all(event.type == "Warning" and event.related == "Pod again-0" for event in put_off)
    # On a slow machine, a delay may end before the group is ready again.
    assert {event.note.partition(" in quick succession")[0] for event in put_off} <= {
        "group 0 was recreated once",
        "group 0 was recreated 2 times",
    }
    assert len(wait_for_events(world, "again", "RecreateGroup", 3)) == 3


def test_repeated_evictions_do_not_back_off(world: World) -> None:
    """The workers are evicted by the Eviction API, as in a drain.

    The set allows no failure, so an eviction that counts as one would keep the group down.
    """
    world.create(a_set("drained", replicas=1, size=3, maxGroupRestarts=0))
    settle(world, "drained")
    for worker in ("drained-0-1", "drained-0-2", "drained-0-1"):
        before = uids_of_group(world, "drained", 0)
        assert evict(world, worker)
        wait_until_recreated(world, "drained", 0, before)
    assert restarts_of(world, "drained") == {}
    assert len(wait_for_events(world, "drained", "RecreateGroup", 3)) == 3
    assert not {event.reason for event in events_of(world, "drained")} & {
        "RecreateGroupDelayed",
        "GroupFailed",
    }


@pytest.mark.parametrize("resolution", ["limit", "leader", "revision"])
def test_a_group_without_remaining_restarts_is_kept(world: World, pods: Pods, resolution: str) -> None:
    world.create(a_set("used", replicas=2, size=2, maxGroupRestarts=0))
    settle(world, "used")
    before, untouched = uids_of_group(world, "used", 0), uids_of_group(world, "used", 1)

    container_restart(world, pods, "used-0-1")
    failed = eventually("the condition is set", lambda: condition(world.get(SET, "used"), "Failed"))
    assert (failed["status"], failed["reason"]) == ("True", "GroupRestartsExhausted")
    assert failed["message"].startswith("Group 0 has exceeded maxGroupRestarts")
    events = wait_for_events(world, "used", "GroupFailed")
    assert len(events) == 1 and events[0].note.startswith("group 0 failed and is left as it is for diagnosis")
    stays("the group is kept", lambda: uids_of_group(world, "used", 0), 2)
    assert restart_events(world, "used") == []

    if resolution == "limit":
        world.patch(SET, "used", {"spec": {"maxGroupRestarts": 1}})
    elif resolution == "leader":
        world.delete("Pod", "used-0")
    else:
        world.patch(SET, "used", new_image("server:2"))
    wait_until_recreated(world, "used", 0, before)
    eventually(
        "the condition is cleared", lambda: condition(world.get(SET, "used"), "Failed")["status"] == "False"
    )
    times = int(resolution == "limit")
    assert len(wait_for_events(world, "used", "RecreateGroup", times)) == times
    assert (uids_of_group(world, "used", 1) == untouched) is (resolution != "revision")


def kept_pods(world: World) -> set[str]:
    """Return the names of pods with our finalizer."""
    pods_metadata = (pod["metadata"] for pod in world.list("Pod"))
    return {
        metadata["name"]
        for metadata in pods_metadata
        if RESTART_BUDGET_FINALIZER in metadata.get("finalizers", ())
    }


@pytest.mark.parametrize("resolution", ["recovery", "revision", "scaling", "deletion"])
def test_a_group_ends_at_upstreams_restart_limit(world: World, pods: Pods, resolution: str) -> None:
    world.create(a_set("ended", replicas=2, size=2, group={"maxGroupRestarts": 1, "restartBackoff": {}}))
    settle(world, "ended")
    before, untouched = uids_of_group(world, "ended", 1), uids_of_group(world, "ended", 0)
    container_restart(world, pods, "ended-1-1")
    wait_until_recreated(world, "ended", 1, before)
    again = uids_of_group(world, "ended", 1)
    container_restart(world, pods, "ended-1-1")
    eventually("its pods are kept", lambda: kept_pods(world), lambda now: now == {"ended-1", "ended-1-1"})
    degraded = eventually(
        "the set is degraded",
        lambda: condition(world.get(SET, "ended"), "Degraded"),
        lambda now: now["status"] == "True",
    )
    assert degraded["reason"] == "ReplicaRestartBudgetExceeded"
    assert {event.type for event in wait_for_events(world, "ended", "ReplicaRestartBudgetExceeded", 2)} == {
        "Normal",
        "Warning",
    }
    stays("the failed group is kept", lambda: uids_of_group(world, "ended", 1) == again, 2)
    (count,) = json.loads(
        world.get(SET, "ended")["metadata"]["annotations"][GROUP_RESTART_COUNTS_ANNOTATION]
    ).values()
    assert count == 1

    if resolution == "deletion":
        world.delete(SET, "ended")
        eventually("no pod is left", lambda: world.list("Pod"), lambda remaining: not remaining)
        return
    if resolution == "scaling":
        world.patch(SET, "ended", {"spec": {"replicas": 1}})
        eventually("the group is deleted", lambda: uids_of_group(world, "ended", 1), lambda uids: not uids)
    elif resolution == "recovery":
        world.patch("Pod", "ended-1", {"metadata": {"annotations": {RECOVER_ANNOTATION: "true"}}})
        wait_until_recreated(world, "ended", 1, again)
    else:
        world.patch(SET, "ended", new_image("server:2"))
        wait_until_recreated(world, "ended", 1, again)
    eventually(
        "the condition is cleared",
        lambda: condition(world.get(SET, "ended"), "Degraded")["status"] == "False",
    )
    assert (uids_of_group(world, "ended", 0) == untouched) is (resolution != "revision")


def test_an_ended_group_does_not_block_namespace_deletion(world: World, pods: Pods) -> None:
    """The set has only this group, so no deletion of another pod triggers a pass."""
    world.create(a_set("lone", replicas=1, size=2, group={"maxGroupRestarts": 0}))
    settle(world, "lone")
    container_restart(world, pods, "lone-0-1")
    eventually("its pods are kept", lambda: kept_pods(world), lambda now: now == {"lone-0", "lone-0-1"})
    world.cluster.kubectl("delete", "namespace", world.namespace, "--wait=false")
    name = ("get", "namespace", world.namespace, "--ignore-not-found", "-o", "name")
    eventually("the namespace is gone", lambda: world.cluster.kubectl(*name), lambda output: not output)


# --- Losses that do not count -------------------------------------------------------------------------------


def test_restarts_of_exempt_containers_do_not_count(world: World, pods: Pods) -> None:
    side = {"name": "side", "image": "side:1", "restartPolicy": "Always"}
    template = pod_template(initContainers=[side])
    template["spec"]["containers"].append({"name": "log", "image": "log:1"})
    exempt = {RESTART_EXEMPT_CONTAINERS_ANNOTATION: "log, other", RESTART_EXEMPT_SIDECARS_ANNOTATION: "true"}
    world.create(a_set("spared", replicas=1, size=2, workers=template, annotations=exempt))
    settle(world, "spared")
    before = uids_of_group(world, "spared", 0)

    for pod in ("spared-0", "spared-0-1"):
        for container in ("log", "side"):
            pods.restart_container(world.namespace, pod, container)
    stays("the group is kept", lambda: uids_of_group(world, "spared", 0), 2)
    container_restart(world, pods, "spared-0-1")
    wait_until_recreated(world, "spared", 0, before)
    (event,) = wait_for_events(world, "spared", "RecreateGroup")
    assert event.note.endswith(f"container {CONTAINER} exited with code 1 (Error) and was restarted")


def test_worker_replicas_are_repaired_without_a_restart(world: World) -> None:
    world.create(a_set("hand", replicas=1, size=2))
    settle(world, "hand")
    before = uids_of_group(world, "hand", 0)

    for _ in range(2):
        world.patch("StatefulSet", "hand-0", {"spec": {"replicas": 3}})
        eventually(
            "replicas are repaired", lambda: world.get("StatefulSet", "hand-0")["spec"]["replicas"] == 1
        )
        eventually("the additional pod is deleted", lambda: uids_of_group(world, "hand", 0) == before)
    settle(world, "hand")

    assert uids_of_group(world, "hand", 0) == before
    assert restart_events(world, "hand") == [] and restarts_of(world, "hand") == {}
