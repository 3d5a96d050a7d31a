"""Tests that a set with Hash groups settles again after users change it or its objects at bad moments."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.kube.metadata import name_of
from lws_api.leaderworkerset.v1 import GROUP_RESTART_COUNTS_ANNOTATION
from test.unit.stories.hash_cluster import HashCluster
from test.unit.stories.test_hash_sets import keys_of, new_image, revisions_of, settled

Object = dict[str, Any]


def template_of(world: HashCluster) -> Object:
    """Return a copy of the pod template of the Deployment."""
    return copy.deepcopy(world.objects["Deployment", "demo"]["spec"]["template"])


def images_of(world: HashCluster) -> set[str]:
    return {leader["spec"]["containers"][0]["image"] for leader in world.leaders()}


def assert_rests(world: HashCluster, replicas: int, image: str = "app:1", size: int = 3) -> None:
    leaders = world.leaders()
    assert len(leaders) == replicas and not world.gated()
    assert images_of(world) == {image}
    assert [len(world.pods_of(leader)) for leader in leaders] == [size] * replicas
    assert world.lws["status"].get("readyReplicas") == replicas


async def test_a_manually_scaled_deployment_is_restored() -> None:
    world = await settled()
    world.change("Deployment", "demo", {"spec": {"replicas": 5}})
    await world.settle()
    assert world.objects["Deployment", "demo"]["spec"]["replicas"] == 2
    assert_rests(world, 2)


async def test_a_manually_rolled_back_deployment_is_restored() -> None:
    """The ReplicaSet of the former template still exists."""
    world = await settled()
    former = template_of(world)
    new_image(world)
    await world.settle()
    world.change("Deployment", "demo", {"spec": {"template": former}})
    await world.settle()
    assert_rests(world, 2, "app:2")


async def test_a_group_starts_when_its_gate_is_manually_removed() -> None:
    world = await settled(replicas=3)
    leader = world.leaders()[0]
    world.stay(leader, turns=20)
    world.delete(leader)
    await world.turn()
    await world.turn()
    (gated,) = world.gated()
    world.change("Pod", name_of(gated), {"spec": {"schedulingGates": []}})
    await world.settle()
    assert_rests(world, 3)


@pytest.mark.parametrize("policy", ["Immediate", "PostTermination"])
async def test_a_set_recovers_when_all_leaders_are_deleted_at_once(policy: str) -> None:
    world = await settled(replicas=3, groupReplacementPolicy=policy)
    before = keys_of(world)
    for leader in world.leaders():
        world.stay(leader, turns=3)
        world.delete(leader)
    await world.settle()
    assert_rests(world, 3)
    assert not keys_of(world) & before


async def test_a_set_settles_after_rapid_template_changes() -> None:
    world = await settled(replicas=3, max_surge=1)
    first = revisions_of(world)
    for image in ("app:2", "app:1", "app:3", "app:2", "app:1"):
        new_image(world, image)
        for _ in range(3):
            await world.turn()
    await world.settle()
    assert_rests(world, 3)
    assert revisions_of(world) == first


async def test_a_rollout_completes_after_scaling_to_zero_and_up() -> None:
    world = await settled(replicas=3, max_surge=1)
    new_image(world)
    for replicas in (3, 0, 4):
        world.edit(replicas=replicas)
        await world.turn()
        await world.turn()
    await world.settle()
    assert_rests(world, 4, "app:2")


async def test_a_rollout_completes_while_the_replacement_policy_keeps_changing() -> None:
    world = await settled(replicas=3)
    new_image(world)
    for turn in range(10):
        world.edit(groupReplacementPolicy=("Immediate", "PostTermination")[turn % 2])
        await world.turn()
    await world.settle()
    assert_rests(world, 3, "app:2")


@pytest.mark.parametrize("is_rolling", [False, True], ids=["at rest", "in a rollout"])
async def test_a_recreated_set_adopts_its_orphaned_groups(is_rolling: bool) -> None:
    """`kubectl delete --cascade=orphan`."""
    world = await settled(replicas=3)
    if is_rolling:
        new_image(world)
        await world.turn()
        await world.turn()
    before, lws = keys_of(world), copy.deepcopy(world.lws)
    world.orphan(world.lws)
    again = {"name": "demo", "namespace": "default", "uid": "another", "generation": 1}
    world.put({**lws, "metadata": again, "status": {}})
    await world.passes()
    assert keys_of(world) == before
    await world.settle()
    assert_rests(world, 3, "app:2" if is_rolling else "app:1")
    assert is_rolling or keys_of(world) == before


async def test_workers_left_by_a_deleted_leader_give_their_place_to_the_next_group() -> None:
    """`kubectl delete pod --cascade=orphan`. As a terminating group, they would hold up the next one."""
    world = await settled()
    leader = world.leaders()[0]
    left = {name_of(pod) for pod in world.pods_of(leader)}
    world.orphan(leader)
    await world.settle()
    assert_rests(world, 2)
    assert not left & {name for kind, name in world.objects if kind == "Pod"}


async def test_a_gated_leader_is_admitted_after_its_set_was_deleted_without_it() -> None:
    world = await settled()
    world.delete(world.leaders()[0], is_foreground=True)
    for _ in range(3):
        await world.turn()
        if world.gated():
            break
    assert world.gated()
    world.orphan(world.lws)
    await world.settle()
    assert not world.gated()


async def test_lost_workers_are_recreated() -> None:
    world = await settled()
    for size in (1, 3):
        world.edit(leaderWorkerTemplate={"size": size})
        await world.settle()
        assert_rests(world, 2, size=size)
        assert len([kind for kind, _ in world.objects if kind == "StatefulSet"]) == (2 if size > 1 else 0)


async def test_the_subdomain_policy_can_be_changed_both_ways() -> None:
    world = await settled()
    world.edit(networkConfig={"subdomainPolicy": "UniquePerReplica"})
    await world.settle()
    assert_rests(world, 2)
    for leader in world.leaders():
        assert leader["spec"]["subdomain"] == leader["spec"]["hostname"]
        assert ("Service", leader["spec"]["hostname"]) in world.objects
    world.edit(networkConfig={"subdomainPolicy": "Shared"})
    await world.settle()
    assert_rests(world, 2)
    assert {leader["spec"]["subdomain"] for leader in world.leaders()} == {"demo"}


async def test_a_failed_group_waits_until_unreadable_restart_counts_are_removed() -> None:
    """Until then the failed group is left alone."""
    world = await settled(template={"maxGroupRestarts": 1})

    def note(text: str | None) -> None:
        world.change(
            "LeaderWorkerSet", "demo", {"metadata": {"annotations": {GROUP_RESTART_COUNTS_ANNOTATION: text}}}
        )

    note('{"a":')
    before, leader = keys_of(world), world.leaders()[0]
    world.delete(world.objects["Pod", f"{leader['spec']['hostname']}-1"])
    for _ in range(5):
        await world.turn()
    assert keys_of(world) == before
    note(None)
    await world.settle()
    assert_rests(world, 2)
