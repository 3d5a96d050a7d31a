"""A group is lost at each moment of a rollout: what is on its way already goes on, and nothing beyond it."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from lws.kube.metadata import is_terminating
from test.unit.stories.fake_cluster import NAME
from test.unit.stories.world import World

GROUPS, MOMENTS = 4, range(1, 5)


def strike(world: World, fault: str, index: int) -> None:
    """Hit this leader, unless it is on its way out."""
    pods = [pod["metadata"]["name"] for pod in world.cluster.of_kind("Pod") if not is_terminating(pod)]
    if f"{NAME}-{index}" in pods:
        world.strike(fault, pods.index(f"{NAME}-{index}"))


@pytest.mark.parametrize("fault", ["deleted", "stuck"])
def test_a_group_lost_in_the_middle_of_a_rollout_uses_the_budget(fault: str) -> None:
    """Every pass is held against what the manager could see, see promises.py; and the rollout ends."""
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
