"""The manager reports nothing while a namespace is terminating."""

from __future__ import annotations

from test.harness.audit import AuditLog
from test.harness.groups import settle
from test.harness.manifests import a_set, new_image, pod_template
from test.harness.product import Product
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ApiError

NAMES = ("one", "two", "three")
# A write may be rejected while the namespace terminates, but the manager must not retry it again and again.
MOST_REJECTIONS_PER_SET = 12


def test_no_errors_in_a_terminating_namespace(world: World, product: Product, audit: AuditLog) -> None:
    slow = pod_template(annotations={"localcluster/stops-after": "3"})
    for name in NAMES:
        world.create(a_set(name, workers=slow))
    settle(world, *NAMES)
    log_length = len(product.log())
    # One of the sets is in a rollout.
    world.patch(SET, "one", new_image("server:2"))

    path = f"/api/v1/namespaces/{world.namespace}"
    world.api.delete(path)
    eventually("the namespace is gone", lambda: _is_gone(world, path))

    lines = [line for line in product.log()[log_length:].splitlines() if world.namespace in line]
    assert [line for line in lines if "\tWARN\t" in line or "\tERROR\t" in line or "Failed" in line] == []
    refused = [
        request
        for request in audit.requests()
        if request.namespace == world.namespace and request.code == 403
    ]
    assert len(refused) <= MOST_REJECTIONS_PER_SET * len(NAMES), "\n".join(map(str, refused))


def _is_gone(world: World, path: str) -> bool:
    try:
        world.api.get(path)
    except ApiError as refusal:
        return refusal.status == 404
    return False
