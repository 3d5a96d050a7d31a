"""Evictions disrupt no more groups at a time than the PodDisruptionBudget of a set allows."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import NAME_LABEL
from test.harness.drains import cordoned, drain, evict
from test.harness.groups import condition, controller_of, pods_of, settle
from test.harness.history import History, ready_groups
from test.harness.manifests import a_set, pod_template, scaled_to
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from tools.localcluster import Pods

GROUPS, SIZE = 4, 2


def set_with_budget(name: str, max_unavailable_groups: int | None = None, **spec: Any) -> dict[str, Any]:
    budget = {} if max_unavailable_groups is None else {"maxUnavailableGroups": max_unavailable_groups}
    return a_set(name, spec.pop("replicas", GROUPS), SIZE, podDisruptionBudget=budget, **spec)


def slow_stopping_template(ready_after: str) -> dict[str, Any]:
    """Return a template of pods that take 5 s to stop, like real containers.

    So the manager observes an eviction before the pod is gone.
    """
    annotations = {"localcluster/ready-after": ready_after, "localcluster/stops-after": "5"}
    return pod_template(annotations=annotations)


def wait_until_allowed(world: World, name: str, evictions: int) -> None:
    """Wait until the disruption controller has updated the allowed evictions."""
    eventually(
        f"{evictions} evictions are allowed",
        lambda: (world.find("PodDisruptionBudget", name) or {}).get("status", {}).get("disruptionsAllowed"),
        lambda allowed: allowed == evictions,
    )


@pytest.mark.our_simulation
@pytest.mark.parametrize(
    ("groups", "startup"),
    [
        pytest.param(1, "LeaderCreated", id="one group"),
        # While a leader is ready and has no workers yet, a count of pods finds the group complete.
        pytest.param(1, "LeaderReady", id="one group whose workers start late"),
        pytest.param(2, "LeaderCreated", id="two groups"),
    ],
)
def test_concurrent_drains_disrupt_no_more_groups_than_allowed(
    world: World, groups: int, startup: str
) -> None:
    nodes = [f"node-{index}" for index in range(6)]
    world.create(
        set_with_budget(
            "drained", groups, startupPolicy=startup, workers=slow_stopping_template(ready_after="3s")
        )
    )
    settle(world, "drained")
    wait_until_allowed(world, "drained", groups)
    assert any(pod["spec"].get("nodeName") in nodes for pod in pods_of(world, "drained"))

    history = History(world, "drained")
    with cordoned(world, set(nodes)):
        drains = [
            threading.Thread(target=drain, args=(world, "drained", set(half)), daemon=True)
            for half in (nodes[:3], nodes[3:])
        ]
        for thread in drains:
            thread.start()
        for thread in drains:
            thread.join()
        settle(world, "drained")

    assert {pod["spec"]["nodeName"] for pod in pods_of(world, "drained")} <= {"node-6", "node-7"}
    assert 1 <= max(GROUPS - len(ready_groups(frame)) for frame in history.pods()) <= groups


@pytest.mark.our_simulation
@pytest.mark.parametrize("size", [1, 2])
def test_as_many_groups_as_allowed_can_be_evicted_at_a_time(world: World, pods: Pods, size: int) -> None:
    # Pods that become ready when the test says so, and groups that are not recreated with the evicted one.
    workers = slow_stopping_template(ready_after="1h")
    manifest = a_set("two", GROUPS, size, workers=workers, group={"restartPolicy": "None"})
    manifest["spec"]["podDisruptionBudget"] = {"maxUnavailableGroups": 2}
    world.create(manifest)
    make_ready(world, pods, "two", GROUPS * size)
    wait_until_allowed(world, "two", 2)
    first, second, third = (f"two-{index}" if size == 1 else f"two-{index}-1" for index in (0, 3, 1))

    assert evict(world, first)
    eventually("the second is evicted while the first is missing", lambda: evict(world, second))
    stays("the third is not evicted", lambda: evict(world, third), 2)
    assert world.get("Pod", third)["status"]["phase"] == "Running"

    make_ready(world, pods, "two", GROUPS * size)
    wait_until_allowed(world, "two", 2)


def make_ready(world: World, pods: Pods, name: str, count: int) -> None:
    """Wait until all pods exist and their containers have started, then make them ready."""
    names = eventually("all pods exist", lambda: scheduled_pods(world, name), lambda now: len(now) == count)
    for pod in names:
        pods.set_ready(world.namespace, pod, True)
    settle(world, name)


def scheduled_pods(world: World, name: str) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in pods_of(world, name)
        if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    ]


def test_the_budget_is_restored_and_deleted_with_the_field(world: World) -> None:
    world.create(set_with_budget("kept"))
    settle(world, "kept")
    wait_until_allowed(world, "kept", 1)
    budget = world.get("PodDisruptionBudget", "kept")
    assert controller_of(budget)["kind"] == SET
    assert budget["spec"] == {
        "maxUnavailable": 1,
        "selector": {"matchLabels": {NAME_LABEL: "kept"}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }

    edit = {"minAvailable": 0, "maxUnavailable": None, "selector": {"matchLabels": {"app": "mine"}}}
    world.patch("PodDisruptionBudget", "kept", {"metadata": {"labels": {NAME_LABEL: None}}, "spec": edit})
    eventually("the edit is reverted", lambda: spec_of(world, "kept"), lambda now: now == budget["spec"])
    assert world.get("PodDisruptionBudget", "kept")["metadata"]["labels"] == {NAME_LABEL: "kept"}

    world.delete("PodDisruptionBudget", "kept")
    eventually("the budget is recreated", lambda: spec_of(world, "kept"), lambda now: now == budget["spec"])

    world.patch(SET, "kept", scaled_to(1))
    eventually("a set of one has no budget", lambda: spec_of(world, "kept"), lambda now: now is None)
    world.patch(SET, "kept", {"spec": {"podDisruptionBudget": {"maxUnavailableGroups": 0}}})
    eventually(
        "a set of one has a budget if it gives a number",
        lambda: spec_of(world, "kept"),
        lambda now: now and now["maxUnavailable"] == 0,
    )
    world.patch(SET, "kept", {"spec": {"podDisruptionBudget": None}})
    eventually(
        "the budget is deleted with the field", lambda: spec_of(world, "kept"), lambda now: now is None
    )


def test_a_foreign_budget_is_left_alone(world: World) -> None:
    foreign = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "taken"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "theirs"}}},
    }
    before = world.create(foreign)
    world.create(set_with_budget("taken"))
    failure = eventually(
        "the name clash is reported",
        lambda: condition(world.get(SET, "taken"), "ReplicaFailure"),
        lambda now: now.get("reason") == "NameClash",
    )
    assert "PodDisruptionBudget taken exists and is not controlled by anything" in failure["message"]
    stays("the budget is not changed", lambda: spec_of(world, "taken"), 2)
    assert world.uid("PodDisruptionBudget", "taken") == before["metadata"]["uid"]
    assert spec_of(world, "taken") == before["spec"]


def spec_of(world: World, name: str) -> dict[str, Any] | None:
    budget = world.find("PodDisruptionBudget", name)
    return dict(budget["spec"]) if budget else None
