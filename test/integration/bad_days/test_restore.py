"""A manager survives an etcd restore and outages of the API server without restarting groups."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lws.leaderworkerset.tables import LEADER_WORKER_SET
from test.harness.audit import AuditLog, Request
from test.harness.groups import images_of, settle
from test.harness.manifests import a_set, new_image
from test.harness.proxied import Stage
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import LocalCluster

pytestmark = pytest.mark.local_only

STORE, API_SERVER = "etcd", "kube-apiserver"
CLIENTS = ("kube-controller-manager", "kube-scheduler", "kwok", "kubelet")
LISTED = {"leaderworkersets", *(kind.plural for kind in LEADER_WORKER_SET.children)}
# A Lease that lasts until etcd is back, so that its holder may write at once.
LONG_LEASE = (
    "--leader-elect-lease-duration=120s",
    "--leader-elect-renew-deadline=110s",
    "--leader-elect-retry-period=1s",
)


def test_a_restored_etcd_is_listed_again_before_any_write(
    stage: Stage, world: World, cluster: LocalCluster
) -> None:
    manager = stage.start(*LONG_LEASE)
    world.create(a_set("kept", replicas=2, size=2))
    settle(world, "kept")
    with stopped(cluster, API_SERVER, STORE):
        shutil.copytree(cluster.workspace / STORE, cluster.workspace / "backup")
    world.patch(SET, "kept", new_image("server:2"))
    world.create(a_set("phantom", replicas=2, size=2))
    settle(world, "kept")
    settle(world, "phantom")

    audit = AuditLog(cluster.audit_log)
    with stopped(cluster, *CLIENTS), stopped(cluster, API_SERVER, STORE):
        shutil.rmtree(cluster.workspace / STORE)
        shutil.move(cluster.workspace / "backup", cluster.workspace / STORE)
        audit.mark()
    eventually(
        "the manager notices the restore", lambda: "restored from a backup" in manager.log_path.read_text()
    )
    # A manager to which the API server was slow leaves its Lease to expire.
    eventually(
        "the manager is active again",
        lambda: manager.log_path.read_text().count("held by this manager") > 1,
        seconds=300,
    )
    manager.wait_ready()
    settle(world, "kept")
    assert images_of(world, "kept") == {index: {"server:1"} for index in range(2)}
    world.patch(SET, "kept", new_image("server:3"))
    settle(world, "kept")
    assert images_of(world, "kept") == {index: {"server:3"} for index in range(2)}

    assert manager.is_running
    assert world.find(SET, "phantom") is None
    requests = audit.requests()
    assert not [request for request in requests if request.is_write and request.name.startswith("phantom")]
    first = next(
        index for index, request in enumerate(requests) if request.is_write and is_about_sets(request, world)
    )
    assert {request.resource for request in requests[:first] if request.verb == "list"} >= LISTED


def is_about_sets(request: Request, world: World) -> bool:
    return request.namespace == world.namespace and request.code < 300


@contextmanager
def stopped(cluster: LocalCluster, *names: str) -> Iterator[None]:
    """Stop these components during the block, and start them again in reverse order."""
    for name in names:
        cluster.stop_component(name)
    try:
        yield
    finally:
        for name in reversed(names):
            cluster.component(name).start()
        for name in names:
            cluster.component(name).wait_healthy(240)


def test_a_long_outage_at_startup_does_not_restart_the_manager(
    stage: Stage, world: World, cluster: LocalCluster
) -> None:
    manager = stage.manager()
    with stopped(cluster, API_SERVER):
        manager.start()
        _, text = eventually(
            "the manager serves probes", lambda: manager.probe("readyz"), lambda seen: seen[0] == 500
        )
        assert "is the API server up" in text
        assert manager.probe("healthz")[0] == 200
    stage.serve(manager)
    world.create(a_set("web", replicas=1, size=2))
    settle(world, "web")
    with stopped(cluster, API_SERVER):
        eventually(
            "the manager logs lost connections", lambda: manager.log_path.read_text().count("lease ") > 2
        )
        assert manager.probe("healthz")[0] == 200
    world.patch(SET, "web", new_image("server:2"))
    settle(world, "web")
    assert manager.is_running
