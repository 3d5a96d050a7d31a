"""Sets in a namespace that the pod webhook does not cover are left alone, and their status reports it."""

from __future__ import annotations

import json

import pytest

from test.harness.events import wait_for_events
from test.harness.groups import condition, pod_uids, settle
from test.harness.manifests import a_set, scaled_to
from test.harness.product import Product
from test.harness.waiting import eventually
from test.harness.world import SET, World

pytestmark = pytest.mark.local_only

CONFIGURATION = ("mutatingwebhookconfiguration", "lws-mutating-webhook-configuration")


def select(world: World, selector: dict[str, object]) -> None:
    entries = json.loads(world.kubectl("get", *CONFIGURATION, "-o", "json"))["webhooks"]
    patch = [
        {"op": "add", "path": f"/webhooks/{index}/namespaceSelector", "value": selector}
        for index, _ in enumerate(entries)
    ]
    world.kubectl("patch", *CONFIGURATION, "--type=json", "-p", json.dumps(patch))


def test_a_set_in_a_namespace_outside_the_webhook_selector_is_left_alone(
    product: Product, world: World
) -> None:
    world.create(a_set("before", replicas=1, size=2))
    settle(world, "before")
    pods = pod_uids(world, "before")
    product.stop()
    elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [world.namespace]}
    select(world, {"matchExpressions": [elsewhere]})
    try:
        product.start()
        world.create(a_set("later", replicas=1, size=2))
        world.patch(SET, "before", scaled_to(2))
        for name in ("before", "later"):
            eventually(
                f"{name} reports why nothing happens",
                lambda: condition(world.get(SET, name), "ReplicaFailure").get("reason"),  # noqa: B023
                lambda reason: reason == "NamespaceNotCovered",
            )
            wait_for_events(world, name, "NamespaceNotCovered")
        assert world.find("StatefulSet", "later") is None
        assert pod_uids(world, "before") == pods
    finally:
        product.stop()
        select(world, {})
        product.start()
    settle(world, "before", "later")
    assert pods.items() <= pod_uids(world, "before").items()
