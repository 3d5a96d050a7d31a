"""Exactly one manager is active, also when the other one is stopped, killed or cut off."""

from __future__ import annotations

import itertools
import re
import threading
import time
from datetime import datetime, timedelta
from http import HTTPStatus

import pytest

from lws.leaderworkerset.tables import LEADER_WORKER_SET
from lws_api.leaderworkerset.v1 import NAME_LABEL
from test.harness.fault_proxy import Delay, Drop, Fault, Hold, ManagerRequest, Refuse, no_fault
from test.harness.groups import pod_uids, revisions_of, settle
from test.harness.manifests import a_set, new_image, scaled_to
from test.harness.proxied import Stage, credential_of
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from test.integration.bad_days.ledger import Ledger
from tools.deployment import NAMESPACE, ManagerProcess
from tools.localcluster import Api, ApiError, LocalCluster

pytestmark = pytest.mark.local_only

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/b8b2488c.x-k8s.io"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
REFUSED = r"DisaggregatedSet: .*forbidden"
# As the stage configures it. A Lease lasts longer than its holder is active without a renewal.
DEADLINE = 4.0


def holder(api: Api) -> str:
    """Return the holder of the Lease, or ""."""
    return str(api.get(LEASE)["spec"].get("holderIdentity") or "")


def lease_exists(api: Api) -> bool:
    try:
        api.get(LEASE)
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def start_two(stage: Stage) -> tuple[ManagerProcess, ManagerProcess]:
    """Start an active manager, and one that waits and answers the webhooks."""
    acting = stage.start()
    eventually("the first manager is active", lambda: "held by this manager" in acting.log_path.read_text())
    return acting, stage.start()


def took_over(manager: ManagerProcess) -> bool:
    return "held by this manager" in manager.log_path.read_text()


def test_a_terminating_manager_finishes_its_passes(stage: Stage, world: World) -> None:
    released = threading.Event()

    def hold_writes(request: ManagerRequest) -> Fault | None:
        return Hold(released) if request.is_write and world.namespace in request.path else None

    with stage.proxy() as proxy:
        manager = stage.start(proxy=proxy)
        eventually("the manager is active", lambda: took_over(manager))
        proxy.rule = hold_writes
        world.create(a_set("web", replicas=1, size=1))
        eventually("a pass is running", lambda: proxy.seen["Hold"])
        assert revisions_of(world, "web") == []
        threading.Timer(1.0, released.set).start()
        assert manager.stop() == 0
    assert len(revisions_of(world, "web")) == 1
    assert world.find("StatefulSet", "web") is not None
    assert holder(world.api) == ""


def test_another_manager_takes_over_after_a_termination_and_after_a_kill(
    stage: Stage, world: World, cluster: LocalCluster
) -> None:
    first, second = start_two(stage)
    world.create(a_set("web", replicas=2, size=2))
    settle(world, "web")
    assert first.stop() == 0
    # A released Lease is acquired without waiting.
    assert "released" in first.log_path.read_text()
    eventually("the second manager takes over", lambda: took_over(second))
    world.patch(SET, "web", new_image("server:2"))
    settle(world, "web")

    ledger = Ledger(cluster.audit_log)
    third = stage.start()
    eventually("the second manager renews the Lease", lambda: renewals(ledger, second))
    second.kill()
    world.patch(SET, "web", scaled_to(3))
    eventually("the third manager takes over", lambda: took_over(third))
    # The Lease of a killed manager is respected, because the manager might only be slow.
    waited = renewals(ledger, third)[0] - renewals(ledger, second)[-1]
    assert waited > timedelta(seconds=DEADLINE)
    settle(world, "web")


def test_a_new_leader_with_frozen_watches_sees_the_writes_of_the_former_one(
    stage: Stage, world: World
) -> None:
    thaw = threading.Event()

    def frozen(request: ManagerRequest) -> Fault | None:
        return Hold(thaw) if request.is_watch and request.collection != "leaderworkersets" else None

    with stage.proxy() as proxy:
        acting = stage.start()
        eventually("the first manager is active", lambda: took_over(acting))
        successor = stage.start(proxy=proxy)
        proxy.rule = frozen
        proxy.cut_streams()
        eventually(
            "the streams of the successor are frozen",
            lambda: proxy.seen["Hold"],
            lambda seen: seen >= len(LEADER_WORKER_SET.children),
        )
        world.create(a_set("web", replicas=2, size=2))
        settle(world, "web")
        assert acting.stop() == 0
        eventually("the successor takes over", lambda: took_over(successor))
        stays("no group counts as missing", lambda: world.get(SET, "web")["status"]["readyReplicas"], 3)
        thaw.set()


def test_a_deleted_lease_stays_with_its_holder(stage: Stage, world: World) -> None:
    let_go, looks = threading.Event(), list[ManagerRequest]()

    def late(request: ManagerRequest) -> Fault | None:
        return Hold(let_go) if request.is_write and "/leases" in request.path else None

    def seen(request: ManagerRequest) -> None:
        if request.path == LEASE and not request.is_write:
            looks.append(request)

    with stage.proxy() as proxy, stage.proxy() as of_another:
        of_another.rule = seen
        acting = stage.start(proxy=proxy)
        eventually("the first manager is active", lambda: took_over(acting))
        named = holder(world.api)
        standby = stage.start(proxy=of_another)
        eventually("the standby has read the Lease", lambda: looks)
        proxy.rule = late
        world.api.delete(LEASE)
        before = len(looks)
        eventually("the standby finds no Lease", lambda: len(looks) > before + 1)
        let_go.set()
        proxy.rule = no_fault
        world.create(a_set("web", replicas=1, size=2))
        settle(world, "web")
        eventually("the Lease is recreated", lambda: lease_exists(world.api))
        assert holder(world.api) == named and not took_over(standby)


def test_a_manager_that_starts_while_the_lease_is_gone_waits_for_its_holder(
    stage: Stage, world: World
) -> None:
    let_go = threading.Event()

    def late(request: ManagerRequest) -> Fault | None:
        return Hold(let_go) if request.is_write and "/leases" in request.path else None

    with stage.proxy() as proxy:
        acting = stage.start(proxy=proxy)
        eventually("the first manager is active", lambda: took_over(acting))
        newcomer = stage.manager()
        proxy.rule = late
        began = time.monotonic()
        world.api.delete(LEASE)
        stage.serve(newcomer.start())
        eventually("the newcomer is active", lambda: took_over(newcomer))
        # Until then the first one could write.
        assert time.monotonic() - began > DEADLINE
        assert "missing: waiting for a holder" in newcomer.log_path.read_text()
        let_go.set()
        proxy.rule = no_fault
        world.create(a_set("web", replicas=1, size=2))
        settle(world, "web")


def test_taking_over_lists_once_what_the_api_server_lists_and_waits_where_it_refuses(
    stage: Stage, world: World
) -> None:
    lists, refused = list[ManagerRequest](), list[float]()

    def overloaded(request: ManagerRequest) -> Fault | None:
        if request.is_watch or request.is_write:
            return None
        if request.collection == "pods" and "continue" not in request.query:
            lists.append(request)
            return Delay(5.0)
        # Services come by two streams.
        if request.collection == "services" and NAME_LABEL in request.query["labelSelector"]:
            refused.append(time.monotonic())
            return Refuse(429, retry_after=2)
        return None

    with stage.proxy() as proxy:
        acting = stage.start()
        eventually("the first manager is active", lambda: took_over(acting))
        world.create(a_set("web", replicas=1, size=2))
        settle(world, "web")
        standby = stage.start(proxy=proxy)
        proxy.rule = overloaded
        assert acting.stop() == 0
        eventually("the list of Services was refused", lambda: refused, lambda seen: len(seen) > 2)
        gaps = [later - earlier for earlier, later in itertools.pairwise(refused)]
        assert len(lists) == 1 and min(gaps) >= 2.0
        proxy.rule = no_fault
        world.patch(SET, "web", scaled_to(2))
        settle(world, "web")
        assert took_over(standby)


def test_reapplied_permissions_do_not_stop_the_leader(
    stage: Stage, world: World, cluster: LocalCluster
) -> None:
    acting = stage.start()
    eventually("the manager is active", lambda: took_over(acting))
    lease = world.api.get(LEASE)["spec"]
    stored = [
        world.api.get(f"{BINDINGS}/{name}")
        for name in ("lws-manager-rolebinding", "lws-disaggregatedset-rolebinding")
    ]
    for binding in stored:
        world.api.delete(f"{BINDINGS}/{binding['metadata']['name']}")
    try:
        eventually("a check for the CRD is rejected", lambda: re.search(REFUSED, acting.log_path.read_text()))
    finally:
        for binding in stored:
            binding["metadata"] = {key: binding["metadata"][key] for key in ("name", "labels", "annotations")}
            world.api.create(BINDINGS, binding)
    world.create(a_set("web", replicas=1, size=2))
    settle(world, "web")
    now = world.api.get(LEASE)["spec"]
    assert (now["holderIdentity"], now["acquireTime"]) == (lease["holderIdentity"], lease["acquireTime"])
    log = acting.log_path.read_text()
    assert "relists everything" not in log and "released" not in log


def drop_lease_requests(request: ManagerRequest) -> Fault | None:
    return Drop() if "/leases/" in request.path else None


def test_a_worker_replaced_under_another_leader_restarts_no_healthy_group(stage: Stage, world: World) -> None:
    """The policy at that time allowed it; the manager that becomes active again knows the former worker."""

    def settle_under(policy: str) -> None:
        changed = world.patch(SET, "web", {"spec": {"leaderWorkerTemplate": {"restartPolicy": policy}}})
        eventually(
            "the changed policy is observed",
            lambda: world.get(SET, "web")["status"]["observedGeneration"],
            lambda seen: seen == changed["metadata"]["generation"],
        )

    with stage.proxy() as proxy:
        former = stage.start(proxy=proxy)
        eventually("the first manager is active", lambda: took_over(former))
        world.create(a_set("web", replicas=1, size=2))
        settle(world, "web")
        before = pod_uids(world, "web")
        standby = stage.start()
        proxy.rule = drop_lease_requests
        eventually("the standby is active", lambda: took_over(standby))
        settle_under("None")
        world.delete("Pod", "web-0-1")
        world.gone_or_replaced("Pod", "web-0-1", before["web-0-1"])
        settle(world, "web")
        settle_under("RecreateGroupOnPodRestart")
        proxy.rule = no_fault
        stage.serve(former)
        assert standby.stop() == 0
        log = former.log_path
        eventually(
            "the first manager is active again", lambda: log.read_text().count("held by this manager") == 2
        )
        world.patch(SET, "web", scaled_to(2))
        settle(world, "web")
        after = pod_uids(world, "web")
        assert after["web-0"] == before["web-0"] and after["web-0-1"] != before["web-0-1"]


def renewals(ledger: Ledger, manager: ManagerProcess) -> list[datetime]:
    """Return the times at which a manager wrote the Lease."""
    written = ledger.writes_of(credential_of(manager))
    return [write.at for write in written if write.resource == "leases" and write.code < 300]
