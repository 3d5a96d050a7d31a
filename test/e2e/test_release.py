"""Running sets survive an upgrade, a removal and a new installation of the chart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from test.harness.groups import pod_uids, settle
from test.harness.identities import differences, identities, specs
from test.harness.manifests import a_set, new_image, scaled_to
from test.harness.product import Product, running_product
from test.harness.waiting import stays
from test.harness.world import SET, World, a_namespace
from tools.deployment import NAMESPACE
from tools.localcluster import ClusterAccess

WEBHOOKS = (
    ("mutatingwebhookconfiguration", "lws-mutating-webhook-configuration"),
    ("validatingwebhookconfiguration", "lws-validating-webhook-configuration"),
)
DEFINITION = "leaderworkersets.leaderworkerset.x-k8s.io"


@pytest.fixture(scope="module")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running_product(cluster, tmp_path_factory.mktemp("release")) as product:
        yield product


@pytest.fixture(scope="module")
def world(cluster: ClusterAccess, product: Product) -> Iterator[World]:
    """A namespace with the settled set `runs`."""
    with a_namespace(cluster, "release") as world:
        world.create(a_set("runs"))
        settle(world, "runs")
        yield world


def upgrade(product: Product, *arguments: str) -> None:
    """Run `helm upgrade`, with webhooks as on a cluster where only the chart writes them.

    Here they point at this host, and Helm's merge would add the Service to the URL, which the API server
    rejects.
    """
    kubectl = product.deployment.access.kubectl
    for kind, name in WEBHOOKS:
        webhooks = json.loads(kubectl("get", kind, name, "-o", "json"))["webhooks"]
        patch: list[dict[str, Any]] = []
        for index, webhook in enumerate(webhooks):
            path = "/" + webhook["clientConfig"]["url"].split("/", 3)[3]
            service = {"name": "lws-webhook-service", "namespace": NAMESPACE, "path": path}
            base = f"/webhooks/{index}/clientConfig"
            patch.append({"op": "remove", "path": f"{base}/url"})
            patch.append({"op": "add", "path": f"{base}/service", "value": service})
        kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))
    product.deployment.install(*arguments)
    product.deployment.point_webhooks(product.manager)


def test_an_upgrade_changes_no_running_object(world: World, product: Product) -> None:
    before = specs(identities(world))

    upgrade(product, "--set", "webhooks.timeoutSeconds=29,commonLabels.team=serving")
    product.restart()

    stays("sets and pods do not change", lambda: differences(before, specs(identities(world))), 3)
    assert differences(before, specs(identities(world))) == []
    world.patch(SET, "runs", scaled_to(1))
    world.patch(SET, "runs", scaled_to(2))
    settle(world, "runs")


def test_an_upgrade_updates_the_crd(world: World, product: Product) -> None:
    kubectl = world.cluster.kubectl
    stale = [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]
    kubectl("patch", "crd", DEFINITION, "--type=json", "-p", json.dumps(stale))
    upgrade(product, "--reset-values")
    stored = json.loads(kubectl("get", "crd", DEFINITION, "-o", "json"))
    assert stored["spec"]["versions"][0]["additionalPrinterColumns"]


def test_sets_and_their_pods_survive_an_uninstall_and_are_managed_by_the_next_release(
    world: World, product: Product
) -> None:
    settle(world, "runs")
    before, pods = specs(identities(world)), pod_uids(world, "runs")
    product.stop()

    product.deployment.uninstall()

    assert world.cluster.kubectl("get", "crd", DEFINITION, "-o", "name").strip().endswith(DEFINITION)
    assert differences(before, specs(identities(world))) == []

    product.deployment.install()
    product.start()
    stays("sets and pods do not change", lambda: differences(before, specs(identities(world))), 3)
    assert differences(before, specs(identities(world))) == []
    assert pod_uids(world, "runs") == pods
    world.patch(SET, "runs", new_image("server:2"))
    settle(world, "runs")
