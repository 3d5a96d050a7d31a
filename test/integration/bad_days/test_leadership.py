"""Does exactly one manager act, whatever becomes of the other?"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest

from lws.cluster.workloads import LEADER_WORKER_SET
from test.harness.fault_proxy import Asked, Fault, Hold
from test.harness.groups import revisions_of, settle
from test.harness.manifests import a_set, new_image, scaled_to
from test.harness.proxied import Stage, credential_of
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from test.integration.bad_days.ledger import Ledger
from tools.deployment import NAMESPACE, ManagerProcess
from tools.localcluster import Api, LocalCluster

pytestmark = pytest.mark.local_only

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/b8b2488c.x-k8s.io"
# As the stage configures it: a Lease lasts longer than its holder acts without a renewal.
DEADLINE = 4.0


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
    told = threading.Event()

    def held_writes(asked: Asked) -> Fault | None:
        return Hold(told) if asked.is_write and world.namespace in asked.path else None

    with stage.proxy() as proxy:
        manager = stage.start(proxy=proxy)
        eventually("it leads", lambda: took_over(manager))
        proxy.rule = held_writes
        world.create(a_set("web", replicas=1, size=1))
        eventually("a pass is running", lambda: proxy.seen["Hold"])
        assert revisions_of(world, "web") == []
        threading.Timer(1.0, told.set).start()
        assert manager.stop() == 0
    assert len(revisions_of(world, "web")) == 1
    assert world.find("StatefulSet", "web") is not None
    assert holder(world.api) == ""


def test_a_manager_that_ends_hands_over_at_once_and_one_that_is_killed_soon(
    stage: Stage, world: World, cluster: LocalCluster
) -> None:
    first, second = start_two(stage)
    world.create(a_set("web", replicas=2, size=2))
    settle(world, "web")
    assert first.stop() == 0
    # A released Lease is taken without waiting.
    assert "released" in first.log_path.read_text()
    eventually("the second takes over", lambda: took_over(second))
    world.patch(SET, "web", new_image("server:2"))
    settle(world, "web")

    ledger = Ledger(cluster.audit_log)
    third = stage.start()
    eventually("the second holds on", lambda: renewals(ledger, second))
    second.kill()
    world.patch(SET, "web", scaled_to(3))
    eventually("the third takes over", lambda: took_over(third))
    # The Lease of the dead is respected: it might only be slow.
    waited = renewals(ledger, third)[0] - renewals(ledger, second)[-1]
    assert waited > timedelta(seconds=DEADLINE)
    settle(world, "web")


def test_a_new_leader_knows_what_the_former_one_has_done_although_its_streams_are_frozen(
    stage: Stage, world: World
) -> None:
    thaw = threading.Event()

    def frozen(asked: Asked) -> Fault | None:
        return Hold(thaw) if asked.is_watch and asked.collection != "leaderworkersets" else None

    with stage.proxy() as proxy:
        acting = stage.start()
        eventually("the first one leads", lambda: took_over(acting))
        successor = stage.start(proxy=proxy)
        proxy.rule = frozen
        proxy.cut_streams()
        eventually(
            "its streams are frozen",
            lambda: proxy.seen["Hold"],
            lambda seen: seen >= len(LEADER_WORKER_SET.children),
        )
        world.create(a_set("web", replicas=2, size=2))
        settle(world, "web")
        assert acting.stop() == 0
        eventually("the successor takes over", lambda: took_over(successor))
        stays("no group counts as missing", lambda: world.get(SET, "web")["status"]["readyReplicas"], 3)
        thaw.set()


def renewals(ledger: Ledger, manager: ManagerProcess) -> list[datetime]:
    """When it has written the Lease."""
    written = ledger.writes_of(credential_of(manager))
    return [each.at for each in written if each.resource == "leases" and each.code < 300]
