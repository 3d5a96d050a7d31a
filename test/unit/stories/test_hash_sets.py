"""Stories of sets with groupIdentity Hash: our passes with a model of the Deployment controller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.kube.conditions import Rejection, find, is_true
from lws.kube.metadata import annotations_of, is_terminating, labels_of, owner_reference
from lws.kube.nodes import NodeLossPolicy
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.pod_identity import group_key, hash_host_name
from lws.leaderworkerset.restart_counts import is_kept
from lws.leaderworkerset.rollout.scale_down import DELETION_COST_ANNOTATION, Rank
from lws.policies import Policies
from lws.runtime.actions import Apply, Delete, Merge
from lws_api.leaderworkerset.v1 import (
    GROUP_IDENTITY_ANNOTATION,
    GROUP_INDEX_LABEL,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    RECOVER_ANNOTATION,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
)
from test.unit.builders import make_pod_template, make_set
from test.unit.stories.hash_cluster import HashCluster, is_ready


def make_hash_set(**how: Any) -> dict[str, Any]:
    return make_set(**{"replicas": 2, "size": 3, "groupIdentity": "Hash", **how})


async def settled(**how: Any) -> HashCluster:
    world = HashCluster(make_hash_set(**how))
    await world.settle()
    world.most_groups = 0
    world.events.clear()
    return world


def keys_of(world: HashCluster) -> set[str]:
    return {labels_of(pod)[GROUP_INDEX_LABEL] for pod in world.leaders()}


def revisions_of(world: HashCluster) -> set[str]:
    return {labels_of(pod)[REVISION_LABEL] for pod in world.leaders()}


def new_image(world: HashCluster, image: str = "app:2", **spec: Any) -> None:
    world.edit(leaderWorkerTemplate={"workerTemplate": make_pod_template(image)}, **spec)


async def test_each_group_starts_with_a_key_of_its_own() -> None:
    world = await settled()
    leaders = world.leaders()
    assert len(leaders) == 2 and not world.gated()
    for leader in leaders:
        host = leader["spec"]["hostname"]
        assert host == f"demo-{labels_of(leader)[GROUP_INDEX_LABEL][:8]}"
        workers = [pod for pod in world.pods_of(leader) if pod is not leader]
        assert sorted(pod["metadata"]["name"] for pod in workers) == [f"{host}-1", f"{host}-2"]
        assert {annotations_of(pod)[LEADER_NAME_ANNOTATION] for pod in workers} == {
            leader["metadata"]["name"]
        }
    status = world.lws["status"]
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (2, 2, 2)
    assert is_true(status["conditions"], "Available")
    assert ("StatefulSet", "demo") not in world.objects


@pytest.mark.parametrize(("surge", "unavailable"), [(0, 1), (1, 1), (1, 0), (3, 0), (0, 3), ("50%", "25%")])
async def test_a_rollout_never_has_more_groups_than_replicas_plus_surge(surge: Any, unavailable: Any) -> None:
    world = await settled(replicas=4, max_surge=surge, max_unavailable=unavailable)
    before = keys_of(world)
    new_image(world)
    await world.settle()
    assert not keys_of(world) & before and len(world.leaders(live=True)) == 4 and not world.gated()
    assert len(revisions_of(world)) == 1
    assert world.most_groups <= 4 + (2 if surge == "50%" else surge)
    assert is_true(world.lws["status"]["conditions"], "Available")
    assert world.lws["status"]["currentRevision"] == world.lws["status"]["updateRevision"]


@pytest.mark.parametrize("policy", ["PostTermination", "Immediate"])
async def test_a_group_whose_host_name_is_taken_gets_another_key(policy: str) -> None:
    """A host name contains 8 of the 40 digits of a key."""
    world = HashCluster(make_hash_set(groupReplacementPolicy=policy))
    world.uniques = iter(["same", "same"])
    await world.settle()
    assert len({leader["spec"]["hostname"] for leader in world.leaders()}) == 2
    assert world.lws["status"]["readyReplicas"] == 2 and world.most_groups == 2
    before = keys_of(world)
    world.uniques = iter(["same"])
    world.edit(replicas=3)
    await world.settle()
    assert before < keys_of(world) and world.lws["status"]["readyReplicas"] == 3


async def test_the_host_name_of_a_foreign_statefulset_is_not_used() -> None:
    world = await settled()
    host = hash_host_name("demo", group_key("default", "taken"))
    stranger = world.put({"apiVersion": "v1", "kind": "Other", "metadata": {"name": "other"}})
    owner = owner_reference(stranger)
    metadata = {"name": host, "namespace": "default", "generation": 1, "ownerReferences": [owner]}
    world.put(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": metadata,
            "spec": {"replicas": 0, "template": {}},
        }
    )
    world.uniques = iter(["taken"])
    world.edit(replicas=3)
    await world.settle()
    assert world.lws["status"]["readyReplicas"] == 3
    assert host not in {leader["spec"]["hostname"] for leader in world.leaders()}


async def test_immediate_replacement_waits_for_no_former_group() -> None:
    world = await settled(replicas=4, max_unavailable=4, groupReplacementPolicy="Immediate")
    new_image(world)
    await world.settle()
    assert len(world.leaders(live=True)) == 4 and not world.gated()
    assert world.most_groups > 4
    assert "GroupReplacementDeferred" not in world.events


async def test_a_broken_revision_keeps_ready_groups_and_is_replaced_by_the_next_revision() -> None:
    world = await settled(replicas=4)
    world.failing.add("app:bad")
    new_image(world, "app:bad")
    await world.settle()
    status = world.lws["status"]
    assert status["readyReplicas"] == 3 and not is_true(status["conditions"], "Available")
    assert is_true(status["conditions"], "UpdateInProgress")
    new_image(world, "app:3")
    await world.settle()
    assert len(revisions_of(world)) == 1 and world.lws["status"]["readyReplicas"] == 4
    assert world.most_groups <= 4


async def test_a_rollout_counts_each_group_that_it_recreates_once() -> None:
    world = await settled(replicas=4)
    world.failing.add("app:bad")
    new_image(world, "app:bad")
    await world.settle()
    assert world.tallies == {"Rollout": 4}
    new_image(world, "app:3", replicas=6)
    await world.settle()
    assert world.tallies == {"Rollout": 5}, "three groups of the first revision were still to be recreated"
    new_image(world, "app:4", rolloutStrategy={"paused": True})
    await world.settle()
    world.edit(rolloutStrategy={"paused": False})
    await world.settle()
    assert world.tallies == {"Rollout": 11}
    world.edit(replicas=2)
    await world.settle()
    assert world.tallies == {"Rollout": 11}


async def test_a_failed_worker_recreates_its_group_with_another_key() -> None:
    world = await settled()
    first, second = world.leaders()
    worker = world.objects["Pod", f"{first['spec']['hostname']}-1"]
    world.delete(worker)
    await world.settle()
    assert labels_of(second)[GROUP_INDEX_LABEL] in keys_of(world)
    assert labels_of(first)[GROUP_INDEX_LABEL] not in keys_of(world)
    assert len(world.leaders()) == 2 and world.most_groups == 2
    assert {"RecreateGroup", "GroupReplacementDeferred", "GroupReplacementAdmitted"} <= set(world.events)


@pytest.mark.parametrize(
    "event", ["scale-up", "scale-down", "lost leader", "lost worker", "all leaders lost"]
)
async def test_a_set_is_updating_only_during_a_rollout(event: str) -> None:
    """It is progressing until all groups are ready, which groups without a node never are."""
    world = await settled(replicas=3)
    leader, *_ = leaders = world.leaders()
    world.failing |= {"app:1"} if event in ("scale-up", "lost leader") else set()
    if event.startswith("scale"):
        world.edit(replicas=5 if event == "scale-up" else 1)
    elif event == "lost worker":
        world.delete(world.objects["Pod", f"{leader['spec']['hostname']}-1"])
    else:
        for lost in leaders if event.startswith("all") else (leader,):
            world.drop(lost)
    for _ in range(12):
        leaders = world.leaders(live=True)
        is_whole = len(leaders) == world.lws["spec"]["replicas"] and all(map(is_ready, leaders))
        await world.turn(20.0)
        conditions = world.lws["status"]["conditions"]
        assert not is_true(conditions, "UpdateInProgress")
        assert is_whole or not is_true(conditions, "Available")
    assert is_true(conditions, "Progressing") == bool(world.failing)
    world.failing.clear()
    new_image(world)
    await world.passes()
    assert is_true(world.lws["status"]["conditions"], "UpdateInProgress")
    world.edit(replicas=4)
    for _ in range(60):
        await world.turn(20.0)
        conditions = world.lws["status"]["conditions"]
        assert is_true(conditions, "UpdateInProgress") != is_true(conditions, "Available")
    assert is_true(conditions, "Available") and len(world.leaders()) == 4


async def test_a_rollout_does_not_wait_for_the_end_of_groups_that_have_been_replaced() -> None:
    world = await settled(max_surge=1, max_unavailable=0, groupReplacementPolicy="Immediate")
    for pod in (pod for leader in world.leaders() for pod in world.pods_of(leader)):
        world.stay(pod, 1000)
    new_image(world)
    for _ in range(30):
        await world.turn(20.0)
    assert len(world.leaders()) == 4 and len(world.leaders(live=True)) == 2
    conditions = world.lws["status"]["conditions"]
    assert is_true(conditions, "Available") and not is_true(conditions, "UpdateInProgress")


@pytest.mark.parametrize("policy", ["PostTermination", "Immediate"])
async def test_the_next_group_takes_over_the_restart_count(policy: str) -> None:
    world = await settled(maxGroupRestarts=2, groupReplacementPolicy=policy)
    leader = world.leaders()[0]
    for restarts in (1, 2):
        world.delete(world.objects["Pod", f"{leader['spec']['hostname']}-1"])
        await world.settle()
        ((number, record),) = world.lws["status"]["restarts"].items()
        assert record.startswith(f"{restarts}.")
        leader = next(
            pod for pod in world.leaders() if int(labels_of(pod)[GROUP_INDEX_LABEL][:8], 16) == int(number)
        )
    world.delete(world.objects["Pod", f"{leader['spec']['hostname']}-1"])
    await world.settle()
    assert leader["metadata"]["name"] in {pod["metadata"]["name"] for pod in world.leaders(live=True)}
    failed = find(world.lws["status"]["conditions"], "Failed")
    assert failed is not None and failed["status"] == "True"
    assert failed["message"].startswith(f"Group {labels_of(leader)[GROUP_INDEX_LABEL]} has exceeded")


async def test_the_restart_count_is_kept_while_the_next_group_waits_with_a_surge() -> None:
    world = await settled(maxGroupRestarts=5, max_surge=1, max_unavailable=0)
    world.failing.add("app:bad")
    new_image(world, "app:bad")
    for _ in range(6):
        await world.turn()
    (leader,) = (pod for pod in world.leaders() if pod["spec"]["containers"][0]["image"] == "app:bad")
    host = leader["spec"]["hostname"]
    stuck = world.objects["Pod", f"{host}-2"]
    world.delete(world.objects["Pod", f"{host}-1"])
    await world.turn()
    await world.turn()
    # A user force-deletes the leader: its worker is the last to go.
    world.drop(world.objects["Pod", leader["metadata"]["name"]])
    world.stay(stuck, turns=5)
    await world.turn()
    assert world.gated()
    await world.settle()
    (record,) = world.lws["status"]["restarts"].values()
    assert record.startswith("1.")


async def test_scaling_changes_no_other_group() -> None:
    world = await settled(replicas=3)
    before = keys_of(world)
    world.edit(replicas=5)
    await world.settle()
    assert before < keys_of(world) and len(keys_of(world)) == 5
    world.edit(replicas=1)
    await world.settle()
    assert len(keys_of(world)) == 1 and world.lws["status"]["replicas"] == 1
    assert is_true(world.lws["status"]["conditions"], "Available")


async def scaling_with_a_kept_group() -> tuple[HashCluster, dict[str, Any]]:
    """Return a set whose oldest group of three has used up its restarts and has ready pods again.

    The set is being scaled down to two groups. The second value is the leader of the oldest group.
    """
    world = await settled(replicas=3, maxGroupRestarts=0)
    leader = world.leaders()[0]
    world.delete(world.objects["Pod", f"{leader['spec']['hostname']}-1"])
    await world.settle()
    assert is_true(world.lws["status"]["conditions"], "Failed") and world.lws["status"]["readyReplicas"] == 3
    assert DELETION_COST_ANNOTATION not in annotations_of(leader)
    world.edit(replicas=2)
    return world, leader


def cost_of(world: HashCluster, leader: dict[str, Any]) -> str | None:
    stored = world.objects["Pod", leader["metadata"]["name"]]
    return annotations_of(stored).get(DELETION_COST_ANNOTATION)


async def test_a_scale_down_deletes_the_worst_group_as_a_whole() -> None:
    world, leader = await scaling_with_a_kept_group()
    await world.settle()
    assert labels_of(leader)[GROUP_INDEX_LABEL] not in keys_of(world) and len(world.leaders()) == 2
    assert not any(DELETION_COST_ANNOTATION in annotations_of(pod) for pod in world.leaders())
    assert world.events.count("GroupDeletedFirst") == 1


async def test_a_deletion_cost_is_removed_when_its_scale_down_is_reverted() -> None:
    world, leader = await scaling_with_a_kept_group()
    await world.passes()
    assert cost_of(world, leader) == Rank.EXHAUSTED.cost
    world.edit(replicas=3)
    await world.settle()
    assert cost_of(world, leader) is None and len(keys_of(world)) == 3


async def test_a_deletion_cost_of_a_user_is_kept() -> None:
    world, leader = await scaling_with_a_kept_group()
    world.change(
        "Pod", leader["metadata"]["name"], {"metadata": {"annotations": {DELETION_COST_ANNOTATION: "9"}}}
    )
    await world.settle()
    assert cost_of(world, leader) == "9" and len(world.leaders()) == 2


async def test_deletion_costs_are_written_before_a_scale_down_unless_they_are_rejected() -> None:
    world, _ = await scaling_with_a_kept_group()
    snapshot = await world.observed()
    writes = [
        [type(action) for action in sequence]
        for sequence in plan(snapshot).sequences
        if any(isinstance(action, Apply) for action in sequence)
    ]
    assert writes == [[Merge, Apply]]
    refused = replace(snapshot, rejections=(Rejection("patch Pod demo-1", "denied by policy"),))
    alone, cost = (sequence for sequence in plan(refused).sequences if sequence)
    assert [type(action) for action in (*alone, *cost)] == [Apply, Merge]


async def test_a_paused_set_starts_no_rollout_but_scales() -> None:
    world = await settled(replicas=2)
    before = keys_of(world)
    new_image(world, rolloutStrategy={"paused": True}, replicas=3)
    await world.settle()
    assert before < keys_of(world) and len(revisions_of(world)) == 1
    world.edit(rolloutStrategy={"paused": False})
    await world.settle()
    assert not before & keys_of(world) and len(revisions_of(world)) == 1


def started_in(world: HashCluster) -> int:
    return len(world.leaders(live=True)) - len([pod for pod in world.gated() if not is_terminating(pod)])


def leaders_with(world: HashCluster, image: str) -> list[dict[str, Any]]:
    leaders = world.leaders(live=True)
    return [pod for pod in leaders if pod["spec"]["containers"][0]["image"] == image]


@pytest.mark.parametrize("policy", ["PostTermination", "Immediate"])
@pytest.mark.parametrize(("surge", "ready"), [(0, 3), (1, 4)])
async def test_lost_groups_of_the_former_revision_are_recreated_while_the_first_wave_is_broken(
    surge: int, ready: int, policy: str
) -> None:
    world = await settled(
        replicas=4,
        max_surge=surge,
        max_unavailable=1 - surge,
        startStrategy={"seedGroups": 1},
        groupReplacementPolicy=policy,
    )
    world.failing.add("app:bad")
    new_image(world, "app:bad")
    await world.settle()
    for _ in range(4):
        assert world.lws["status"]["readyReplicas"] == ready
        assert len(leaders_with(world, "app:1")) == ready and started_in(world) == ready + 1
        world.delete(leaders_with(world, "app:1")[0])
        await world.settle()
    new_image(world, "app:3")
    await world.settle()
    assert len(revisions_of(world)) == 1 and world.lws["status"]["readyReplicas"] == 4


@pytest.mark.parametrize("lost", [1, 3, 4])
async def test_lost_groups_are_recreated_while_no_other_group_is_ready(lost: int) -> None:
    """All of them have started before, so their replacements are no wave."""
    world = await settled(replicas=4, startStrategy={"seedGroups": 1})
    world.failing.add("app:1")
    await world.settle()
    assert world.lws["status"].get("readyReplicas", 0) == 0
    for leader in world.leaders()[:lost]:
        world.delete(leader)
    await world.settle()
    assert not world.gated() and len(world.leaders()) == 4


async def test_leaders_that_wait_for_their_wave_are_not_said_to_wait_for_former_groups() -> None:
    world = await settled(replicas=6, startStrategy={"seedGroups": 1})
    world.failing.add("app:1")
    world.edit(replicas=12)
    leader = world.leaders()[0]
    for pod in world.pods_of(leader):
        world.stay(pod, 1000)
    world.delete(leader)
    for _ in range(9):
        await world.turn()
    assert started_in(world) == 6 and len(world.gated()) == 6
    planned = plan(await world.observed())
    # Of 12 places, the terminating group still takes one.
    assert [event.reason for event in planned.announce].count("GroupReplacementDeferred") == 1
    assert planned.waiting_for == "groups that have started to be ready, before 5 more start"
    group = await world.observed_group(world.gated()[0])
    assert plan_group(group).waiting_for == "the scheduling gate of the leader to be removed"


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_scale_up_starts_in_waves(is_paused: bool) -> None:
    world = await settled(startStrategy={"seedGroups": 1})
    if is_paused:
        new_image(world, rolloutStrategy={"paused": True})
        await world.settle()
    world.edit(replicas=12)
    waves = [started_in(world)]
    for _ in range(60):
        ready = sum(is_ready(leader) for leader in world.leaders())
        await world.turn(20.0)
        assert started_in(world) <= max(2 * ready, waves[-1])
        waves += [started_in(world)] * (started_in(world) != waves[-1])
    assert waves == [2, 4, 8, 12] and len(revisions_of(world)) == 1
    world.edit(replicas=2)
    await world.settle()
    world.failing.add("app:1")
    world.edit(replicas=12)
    await world.settle()
    assert started_in(world) == 2, "groups that a scale-down has removed start in waves, too"


async def test_a_return_to_the_former_revision_starts_in_waves() -> None:
    world = await settled(replicas=6, max_unavailable=3, startStrategy={"seedGroups": 2})
    world.failing.add("app:bad")
    new_image(world, "app:bad")
    await world.settle()
    assert len(leaders_with(world, "app:1")) == 3 and started_in(world) == 5
    world.failing.add("app:1")
    new_image(world, "app:1")
    await world.settle()
    assert len(leaders_with(world, "app:1")) == 6 and started_in(world) == 3


@pytest.mark.parametrize("stored", [None, 7, {"x": 1}])
async def test_an_unreadable_record_of_started_groups_is_replaced(stored: Any) -> None:
    world = await settled(startStrategy={"seedGroups": 1})
    started = world.lws["status"]["started"]
    assert [*started.values()] == [2]
    status = {name: value for name, value in world.lws["status"].items() if name != "started"}
    world.put({**world.lws, "status": {**status, **({"started": stored} if stored is not None else {})}})
    await world.settle()
    assert world.lws["status"]["started"] == started


async def test_a_paused_set_recreates_groups_with_their_template_when_its_deployment_is_deleted() -> None:
    world = await settled()
    before = revisions_of(world)
    new_image(world, rolloutStrategy={"paused": True})
    await world.settle()
    world.delete(world.objects["Deployment", "demo"])
    await world.settle()
    assert revisions_of(world) == before and len(world.leaders()) == 2
    assert world.objects["Deployment", "demo"]["spec"]["paused"]
    world.edit(rolloutStrategy={"paused": False})
    await world.settle()
    assert not revisions_of(world) & before


async def test_a_paused_set_keeps_the_orphaned_groups_of_its_deleted_deployment() -> None:
    """The Deployment is deleted with `kubectl delete --cascade=orphan`."""
    world = await settled()
    new_image(world, rolloutStrategy={"paused": True})
    await world.settle()
    before = keys_of(world)
    world.orphan(world.objects["Deployment", "demo"])
    await world.settle()
    assert keys_of(world) == before
    assert world.objects["Deployment", "demo"]["spec"]["paused"]


async def test_a_manually_paused_deployment_is_reported_once_groups_wait_for_it() -> None:
    """The Deployment is paused with `kubectl rollout pause deployment`."""
    world = await settled()
    world.change("Deployment", "demo", {"spec": {"paused": True}})
    await world.settle()
    assert find(world.lws["status"]["conditions"], "ReplicaFailure") is None
    new_image(world)
    await world.settle()
    failure = find(world.lws["status"]["conditions"], "ReplicaFailure")
    assert failure is not None and failure["reason"] == "DeploymentPaused"
    assert "kubectl rollout resume deployment demo" in failure["message"]
    world.change("Deployment", "demo", {"spec": {"paused": None}})
    await world.settle()
    assert find(world.lws["status"]["conditions"], "ReplicaFailure") is None
    assert world.lws["status"]["updatedReplicas"] == 2


async def test_groups_of_a_deleted_deployment_delay_those_of_the_next_deployment() -> None:
    """The garbage collector takes a while to reach the leaders."""
    world = await settled()
    before = keys_of(world)
    world.delete(world.objects["Deployment", "demo"])
    await world.settle()
    assert not keys_of(world) & before and len(world.leaders()) == 2
    assert world.most_groups == 2


async def test_groups_of_one_pod_have_no_readiness_gate() -> None:
    world = await settled(size=1)
    assert all("readinessGates" not in pod["spec"] for pod in world.leaders())
    new_image(world)
    await world.settle()
    assert len(revisions_of(world)) == 1 and world.lws["status"]["readyReplicas"] == 2


@pytest.mark.parametrize(
    "how", [{"startupPolicy": "LeaderReady"}, {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}]
)
async def test_groups_start_under_every_policy(how: dict[str, Any]) -> None:
    world = await settled(**how)
    assert world.lws["status"]["readyReplicas"] == 2
    if "networkConfig" in how:
        for leader in world.leaders():
            assert ("Service", leader["spec"]["hostname"]) in world.objects
            assert leader["spec"]["subdomain"] == leader["spec"]["hostname"]


async def test_nothing_is_written_at_rest() -> None:
    world = await settled()
    world.writes = 0
    await world.turn(60.0)
    assert world.writes == 0


async def test_edited_labels_of_a_leader_are_repaired() -> None:
    world = await settled()
    leader = world.leaders()[0]
    before = labels_of(leader)[GROUP_INDEX_LABEL]
    world.change(
        "Pod",
        leader["metadata"]["name"],
        {"metadata": {"labels": {GROUP_INDEX_LABEL: "7", REVISION_LABEL: "x"}}},
    )
    await world.settle()
    assert before in keys_of(world) and len(revisions_of(world)) == 1


@pytest.mark.parametrize("value", ["Ordinal", None])
async def test_an_edited_group_identity_is_repaired(value: str | None) -> None:
    """The annotation routes a worker to the pass that lifts the gate of the next leader."""
    world = await settled()
    pods = world.pods_of(world.leaders()[0])
    for pod in pods:
        edited = {"annotations": {GROUP_IDENTITY_ANNOTATION: value}}
        world.change("Pod", pod["metadata"]["name"], {"metadata": edited})
    await world.settle()
    for pod in pods:
        stored = world.objects["Pod", pod["metadata"]["name"]]
        assert annotations_of(stored)[GROUP_IDENTITY_ANNOTATION] == "Hash"
    assert len(world.leaders()) == 2


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_a_leader_that_has_ended_is_deleted_under_every_policy(phase: str) -> None:
    """The leader's ReplicaSet replaces it and leaves it in place. The successor waits for the group."""
    world = await settled(template={"restartPolicy": "None"})
    leader = world.leaders()[0]
    world.end(leader, phase)
    await world.settle()
    assert labels_of(leader)[GROUP_INDEX_LABEL] not in keys_of(world)
    assert len(world.leaders()) == 2 and not world.gated() and world.most_groups == 2


async def test_a_leader_that_ends_before_its_group_has_started_is_deleted() -> None:
    """The leader's ReplicaSet has replaced it already, and without workers the group never starts."""
    world = HashCluster(
        make_hash_set(template={"restartPolicy": "RecreateGroupAfterStart"}, startupPolicy="LeaderReady")
    )
    world.failing.add("app:1")
    for _ in range(3):
        await world.turn()
    leader = world.leaders()[0]
    assert not world.gated() and not world.pods_of(leader)[1:]
    world.failing.clear()
    world.end(leader, "Failed")
    await world.settle()
    assert labels_of(leader)[GROUP_INDEX_LABEL] not in keys_of(world)
    assert len(world.leaders()) == 2 and not world.gated()


@pytest.mark.parametrize("restarts", [0, 1])
async def test_immediate_replacement_waits_until_the_former_group_is_to_be_replaced(
    restarts: int,
) -> None:
    world = await settled(maxGroupRestarts=restarts, groupReplacementPolicy="Immediate")
    leader = world.leaders()[0]
    world.end(leader, "Failed")
    await world.settle()
    assert (labels_of(leader)[GROUP_INDEX_LABEL] in keys_of(world)) == (restarts == 0)
    assert len(world.gated()) == (restarts == 0)
    assert len(world.lws["status"]["restarts"]) == 1


def stall_of(world: HashCluster) -> tuple[str, str] | None:
    """Return status and reason of the condition Stalled."""
    condition = find(world.lws["status"]["conditions"], "Stalled")
    return (condition["status"], condition["reason"]) if condition is not None else None


@pytest.mark.parametrize("surge", [0, 1])
@pytest.mark.parametrize("policy", ["PostTermination", "Immediate"])
async def test_a_set_is_stalled_while_only_kept_groups_are_unready(policy: str, surge: int) -> None:
    """The successor of the kept group stays gated, even if the set has a surge for its rollouts."""
    world = await settled(maxGroupRestarts=0, max_surge=surge, groupReplacementPolicy=policy)
    leader = world.leaders()[0]
    world.end(leader, "Failed")
    await world.settle()
    assert labels_of(leader)[GROUP_INDEX_LABEL] in keys_of(world) and len(world.gated()) == 1
    assert stall_of(world) == ("True", "GroupRestartsExhausted")
    world.edit(replicas=3)
    await world.turn()
    await world.turn()
    assert not stall_of(world), "another group starts"
    await world.settle()
    assert stall_of(world) == ("True", "GroupRestartsExhausted")


async def test_a_successor_that_starts_is_not_stuck() -> None:
    """Another controller may have admitted it."""
    world = await settled(maxGroupRestarts=0)
    world.end(world.leaders()[0], "Failed")
    await world.settle()
    (successor,) = world.gated()
    world.change("Pod", successor["metadata"]["name"], {"spec": {"schedulingGates": None}})
    await world.passes()
    assert not stall_of(world)


async def test_the_progress_deadline_counts_while_a_leader_waits_for_a_former_group() -> None:
    world = await settled(progressDeadlineSeconds=600)
    leader, *_ = world.leaders()
    for pod in world.pods_of(leader):
        world.stay(pod, 1000)
    world.delete(leader)
    for _ in range(5):
        await world.turn(100.0)
    assert len(world.gated()) == 1 and not stall_of(world)
    for _ in range(3):
        await world.turn(100.0)
    assert len(world.gated()) == 1 and stall_of(world) == ("True", "ProgressDeadlineExceeded")


async def test_a_new_template_replaces_a_kept_leader_that_has_ended() -> None:
    world = await settled(maxGroupRestarts=0)
    leader = world.leaders()[0]
    world.end(leader, "Failed")
    await world.settle()
    assert is_true(world.lws["status"]["conditions"], "Failed")
    assert labels_of(leader)[GROUP_INDEX_LABEL] in keys_of(world)
    new_image(world)
    await world.settle()
    assert len(world.leaders()) == 2 and len(revisions_of(world)) == 1 and not world.gated()
    assert is_true(world.lws["status"]["conditions"], "Available")
    assert not is_true(world.lws["status"]["conditions"], "Failed")


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_scale_down_removes_a_kept_leader_that_has_ended(replicas: int) -> None:
    world = await settled(maxGroupRestarts=0)
    leader = world.leaders()[0]
    world.end(leader, "Failed")
    await world.settle()
    world.edit(replicas=replicas)
    await world.settle()
    assert labels_of(leader)[GROUP_INDEX_LABEL] not in keys_of(world)
    assert len(world.leaders()) == replicas and not world.gated()


async def ended_by_upstream(groups: int, **how: Any) -> HashCluster:
    """Return a set of which this many groups of three have used up their restarts under upstream's
    controller. Upstream has kept the pods of these groups.
    """
    world = await settled(replicas=3, template={"maxGroupRestarts": 0}, **how)
    for leader in world.leaders()[:groups]:
        for pod in world.pods_of(leader):
            world.change(
                "Pod", pod["metadata"]["name"], {"metadata": {"finalizers": [RESTART_BUDGET_FINALIZER]}}
            )
        name, marked = leader["metadata"]["name"], {RESTART_BUDGET_EXHAUSTED_ANNOTATION: "true"}
        world.change("Pod", name, {"metadata": {"annotations": marked}})
        world.delete(world.objects["Pod", name], is_foreground=True)
    await world.settle()
    return world


def kept_in(world: HashCluster) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in world.leaders()
        if RESTART_BUDGET_EXHAUSTED_ANNOTATION in annotations_of(pod)
    ]


@pytest.mark.parametrize("policy", ["PostTermination", "Immediate"])
async def test_a_group_ended_by_upstream_delays_the_next_group_while_it_is_desired(
    policy: str,
) -> None:
    world = await ended_by_upstream(2, groupReplacementPolicy=policy)
    first = kept_in(world)[0]
    assert len(world.gated()) == 2 and is_true(world.lws["status"]["conditions"], "Degraded")
    world.edit(replicas=2)
    await world.settle()
    assert kept_in(world) == [first] and len(world.gated()) == 1
    world.edit(replicas=1)
    await world.settle()
    assert not kept_in(world) and not world.gated() and len(world.leaders()) == 1
    assert not is_true(world.lws["status"]["conditions"], "Degraded")


@pytest.mark.parametrize("policy", ["PostTermination", "Immediate"])
async def test_a_set_is_stopped_while_only_groups_ended_by_upstream_are_unready(policy: str) -> None:
    world = await ended_by_upstream(1, groupReplacementPolicy=policy)
    assert len(world.gated()) == 1
    exceeded = [
        (condition["type"], condition["status"])
        for condition in world.lws["status"]["conditions"]
        if condition["reason"] == "ReplicaRestartBudgetExceeded"
    ]
    false = [(type_, "False") for type_ in ("Available", "Progressing", "UpdateInProgress")]
    assert sorted(exceeded) == sorted([*false, ("Degraded", "True")])
    assert stall_of(world) == ("True", "GroupRestartsExhausted")
    world.edit(replicas=4)
    await world.turn()
    await world.turn()
    assert is_true(world.lws["status"]["conditions"], "Progressing") and not stall_of(world)
    assert "AllGroupsReady" not in {condition["reason"] for condition in world.lws["status"]["conditions"]}
    await world.settle()
    assert stall_of(world) == ("True", "GroupRestartsExhausted")
    (name,) = kept_in(world)
    world.change("Pod", name, {"metadata": {"annotations": {RECOVER_ANNOTATION: "true"}}})
    await world.settle()
    assert is_true(world.lws["status"]["conditions"], "Available") and not stall_of(world)


async def test_a_group_ended_by_upstream_is_recreated_on_request() -> None:
    world = await ended_by_upstream(1)
    (name,) = kept_in(world)
    world.change("Pod", name, {"metadata": {"annotations": {RECOVER_ANNOTATION: "true"}}})
    await world.settle()
    assert not kept_in(world) and not world.gated() and len(world.leaders()) == 3


@pytest.mark.parametrize("lost", ["Pod", "Deployment"])
async def test_pods_kept_by_upstream_are_released_when_their_leader_or_deployment_is_lost(lost: str) -> None:
    world = await ended_by_upstream(1)
    (name,) = kept_in(world)
    world.drop(world.objects[lost, name if lost == "Pod" else "demo"])
    await world.settle()
    assert not kept_in(world) and not world.gated() and len(world.leaders()) == 3
    assert not any(is_kept(pod) for kind, pod in world.objects.items() if kind[0] == "Pod")


async def test_a_new_template_replaces_a_group_ended_by_upstream() -> None:
    world = await ended_by_upstream(1)
    new_image(world)
    await world.settle()
    assert not kept_in(world) and not world.gated() and len(revisions_of(world)) == 1


async def test_workers_on_a_lost_node_are_force_deleted_if_their_leader_is_gone() -> None:
    """The leader of the next group has another name, and would wait for these workers."""
    world = await settled()
    leader = world.leaders()[0]
    worker = f"{leader['spec']['hostname']}-1"
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    node = {"name": "node", "creationTimestamp": "2026-01-01T00:00:00Z"}
    world.put({"kind": "Node", "metadata": node, "status": {"conditions": [unready]}})
    deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    world.change("Pod", worker, {"metadata": deletion})

    async def forced(is_asked_for: bool = True) -> list[str]:
        policy = NodeLossPolicy(force_delete=is_asked_for)
        planned = plan(replace(await world.observed(), policies=Policies(policy)))
        deletes = [
            action for sequence in planned.sequences for action in sequence if isinstance(action, Delete)
        ]
        assert all(
            delete.grace_seconds == 0 and delete.announce[0].reason == "NodeLost" for delete in deletes
        )
        return [delete.target.name for delete in deletes]

    assert await forced() == []
    world.drop(leader)
    assert await forced() == [worker]
    assert await forced(is_asked_for=False) == []


async def test_no_group_waits_for_a_pod_without_a_controller() -> None:
    """Such a pod was kept for diagnosis, or has copied labels, and may never be deleted."""
    world = await settled()
    labels = {NAME_LABEL: "demo", GROUP_INDEX_LABEL: "abc"}
    stray = {"name": "stray", "namespace": "default", "labels": labels}
    world.put({"apiVersion": "v1", "kind": "Pod", "metadata": stray, "spec": {"containers": []}})
    new_image(world)
    await world.settle()
    assert len(world.leaders()) == 2 and len(revisions_of(world)) == 1 and not world.gated()


async def test_groups_that_waited_for_a_stuck_rollout_are_replaced_one_at_a_time() -> None:
    world = await settled(replicas=4)
    world.failing.add("app:bad")
    new_image(world, "app:bad")
    await world.settle()
    first, second, _ = (pod for pod in world.leaders() if pod["spec"]["containers"][0]["image"] == "app:1")
    restarted = {"name": "main", "restartCount": 1, "state": {"running": {}}}
    for leader in (first, second):
        worker = f"{leader['spec']['hostname']}-1"
        world.change("Pod", worker, {"status": {"containerStatuses": [restarted]}})
    numbers = {labels_of(leader)[GROUP_INDEX_LABEL] for leader in (first, second)}
    for _ in range(25):
        await world.turn(40.0)
    assert len(numbers & keys_of(world)) == 1
    for _ in range(25):
        await world.turn(40.0)
    assert not numbers & keys_of(world)


async def test_restart_policy_none_recreates_only_the_worker() -> None:
    world = await settled(template={"restartPolicy": "None"})
    before = keys_of(world)
    world.delete(world.objects["Pod", f"{world.leaders()[0]['spec']['hostname']}-1"])
    await world.settle()
    assert keys_of(world) == before and world.lws["status"]["readyReplicas"] == 2
