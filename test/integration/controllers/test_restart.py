"""Which pods are made anew when one of a group is lost or restarts, for each restart policy?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import RECREATE_GROUP_AFTER_START_ANNOTATION
from test.integration.controllers.harness.events import Event, events_of
from test.integration.controllers.harness.groups import settle, uids_of_group
from test.integration.controllers.harness.manifests import CONTAINER, a_set, pod_template
from test.integration.controllers.harness.waiting import eventually, stays
from test.integration.controllers.harness.world import World
from tools.localcluster import Pods

Trouble = Callable[[World, Pods, str], None]


def container_restart(world: World, pods: Pods, pod: str) -> None:
    pods.restart_container(world.namespace, pod, CONTAINER)


def init_container_restart(world: World, pods: Pods, pod: str) -> None:
    pods.restart_container(world.namespace, pod, "before")


def deletion(world: World, pods: Pods, pod: str) -> None:
    world.delete("Pod", pod)


def eviction(world: World, pods: Pods, pod: str) -> None:
    pods.fail(world.namespace, pod, "Evicted")


def recreated(world: World, name: str, index: int, before: dict[str, str]) -> None:
    """Wait until the group has the same pods by name, and none of them by UID."""
    eventually(
        f"group {index} was made anew",
        lambda: uids_of_group(world, name, index),
        lambda now: now.keys() == before.keys() and not set(now.values()) & set(before.values()),
    )
    settle(world, name)


def restarts_told(world: World, name: str) -> list[Event]:
    return [each for each in events_of(world, name) if each.reason == "RecreateGroup"]


def of_policy(policy: str) -> dict[str, Any]:
    if policy == "annotation":
        return {"annotations": {RECREATE_GROUP_AFTER_START_ANNOTATION: "true"}}
    return {"group": {"restartPolicy": policy}}


POLICIES = ["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "annotation"]
TROUBLES = [
    pytest.param(container_restart, "g-1-2", id="container of a worker restarts"),
    pytest.param(container_restart, "g-1", id="container of the leader restarts"),
    pytest.param(init_container_restart, "g-1-1", id="init container restarts"),
    pytest.param(deletion, "g-1-1", id="worker is deleted"),
    pytest.param(eviction, "g-1-2", id="worker is evicted"),
]


@pytest.mark.parametrize(("trouble", "pod"), TROUBLES)
def test_a_group_is_made_anew_as_one(world: World, pods: Pods, trouble: Trouble, pod: str) -> None:
    workers = pod_template(initContainers=[{"name": "before", "image": "before:1"}])
    world.create(a_set("g", replicas=2, size=3, workers=workers))
    settle(world, "g")
    before, other = uids_of_group(world, "g", 1), uids_of_group(world, "g", 0)

    trouble(world, pods, pod)
    recreated(world, "g", 1, before)

    assert uids_of_group(world, "g", 0) == other
    note = f"Worker pod {pod} failed, deleted leader pod g-1 to recreate group 1"
    told = eventually("it is told", lambda: restarts_told(world, "g"))
    assert told == [Event("Normal", "RecreateGroup", "Delete", note, "Pod g-1")]


@pytest.mark.parametrize("policy", [*POLICIES, "None"])
def test_a_lost_leader_takes_its_workers_along_under_every_policy(world: World, policy: str) -> None:
    world.create(a_set("led", replicas=2, **of_policy(policy)))
    settle(world, "led")
    before, other = uids_of_group(world, "led", 0), uids_of_group(world, "led", 1)

    world.delete("Pod", "led-0")
    recreated(world, "led", 0, before)

    assert uids_of_group(world, "led", 1) == other
    assert restarts_told(world, "led") == []


def test_without_a_policy_only_the_lost_pod_comes_back(world: World, pods: Pods) -> None:
    world.create(a_set("none", replicas=1, size=3, group={"restartPolicy": "None"}))
    settle(world, "none")
    before = uids_of_group(world, "none", 0)

    container_restart(world, pods, "none-0")
    container_restart(world, pods, "none-0-2")
    stays("restarts of containers are not ours", lambda: uids_of_group(world, "none", 0), 2)
    deletion(world, pods, "none-0-1")
    eventually(
        "the pod is another one",
        lambda: uids_of_group(world, "none", 0),
        lambda now: now.keys() == before.keys() and now != before,
    )
    settle(world, "none")

    assert {**uids_of_group(world, "none", 0), "none-0-1": ""} == {**before, "none-0-1": ""}
    assert restarts_told(world, "none") == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_group_that_is_still_starting_counts_only_under_the_plain_policy(
    world: World, pods: Pods, policy: str
) -> None:
    pending = pod_template(annotations={"localcluster/ready-after": "1h"})
    of_set = of_policy(policy)
    group = {**of_set.pop("group", {}), "leaderTemplate": pod_template()}
    world.create(a_set("young", replicas=1, size=2, workers=pending, group=group, **of_set))
    before = eventually(
        "there are leader and worker", lambda: uids_of_group(world, "young", 0), lambda now: len(now) == 2
    )
    eventually("the leader runs", lambda: world.get("Pod", "young-0")["status"]["phase"] == "Running")

    container_restart(world, pods, "young-0")
    if policy != "RecreateGroupOnPodRestart":
        stays("the group may go on starting", lambda: uids_of_group(world, "young", 0), 2)
        pods.set_ready(world.namespace, "young-0-1", True)

    eventually(
        "the group was made anew",
        lambda: uids_of_group(world, "young", 0),
        lambda now: len(now) == 2 and not set(now.values()) & set(before.values()),
    )
    assert len(eventually("it is told", lambda: restarts_told(world, "young"))) == 1


def test_a_policy_that_is_changed_takes_effect_at_once_and_restarts_nothing(world: World, pods: Pods) -> None:
    world.create(a_set("turned", replicas=2, group={"restartPolicy": "None"}))
    settle(world, "turned")
    before, other = uids_of_group(world, "turned", 0), uids_of_group(world, "turned", 1)

    patch = {"spec": {"leaderWorkerTemplate": {"restartPolicy": "RecreateGroupOnPodRestart"}}}
    world.patch("LeaderWorkerSet", "turned", patch)
    settle(world, "turned")
    assert uids_of_group(world, "turned", 0) == before

    container_restart(world, pods, "turned-0-1")
    recreated(world, "turned", 0, before)
    assert uids_of_group(world, "turned", 1) == other
