"""Tests of a group lost at any moment of a rollout: started steps continue, and no others begin."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from lws.kube.metadata import is_terminating
from test.unit.stories.fake_cluster import NAME
from test.unit.stories.world import World

GROUPS, MOMENTS = 4, range(1, 5)


def strike(world: World, fault: str, index: int) -> None:
    """Strike this leader, unless it is terminating."""
    pods = [pod["metadata"]["name"] for pod in world.cluster.of_kind("Pod") if not is_terminating(pod)]
    if f"{NAME}-{index}" in pods:
        world.strike(fault, pods.index(f"{NAME}-{index}"))


def images(world: World) -> list[str]:
    """The revisions of the leaders, by index."""
    leaders = (
        world.cluster.objects["Pod", f"{NAME}-{index}"] for index in range(world.lws["spec"]["replicas"])
    )
    return [world.cluster.images[leader["metadata"]["uid"]] for leader in leaders]


@pytest.mark.parametrize("fault", ["deleted", "stuck"])
def test_a_group_lost_in_the_middle_of_a_rollout_uses_the_budget(fault: str) -> None:
    """Every pass is checked against what the manager could see (promises.py), and the rollout ends."""
    with asyncio.Runner() as runner:
        for moment, index in product(MOMENTS, range(GROUPS)):
            world = World.settled(runner.get_loop(), False, "A", GROUPS)
            world.configure(maxUnavailable=2)
            world.change("B")
            try:
                world.go_on_fairly(moment)
                strike(world, fault, index)
                world.settle()
            except AssertionError as error:
                error.add_note(f"group {index} at moment {moment}")
                raise


@pytest.mark.parametrize(
    ("before", "during"), [((), (0,)), ((0, 1), ())], ids=["in the rollout", "before it"]
)
def test_a_group_that_lost_its_node_keeps_its_revision_until_the_updated_group_is_ready(
    before: tuple[int, ...], during: tuple[int, ...]
) -> None:
    """maxUnavailable is 1: the new revision may be what is broken, the former one works on another node."""
    with asyncio.Runner() as runner:
        world = World.settled(runner.get_loop(), False, "E", 2)
        world.nodes.hopeless = frozenset("AE")
        world.change("A")
        for lost in (before, during):
            for index in lost:
                strike(world, "node gone", index)
            world.go_on_fairly(8)
            world.nodes.held.clear()
            world.go_on_fairly(8)
        while world.manager.ring():
            world.go_on_fairly(2)
        assert images(world) == ["E", "A"]
        world.nodes.hopeless = frozenset()
        world.settle()
        assert images(world) == ["A", "A"]
