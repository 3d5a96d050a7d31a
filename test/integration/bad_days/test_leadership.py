"""Does exactly one manager act, whatever becomes of the other?"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from test.integration.bad_days.fault_proxy import Asked, Delay, Fault
from test.integration.bad_days.ledger import Ledger
from test.integration.bad_days.proxied import Stage, credential_of
from test.integration.controllers.harness.groups import revisions_of, settle
from test.integration.controllers.harness.manifests import a_set, new_image, scaled_to
from test.integration.controllers.harness.waiting import eventually
from test.integration.controllers.harness.world import SET, World
from tools.deployment import NAMESPACE, ManagerProcess
from tools.localcluster import Api, LocalCluster

pytestmark = pytest.mark.local_only

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/b8b2488c.x-k8s.io"
# As the stage configures them.
DURATION, DEADLINE = 6.0, timedelta(seconds=4)
STOPPED_SECONDS = 20.0


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
    assert time.monotonic() - began > DEADLINE.total_seconds()
    settle(world, "web")


def test_a_manager_that_was_frozen_writes_nothing_more(
    stage: Stage, world: World, cluster: LocalCluster
) -> None:
    ledger = Ledger(cluster.audit_log)
    frozen, other = start_two(stage)
    for name in ("a", "b", "c"):
        world.create(a_set(name, replicas=2, size=2))
    settle(world, "a", "b", "c")
    with changing(world, "a", "b", "c"):
        time.sleep(2)
        frozen.send_signal(signal.SIGSTOP)
        try:
            eventually("the other takes over", lambda: took_over(other), seconds=2 * DURATION)
            time.sleep(STOPPED_SECONDS - DURATION)
        finally:
            frozen.send_signal(signal.SIGCONT)
        time.sleep(3)
    settle(world, "a", "b", "c")
    written = ledger.writes_of(credential_of(frozen))
    renewed = max(each.at for each in written if each.resource == "leases" and each.code == 200)
    acted = [each for each in written if each.namespace == world.namespace]
    assert acted, "it has acted before"
    assert [each for each in acted if each.at > renewed + DEADLINE] == []
    assert frozen.is_running
    assert frozen.probe("readyz")[0] == 200
    assert other.stop(15) == 0
    eventually("it takes over again", lambda: frozen.log_path.read_text().count("held by this manager") == 2)
    stage.serve(frozen)
    world.patch(SET, "a", scaled_to(3))
    settle(world, "a")


@contextmanager
def changing(world: World, *names: str) -> Iterator[None]:
    """Have somebody change images all the time, so that there is always something to write."""
    done = threading.Event()

    def work() -> None:
        for number, name in zip(itertools.count(2), itertools.cycle(names), strict=False):
            if done.wait(0.2):
                return
            world.patch(SET, name, new_image(f"server:{number}"))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
