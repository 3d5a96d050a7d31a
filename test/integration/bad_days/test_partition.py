"""Changes that happen while the API server is unreachable are not lost."""

from __future__ import annotations

import time

import pytest

from test.harness.control_plane import restart_controllers
from test.harness.fault_proxy import Drop, ErrorEvent, Fault, Lose, ManagerRequest, no_fault
from test.harness.groups import images_of, leaders_of, pod_uids, settle
from test.harness.manifests import a_set, new_image, scaled_to
from test.harness.product import Product
from test.harness.proxied import Stage, credential_of
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.integration.bad_days.ledger import Ledger
from tools.localcluster import LocalCluster
from tools.localcluster.pods import is_ready

pytestmark = pytest.mark.local_only

API_SERVER = "kube-apiserver"
AWAY_SECONDS = 30.0
# For all parts together; each logs every failed attempt to reach the API server.
LINES_PER_SECOND = 7.0


def cut_off(request: ManagerRequest) -> Fault | None:
    return Drop()


class Attentive:
    """A rule without faults that records the watches."""

    def __init__(self) -> None:
        self.streams: set[str] = set()

    def __call__(self, request: ManagerRequest) -> Fault | None:
        if request.is_watch:
            self.streams.add(request.collection)
        return None


class Forgetful:
    """A rule by which no watch can be resumed after a long outage; new watches work."""

    def __init__(self) -> None:
        self.streams: set[str] = set()

    def __call__(self, request: ManagerRequest) -> Fault | None:
        if not request.is_watch or request.collection in self.streams:
            return None
        self.streams.add(request.collection)
        return ErrorEvent(410)


def test_changes_during_a_network_partition_are_reconciled(
    stage: Stage, world: World, cluster: LocalCluster
) -> None:
    with stage.proxy() as proxy:
        proxy.rule = attentive = Attentive()
        manager = stage.start(proxy=proxy)
        for name in ("scaled", "broken", "deleted"):
            world.create(a_set(name, replicas=1, size=2))
        settle(world, "scaled", "broken", "deleted")
        before = pod_uids(world, "broken")
        proxy.rule = cut_off
        proxy.cut_streams()
        world.patch(SET, "scaled", scaled_to(2))
        cluster.pods.restart_container(world.namespace, "broken-0-1", "server", exit_code=1)
        world.delete(SET, "deleted")
        # The garbage collector may take half a minute to discover a new kind.
        eventually("the pods of the deleted set are deleted", lambda: not pod_uids(world, "deleted"))
        ledger = Ledger(cluster.audit_log)
        proxy.rule = forgetful = Forgetful()
        eventually(
            "every watch was restarted",
            lambda: attentive.streams - forgetful.streams,
            lambda missing: not missing,
        )
        eventually("the group is recreated", lambda: not before.items() & pod_uids(world, "broken").items())
        settle(world, "scaled", "broken")
        assert before.keys() == pod_uids(world, "broken").keys()
        assert not before.items() & pod_uids(world, "broken").items()
        written = ledger.writes_of(credential_of(manager))
        assert [write for write in written if write.name.startswith("deleted") and write.code < 300] == []
        assert manager.is_running


class Hidden:
    """A rule by which writes of StatefulSets succeed, but no list or watch shows StatefulSets."""

    def __init__(self) -> None:
        self.is_written = False

    def __call__(self, request: ManagerRequest) -> Fault | None:
        if "/statefulsets" not in request.path:
            return None
        if request.is_write:
            self.is_written = True
            return Lose()
        return Drop() if request.is_watch or self.is_written else None


def test_pods_are_seen_before_their_statefulset(stage: Stage, world: World) -> None:
    with stage.proxy() as proxy:
        stage.start(proxy=proxy)
        proxy.rule = Hidden()
        proxy.cut_streams()
        world.create(a_set("web", replicas=2, size=2))
        eventually(
            "leaders are ready", lambda: [is_ready(pod) for pod in leaders_of(world, "web")] == [True] * 2
        )
        proxy.rule = no_fault
        settle(world, "web")


def test_a_rollout_continues_after_a_long_api_server_outage(
    product: Product, world: World, cluster: LocalCluster
) -> None:
    world.create(a_set("web", replicas=3, size=2))
    settle(world, "web")
    manager, lines_before = product.manager, len(complaints(product))
    world.patch(SET, "web", new_image("server:2"))
    eventually("the rollout has begun", lambda: world.get(SET, "web")["status"].get("updatedReplicas"), bool)
    began = time.monotonic()
    cluster.kill_component(API_SERVER)
    time.sleep(AWAY_SECONDS)
    assert manager.is_running
    eventually("the manager is alive", lambda: manager.probe("healthz")[0], lambda status: status == 200)
    cluster.start_component(API_SERVER)
    restart_controllers(cluster)
    settle(world, "web")
    assert images_of(world, "web") == {index: {"server:2"} for index in range(3)}
    assert product.manager is manager and manager.is_running
    assert len(complaints(product)) - lines_before < LINES_PER_SECOND * (time.monotonic() - began)


def complaints(product: Product) -> list[str]:
    return [line for line in product.log().splitlines() if "\tDEBUG\t" not in line]
