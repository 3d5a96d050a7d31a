"""Groups get PodGroups of scheduler-plugins only while that API is served.

No scheduler acts on them here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL
from test.harness.groups import labels_of, names_of, pod_uids, pods_of, settle
from test.harness.manifests import a_set, pod_template, scaled_to
from test.harness.product import Product, running_product
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ApiError, LocalCluster

PROVIDER = ("--set", "gangSchedulingManagement.schedulerProvider=scheduler-plugins")
DEFINITION = Path(__file__).with_name("crds") / "podgroups.scheduling.x-k8s.io.yaml"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
TIMEOUT = {"scheduling.x-k8s.io/schedule-timeout-seconds": "120"}
_NOT_YET = (404, 503)

Object = dict[str, Any]


@pytest.fixture(scope="module")
def product(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart, and a manager configured to create PodGroups of scheduler-plugins."""
    with running_product(cluster, tmp_path_factory.mktemp("coscheduling"), *PROVIDER) as product:
        yield product


def path_of(world: World, name: str = "") -> str:
    root = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{world.namespace}/podgroups"
    return f"{root}/{name}" if name else root


def pod_groups(world: World) -> dict[str, Object]:
    """Return the PodGroup of each group; empty while a new CRD is not served everywhere."""
    try:
        items = world.api.get(path_of(world))["items"]
    except ApiError as refusal:
        if refusal.status not in _NOT_YET:
            raise
        return {}
    return {labels_of(pod_group)[GROUP_INDEX_LABEL]: pod_group for pod_group in items}


def test_pod_groups_are_created_only_while_their_api_is_served(world: World, product: Product) -> None:
    template = pod_template()
    template["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    world.create(a_set("gang", 2, 2, workers=template, annotations=TIMEOUT))
    settle(world, "gang")
    assert "the API server does not serve podgroups of scheduling.x-k8s.io/v1alpha1" in product.log()
    uids = pod_uids(world, "gang")

    world.cluster.kubectl("apply", "-f", str(DEFINITION))
    world.cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(DEFINITION))
    groups = eventually(
        "every group has a PodGroup", lambda: pod_groups(world), lambda now: now.keys() == {"0", "1"}
    )
    assert groups["1"]["spec"] == {
        "minMember": 2,
        "minResources": {"nvidia.com/gpu": "2"},
        "scheduleTimeoutSeconds": 120,
    }
    assert {labels_of(pod)[POD_GROUP] for pod in pods_of(world, "gang")} == names_of(groups.values())

    assert "[+]podgroups ok" in product.manager.probe("healthz")[1]

    world.api.delete(path_of(world, groups["0"]["metadata"]["name"]))
    eventually(
        "the PodGroup is recreated",
        lambda: pod_groups(world).get("0", groups["0"])["metadata"]["uid"],
        lambda uid: uid != groups["0"]["metadata"]["uid"],
    )

    world.cluster.kubectl("delete", "-f", str(DEFINITION))
    world.patch(SET, "gang", scaled_to(3))
    settle(world, "gang")
    now = pod_uids(world, "gang")
    assert {pod: now[pod] for pod in uids} == uids, "no pod was replaced"
