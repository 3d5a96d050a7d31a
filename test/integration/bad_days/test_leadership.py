"""Does exactly one manager act, whatever becomes of the other?"""

from __future__ import annotations

import time

import pytest

from test.integration.controllers.harness.fault_proxy import Asked, Delay, Fault
from test.integration.controllers.harness.groups import revisions_of, settle
from test.integration.controllers.harness.manifests import a_set, new_image, scaled_to
from test.integration.controllers.harness.proxied import Stage
from test.integration.controllers.harness.waiting import eventually
from test.integration.controllers.harness.world import SET, World
from tools.deployment import NAMESPACE, ManagerProcess
from tools.localcluster import Api

pytestmark = pytest.mark.local_only

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/b8b2488c.x-k8s.io"
# As the stage configures them.
DURATION, DEADLINE = 6.0, 4.0


def holder(api: Api) -> str:
    return str(api.get(LEASE)["spec"].get("holderIdentity") or "")


def start_two(stage: Stage) -> tuple[ManagerProcess, ManagerProcess]:
    """One that leads, and one that waits and answers the webhooks."""
    acting = stage.start()
    eventually("the first one leads", lambda: "held by this manager" in acting.log_path.read_text())
    return acting, stage.start()


def took_over(manager: ManagerProcess) -> bool:
    return "held by this manager" in manager.log_path.read_text()


def test_a_manager_that_is_told_to_end_finishes_what_it_does(stage: Stage, world: World) -> None:
    def slow_writes(asked: Asked) -> Fault | None:
        return Delay(1.0) if asked.is_write and world.namespace in asked.path else None

    with stage.proxy() as proxy:
        manager = stage.start(proxy=proxy)
        eventually("it leads", lambda: took_over(manager))
        proxy.rule = slow_writes
        world.create(a_set("web", replicas=1, size=1))
        eventually("a pass is running", lambda: proxy.seen["Delay"])
        assert revisions_of(world, "web") == []
        assert manager.stop(15) == 0
    assert len(revisions_of(world, "web")) == 1
    assert world.find("StatefulSet", "web") is not None
    assert holder(world.api) == ""


def test_a_manager_that_ends_hands_over_at_once_and_one_that_is_killed_soon(
    stage: Stage, world: World
) -> None:
    first, second = start_two(stage)
    world.create(a_set("web", replicas=2, size=2))
    settle(world, "web")
    began = time.monotonic()
    assert first.stop(15) == 0
    eventually("the second takes over", lambda: took_over(second), seconds=DURATION / 2)
    assert time.monotonic() - began < 10
    world.patch(SET, "web", new_image("server:2"))
    settle(world, "web")

    third = stage.start()
    second.kill()
    began = time.monotonic()
    world.patch(SET, "web", scaled_to(3))
    eventually("the third takes over", lambda: took_over(third), seconds=2 * DURATION)
    # The Lease of the dead is respected: it might only be slow.
    assert time.monotonic() - began > DEADLINE
    settle(world, "web")
