"""Sets with `groupIdentity: Hash`, with real Deployment, ReplicaSet and StatefulSet controllers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lws.kube.pods import is_ready
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    GROUP_RESTART_COUNTS_ANNOTATION,
    RECOVER_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
)
from test.harness.events import events_of
from test.harness.groups import (
    Object,
    annotations_of,
    condition,
    labels_of,
    leaders_of,
    name_of,
    pod_uids,
    settle,
)
from test.harness.manifests import CONTAINER, a_set, new_image, pod_template, rolling, scaled_to
from test.harness.never_ready import never_ready, ready_again
from test.harness.product import Product
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from tools.localcluster import Pods

COST = "controller.kubernetes.io/pod-deletion-cost"


def a_hash_set(name: str, replicas: int = 2, size: int = 2, **spec: Any) -> Object:
    return a_set(name, replicas, size, groupIdentity="Hash", **spec)


def keys_of(world: World, name: str) -> set[str]:
    return {labels_of(pod)[GROUP_INDEX_LABEL] for pod in leaders_of(world, name)}


@pytest.fixture
def groups(world: World) -> World:
    world.create(a_hash_set("demo"))
    settle(world, "demo")
    return world


def test_leaders_are_pods_of_a_deployment_and_workers_are_named_by_host(groups: World) -> None:
    deployment = groups.get("Deployment", "demo")
    assert deployment["spec"]["replicas"] == deployment["status"]["readyReplicas"] == 2
    assert groups.find("StatefulSet", "demo") is None
    for leader in leaders_of(groups, "demo"):
        host = leader["spec"]["hostname"]
        assert host == f"demo-{labels_of(leader)[GROUP_INDEX_LABEL][:8]}"
        assert groups.get("StatefulSet", host)["status"]["availableReplicas"] == 1
        worker = groups.get("Pod", f"{host}-1")
        environment = {
            variable["name"]: variable.get("value") for variable in worker["spec"]["containers"][0]["env"]
        }
        assert environment["LWS_LEADER_ADDRESS"] == f"{host}.demo.{groups.namespace}"
        assert "schedulingGates" not in leader["spec"]
        assert COST not in annotations_of(leader)


def test_workers_left_by_a_deleted_leader_give_their_place_to_the_next_group(groups: World) -> None:
    first, _ = leaders_of(groups, "demo")
    host = first["spec"]["hostname"]
    groups.delete("Pod", name_of(first), "Orphan")
    eventually("its workers are gone", lambda: groups.find("Pod", f"{host}-1") is None)
    settle(groups, "demo")
    assert groups.find("StatefulSet", host) is None
    assert labels_of(first)[GROUP_INDEX_LABEL] not in keys_of(groups, "demo")


def test_a_lost_worker_recreates_its_group_alone(groups: World) -> None:
    first, second = leaders_of(groups, "demo")
    groups.delete("Pod", f"{first['spec']['hostname']}-1")
    key = labels_of(first)[GROUP_INDEX_LABEL]
    eventually("the group is gone", lambda: keys_of(groups, "demo"), lambda now: key not in now)
    settle(groups, "demo")
    assert labels_of(second)[GROUP_INDEX_LABEL] in keys_of(groups, "demo")
    assert "RecreateGroup" in {event.reason for event in events_of(groups, "demo")}


@pytest.mark.parametrize("budget", [{"maxUnavailable": 1}, {"maxUnavailable": 1, "maxSurge": 1}])
def test_a_rollout_replaces_every_group(world: World, budget: dict[str, Any]) -> None:
    world.create(a_hash_set("demo", 3, rolloutStrategy=rolling(**budget)))
    settle(world, "demo")
    before = keys_of(world, "demo")
    world.patch(SET, "demo", new_image("server:2"))
    settle(world, "demo")
    assert not keys_of(world, "demo") & before
    images = {pod["spec"]["containers"][0]["image"] for pod in leaders_of(world, "demo")}
    assert images == {"server:2"}


def test_a_new_leader_is_gated_until_its_former_group_is_gone(groups: World) -> None:
    """A finalizer keeps one worker of the former group."""
    first, _ = leaders_of(groups, "demo")
    worker = f"{first['spec']['hostname']}-1"
    groups.patch("Pod", worker, {"metadata": {"finalizers": ["example.com/kept"]}})
    groups.delete("Pod", name_of(first))

    def gated() -> list[str]:
        gate = {"name": GROUP_REPLACEMENT_GATE}
        leaders = leaders_of(groups, "demo")
        return [name_of(pod) for pod in leaders if gate in (pod["spec"].get("schedulingGates") or ())]

    (name,) = eventually("the new leader is gated", gated, lambda now: len(now) == 1)
    eventually(
        "an Event reports the delay",
        lambda: {
            event["reason"]
            for event in groups.list("Event")
            if event["regarding"]["name"] == "demo" and event.get("related", {}).get("name") == name
        },
        lambda now: "GroupReplacementDeferred" in now,
    )
    assert gated() == [name]
    groups.patch("Pod", worker, {"metadata": {"finalizers": None}})
    settle(groups, "demo")
    assert not gated()


def test_groups_start_in_waves(world: World) -> None:
    """The Deployment creates all leaders, and the gate holds the later ones back."""
    waves = {"seedGroups": 2, "growthFactor": 2}
    world.create(a_hash_set("demo", 5, workers=never_ready(), startStrategy=waves))

    def started() -> list[bool]:
        return sorted("schedulingGates" not in pod["spec"] for pod in leaders_of(world, "demo"))

    first = [False, False, False, True, True]
    eventually("the first wave is admitted", started, lambda now: now == first)
    stays("the other leaders stay gated", started, 3)
    ready = {"spec": {"leaderWorkerTemplate": {"workerTemplate": ready_again(pod_template("server:2"))}}}
    world.patch(SET, "demo", ready)
    settle(world, "demo")


def test_more_groups_than_desired_are_ready_only_while_a_rollout_has_a_surge(world: World) -> None:
    world.create(a_hash_set("demo", 3, rolloutStrategy=rolling(maxUnavailable=0, maxSurge=2)))
    settle(world, "demo")
    world.patch(SET, "demo", new_image("server:2"))
    seen: list[tuple[int, int, bool]] = []

    def is_over() -> bool:
        lws = world.get(SET, "demo")
        status = lws["status"]
        is_updating = condition(lws, "UpdateInProgress").get("status") == "True"
        seen.append((status.get("readyReplicas", 0), status["replicas"], is_updating))
        return images_in(world) == ["server:2"] * 3 and not is_updating

    eventually("the rollout is over", is_over, lambda now: now)
    settle(world, "demo")
    assert any(is_updating for _, _, is_updating in seen)
    assert all(ready <= existing <= 5 for ready, existing, _ in seen), seen
    assert all(ready <= 3 or is_updating for ready, _, is_updating in seen), seen


def test_a_scale_up_or_a_lost_leader_is_no_rollout(world: World) -> None:
    world.create(a_hash_set("demo", 2, workers=never_ready()))
    eventually("all groups start", lambda: started_groups(world), lambda now: now == 2)
    world.patch(SET, "demo", scaled_to(3))
    eventually("another group starts", lambda: started_groups(world), lambda now: now == 3)
    first, *_ = leaders_of(world, "demo")
    world.kubectl("delete", "pod", name_of(first), "--force", "--grace-period=0")
    lost = {labels_of(first)[GROUP_INDEX_LABEL]}
    eventually("the group is gone", lambda: keys_of(world, "demo"), lost.isdisjoint)
    eventually("its successor starts", lambda: started_groups(world), lambda now: now == 3)

    def is_updating() -> bool:
        return bool(condition(world.get(SET, "demo"), "UpdateInProgress").get("status") == "True")

    stays("there is no rollout", is_updating, 2)
    assert not is_updating() and condition(world.get(SET, "demo"), "Progressing")["status"] == "True"
    world.patch(SET, "demo", new_image("server:2"))
    eventually("there is a rollout", is_updating, lambda now: now)


def test_a_set_without_groups_may_have_limits_of_zero(world: World) -> None:
    """The Deployment would be rejected with them."""
    zero = {"maxUnavailable": 0, "maxSurge": 0}
    world.create(a_hash_set("demo", 0, rolloutStrategy=rolling(**zero)))
    settle(world, "demo")
    world.patch(SET, "demo", scaled_to(2))
    settle(world, "demo")
    world.patch(SET, "demo", new_image("server:2"))
    settle(world, "demo")
    assert images_in(world) == ["server:2"] * 2


def started_groups(world: World) -> int:
    return len(leaders_of(world, "demo")) - waiting_leaders(world)


@pytest.mark.parametrize(
    ("budget", "ready"), [({"maxUnavailable": 1}, 3), ({"maxUnavailable": 0, "maxSurge": 1}, 4)]
)
def test_lost_groups_of_the_former_revision_are_recreated_while_the_first_wave_is_broken(
    world: World, budget: dict[str, Any], ready: int
) -> None:
    waves = {"seedGroups": 1}
    world.create(a_hash_set("demo", 4, startStrategy=waves, rolloutStrategy=rolling(**budget)))
    settle(world, "demo")
    world.patch(SET, "demo", {"spec": {"leaderWorkerTemplate": {"workerTemplate": never_ready("server:2")}}})

    def state() -> tuple[int, int]:
        """Return the numbers of new groups, and of ready ones. A status may be late."""
        return images_in(world).count("server:2"), sum(map(is_ready, leaders_of(world, "demo")))

    eventually("the first wave is broken", state, lambda now: now == (1, ready))
    for _ in range(ready):
        old = [pod for pod in leaders_of(world, "demo") if "server:2" not in str(pod["spec"]["containers"])]
        lost = {labels_of(old[0])[GROUP_INDEX_LABEL]}
        world.delete("Pod", name_of(old[0]))
        eventually("the group is gone", lambda: keys_of(world, "demo"), lost.isdisjoint)
        eventually("its successor is ready", state, lambda now: now == (1, ready))
    assert started_groups(world) == ready + 1


def test_a_paused_set_is_scaled_up_in_waves(world: World) -> None:
    """Its new groups have the former template."""
    waves = {"seedGroups": 2}
    world.create(a_hash_set("demo", 2, workers=never_ready(), startStrategy=waves))
    eventually("the first wave is admitted", lambda: started_groups(world), lambda now: now == 2)
    paused = {"rolloutStrategy": {"paused": True}}
    world.patch(SET, "demo", {"spec": {**new_image("server:2")["spec"], **paused, **scaled_to(6)["spec"]}})
    eventually(
        "all leaders exist", lambda: (len(images_in(world)), started_groups(world)), lambda now: now == (6, 2)
    )
    stays("the other leaders stay gated", lambda: started_groups(world), 3)
    assert "server:2" not in images_in(world)


def test_scaling_keeps_the_other_groups(groups: World) -> None:
    before = pod_uids(groups, "demo")
    groups.patch(SET, "demo", scaled_to(4))
    settle(groups, "demo")
    assert before.items() <= pod_uids(groups, "demo").items()
    groups.patch(SET, "demo", scaled_to(1))
    settle(groups, "demo")
    assert len(keys_of(groups, "demo")) == 1


def test_a_scale_down_deletes_the_worst_group_as_a_whole(world: World) -> None:
    """The leader of the group without restarts left is as ready as the others, and older."""
    world.create(a_hash_set("demo", maxGroupRestarts=0))
    settle(world, "demo")
    (worst, *_), before = leaders_of(world, "demo"), keys_of(world, "demo")
    host = worst["spec"]["hostname"]
    world.delete("Pod", f"{host}-1")
    eventually(
        "the group is kept",
        lambda: events_of(world, "demo"),
        lambda now: any(e.reason == "GroupFailed" for e in now),
    )
    world.patch(SET, "demo", scaled_to(4))
    settle(world, "demo")
    assert before < keys_of(world, "demo")
    world.patch(SET, "demo", scaled_to(3))
    settle(world, "demo")
    assert labels_of(worst)[GROUP_INDEX_LABEL] not in keys_of(world, "demo")
    assert "GroupDeletedFirst" in {event.reason for event in events_of(world, "demo")}
    assert not any(COST in annotations_of(pod) for pod in leaders_of(world, "demo"))


def images_in(world: World) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in leaders_of(world, "demo")]


@pytest.mark.parametrize("propagation", ["Background", "Orphan"])
def test_a_paused_set_whose_deployment_is_deleted_keeps_its_template(groups: World, propagation: str) -> None:
    before, uid = pod_uids(groups, "demo"), groups.uid("Deployment", "demo")
    (image,) = set(images_in(groups))
    paused = {"rolloutStrategy": {"paused": True}}
    groups.patch(SET, "demo", {"spec": {**new_image("server:2")["spec"], **paused}})
    eventually(
        "the Deployment is paused",
        lambda: groups.get("Deployment", "demo")["spec"],
        lambda now: bool(now.get("paused")),
    )
    groups.delete("Deployment", "demo", propagation)
    eventually(
        "a paused Deployment is recreated",
        lambda: groups.find("Deployment", "demo"),
        lambda now: now is not None and now["metadata"]["uid"] != uid and bool(now["spec"].get("paused")),
    )

    def state() -> tuple[int, int, bool]:
        status = groups.get(SET, "demo").get("status") or {}
        is_kept = pod_uids(groups, "demo") == before
        return status.get("readyReplicas", 0), status.get("updatedReplicas", 0), is_kept

    expected = (2, 0, propagation == "Orphan")
    eventually("groups are ready on the former template", state, lambda now: now == expected)
    assert images_in(groups) == [image] * 2
    groups.patch(SET, "demo", {"spec": {"rolloutStrategy": {"paused": None}}})
    settle(groups, "demo")
    assert images_in(groups) == ["server:2"] * 2


def test_a_paused_deployment_is_reported(groups: World) -> None:
    groups.kubectl("rollout", "pause", "deployment", "demo")
    groups.patch(SET, "demo", new_image("server:2"))

    def failure() -> Object:
        return condition(groups.get(SET, "demo"), "ReplicaFailure")

    eventually("the condition is set", failure, lambda now: now.get("reason") == "DeploymentPaused")
    groups.kubectl("rollout", "resume", "deployment", "demo")
    settle(groups, "demo")
    assert images_in(groups) == ["server:2"] * 2 and not failure()


def kept_pods(world: World) -> set[str]:
    """Return the names of pods with our finalizer."""
    pods_metadata = (pod["metadata"] for pod in world.list("Pod"))
    return {
        metadata["name"]
        for metadata in pods_metadata
        if RESTART_BUDGET_FINALIZER in metadata.get("finalizers", ())
    }


def names_of_pods(world: World) -> set[str]:
    return {name_of(pod) for pod in world.list("Pod")}


def waiting_leaders(world: World) -> int:
    gate = {"name": GROUP_REPLACEMENT_GATE}
    return sum(gate in (pod["spec"].get("schedulingGates") or ()) for pod in leaders_of(world, "demo"))


@pytest.mark.parametrize(
    ("resolution", "policy"),
    [
        ("recovery", "Immediate"),
        ("revision", "PostTermination"),
        ("scaling", "PostTermination"),
        ("deletion", "PostTermination"),
        ("deletion unattended", "PostTermination"),
        ("deletion of the namespace", "Immediate"),
        ("deletion of the namespace unattended", "PostTermination"),
    ],
)
def test_a_group_lineage_ends_at_upstreams_restart_limit(
    world: World, pods: Pods, product: Product, resolution: str, policy: str
) -> None:
    limit = {"maxGroupRestarts": 1, "restartBackoff": {"baseSeconds": 1}}
    world.create(a_hash_set("demo", group=limit, groupReplacementPolicy=policy))
    settle(world, "demo")
    first, second = leaders_of(world, "demo")
    key = labels_of(first)[GROUP_INDEX_LABEL]
    pods.restart_container(world.namespace, f"{first['spec']['hostname']}-1", CONTAINER)
    eventually("the group is recreated", lambda: keys_of(world, "demo"), lambda now: key not in now)
    settle(world, "demo")
    last = next(pod for pod in leaders_of(world, "demo") if name_of(pod) != name_of(second))

    def counts() -> Object:
        text = annotations_of(world.get(SET, "demo")).get(GROUP_RESTART_COUNTS_ANNOTATION, "{}")
        result: Object = json.loads(text)
        return result

    assert counts() == {f"{labels_of(last)[REVISION_LABEL]}/{labels_of(last)[GROUP_INDEX_LABEL]}": 1}
    worker = f"{last['spec']['hostname']}-1"
    pods.restart_container(world.namespace, worker, CONTAINER)
    of_group = {name_of(last), worker}
    eventually("the pods of the failed group are kept", lambda: kept_pods(world), lambda now: now == of_group)
    eventually(
        "the set is degraded",
        lambda: condition(world.get(SET, "demo"), "Degraded"),
        lambda now: now.get("status") == "True",
    )
    eventually("the next leader is gated", lambda: waiting_leaders(world), lambda now: now == 1)
    stays(
        "the failed group is kept and the next leader stays gated",
        lambda: (kept_pods(world), waiting_leaders(world)),
        2,
    )
    if resolution.startswith("deletion"):
        if resolution.endswith("unattended"):
            product.kill()
        if "namespace" in resolution:
            world.cluster.kubectl("delete", "namespace", world.namespace, "--wait=false")
        else:
            world.delete(SET, "demo")
        if resolution == "deletion unattended":
            eventually("the set is gone", lambda: world.find(SET, "demo"), lambda lws: lws is None)
        elif resolution.endswith("unattended"):
            # The set is deleted after its pods.
            eventually(
                "only the kept pods are left", lambda: names_of_pods(world), lambda now: now == of_group
            )
        product.ensure_running()
        eventually("no pod is left", lambda: world.list("Pod"), lambda remaining: not remaining)
        if "namespace" in resolution:
            name = ("get", "namespace", world.namespace, "--ignore-not-found", "-o", "name")
            eventually(
                "the namespace is gone", lambda: world.cluster.kubectl(*name), lambda output: not output
            )
        return
    if resolution == "scaling":
        world.patch(SET, "demo", scaled_to(1))
    elif resolution == "recovery":
        world.patch("Pod", name_of(last), {"metadata": {"annotations": {RECOVER_ANNOTATION: "true"}}})
    else:
        world.patch(SET, "demo", new_image("server:2"))
    eventually("the pods of the failed group are released", lambda: kept_pods(world), lambda now: not now)
    settle(world, "demo")
    assert waiting_leaders(world) == 0 and counts() == {}
    assert condition(world.get(SET, "demo"), "Degraded")["status"] == "False"


def test_a_rollout_continues_after_the_manager_is_killed(groups: World, product: Product) -> None:
    before = keys_of(groups, "demo")
    groups.patch(SET, "demo", new_image("server:2"))
    eventually("a group is replaced", lambda: keys_of(groups, "demo"), lambda now: bool(now - before))
    product.kill()
    product.ensure_running()
    settle(groups, "demo")
    assert not keys_of(groups, "demo") & before


def test_a_starting_manager_changes_no_group(groups: World, product: Product) -> None:
    before = pod_uids(groups, "demo")
    product.kill()
    product.ensure_running()
    groups.patch(SET, "demo", scaled_to(3))
    settle(groups, "demo")
    assert before.items() <= pod_uids(groups, "demo").items()
