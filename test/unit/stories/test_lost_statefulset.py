"""The leader StatefulSet is lost, and the user goes on changing the set before it has been seen again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lws_api.leaderworkerset.v1 import KIND
from test.unit.stories.fake_cluster import NAME
from test.unit.stories.truth import ready_groups
from test.unit.stories.world import World


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner() as runner:
        yield runner.get_loop()


@pytest.mark.parametrize("unavailable", [0, "25%"])
@pytest.mark.parametrize("times", [1, 2], ids=["lost once", "lost twice"])
def test_a_change_before_the_first_report_moves_nothing(
    loop: asyncio.AbstractEventLoop, times: int, unavailable: int | str
) -> None:
    """It is told no other template before it knows the one that its groups run: until then it takes none of
    them, although its partition is 0 and all of them are outdated. (In the world of stories each pass is
    held against the floor.)
    """
    world = World.settled(loop, False, "A", 1)
    world.configure(maxUnavailable=unavailable, maxSurge=1)
    world.change("B")
    world.settle()
    for _ in range(times):
        world.lose_statefulset(leaves_pods=True)
        while world.manager.late or world.manager.queue.keys:
            for kind in world.manager.late:
                world.manager.read(kind)
            world.manager.run_pass()
        world.nodes.sync_all()
    made = world.cluster.find("StatefulSet", NAME)
    world.change("C")
    world.manager.read(KIND)
    world.manager.read("Pod")
    assert world.manager.late == ["StatefulSet", "ControllerRevision"], "its report has not been read"
    while world.manager.run_pass():
        pass
    assert world.cluster.find("StatefulSet", NAME) == made, "it is told nothing"
    fewest = 1
    while world.go_on_fairly(1):
        fewest = min(fewest, len(ready_groups(world.cluster)))
    assert fewest == 1
    world.settle()
