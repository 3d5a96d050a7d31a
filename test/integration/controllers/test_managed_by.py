"""Another controller can run a set: a client dispatches it from one control plane to another.

Like MultiKueue, the client creates a copy on the other cluster and copies its status back.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from test.cluster import LOCAL, chosen
from test.harness.audit import AuditLog
from test.harness.groups import settle
from test.harness.manifests import a_set
from test.harness.product import Product, running_product
from test.harness.waiting import eventually
from test.harness.world import SET, Object, World, a_namespace
from tools.localcluster import ApiError, LocalCluster, Options
from tools.localcluster.api import Call

DISPATCHER = "kueue.x-k8s.io/multikueue"
CHILDREN = ("StatefulSet", "Pod", "Service", "PodDisruptionBudget", "ControllerRevision", "Event")


@pytest.fixture
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A namespace of another cluster with its own installation of the product."""
    if chosen() != LOCAL:
        pytest.skip("starts a second control plane")
    with (
        LocalCluster(Options(nodes=2)) as cluster,
        running_product(cluster, tmp_path_factory.mktemp("remote")),
        a_namespace(cluster, "dispatched") as world,
    ):
        yield world


def dispatch(local: World, remote: World, name: str) -> None:
    """Dispatch one set: copy it there, and copy its status back."""
    lws, copy = local.get(SET, name), remote.find(SET, name)
    spec = {key: value for key, value in lws["spec"].items() if key != "managedBy"}
    if copy is None:
        metadata = {"name": name, "labels": {"kueue.x-k8s.io/multikueue-origin": "here"}}
        remote.create({**a_set(name), "metadata": metadata, "spec": spec})
    elif copy["spec"] != spec:
        remote.patch(SET, name, {"spec": spec})
    elif copy.get("status") != lws.get("status"):
        path = f"{local.path(SET, name)}/status"
        local.api.send(Call("PUT", path, {**lws, "status": copy.get("status")}))


def is_mirrored(local: World, remote: World, name: str) -> bool:
    dispatch(local, remote, name)
    local_set, remote_set = local.get(SET, name), remote.get(SET, name)
    return bool(
        local_set.get("status")
        and local_set["status"] == remote_set.get("status")
        and local_set["status"].get("readyReplicas") == local_set["spec"]["replicas"]
    )


def children_of(world: World, name: str) -> list[Object]:
    return [
        obj for kind in CHILDREN for obj in world.list(kind) if str(obj["metadata"]["name"]).startswith(name)
    ]


def after_another_set(world: World, name: str) -> None:
    """Create another set and wait for it, so that the manager has seen everything before."""
    world.create(a_set(name, 1, 1))
    settle(world, name)


def test_a_set_is_dispatched_to_another_cluster_and_its_status_is_mirrored(
    world: World, remote: World, product: Product, audit: AuditLog
) -> None:
    manifest = a_set("sent", 2, 2, managedBy=DISPATCHER, podDisruptionBudget={"maxUnavailableGroups": 1})
    stored = world.create(manifest)
    assert stored["spec"]["managedBy"] == DISPATCHER
    assert stored["spec"]["startupPolicy"] == "LeaderCreated", "defaults apply as for any set"
    after_another_set(world, "first")
    assert "status" not in world.get(SET, "sent") and children_of(world, "sent") == []

    eventually(
        "the set runs remotely and its status is copied", lambda: is_mirrored(world, remote, "sent"), bool
    )
    settle(remote, "sent")
    world.patch(SET, "sent", {"spec": {"replicas": 3}})
    eventually("the set is scaled", lambda: is_mirrored(world, remote, "sent"), bool)
    written = world.get(SET, "sent")["status"]
    product.restart()
    after_another_set(world, "second")
    assert world.get(SET, "sent")["status"] == written, "the copied status is kept"
    assert children_of(world, "sent") == []
    assert [
        str(request) for request in audit.requests() if request.is_write and request.name.startswith("sent")
    ] == []

    world.delete(SET, "sent")
    eventually("the set is deleted", lambda: world.find(SET, "sent"), lambda lws: lws is None)


@pytest.mark.parametrize("name", ["multikueue", "", "Acme.io/foo", "acme.io/" + "a" * 60])
def test_an_invalid_controller_name_is_rejected(world: World, name: str) -> None:
    with pytest.raises(ApiError, match=r"spec\.managedBy: Invalid value: "):
        world.create(a_set("refused", managedBy=name))


def test_managed_by_is_immutable(world: World) -> None:
    world.create(a_set("ours", 1, 1, managedBy="leaderworkerset.sigs.k8s.io/lws-controller"))
    settle(world, "ours")
    for controller in (DISPATCHER, None):
        with pytest.raises(ApiError, match=r"spec\.managedBy: Invalid value: .*: field is immutable"):
            world.patch(SET, "ours", {"spec": {"managedBy": controller}})
