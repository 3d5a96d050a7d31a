"""With `spec.scheduling`, sets own PodGroups of Volcano; its scheduler does not run here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, WORKER_INDEX_LABEL
from test.harness.groups import annotations_of, labels_of, pod_uids, pods_of, settle
from test.harness.manifests import a_set, new_image, scaled_to
from test.harness.product import Product, running_product
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import LocalCluster

FLAGS = (
    *("--set", "gangSchedulingManagement.schedulerProvider=volcano"),
    *("--set", "featureGates.WorkloadAwareScheduling=true"),
)
DEFINITION = Path(__file__).parents[1] / "fields" / "crds" / "podgroups.scheduling.volcano.sh.yaml"
GROUP_NAME = "scheduling.k8s.io/group-name"

Object = dict[str, Any]


@pytest.fixture(scope="module")
def product(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart with upstream's feature gate, and the API of Volcano."""
    cluster.kubectl("apply", "-f", str(DEFINITION))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(DEFINITION))
    with running_product(cluster, tmp_path_factory.mktemp("volcano"), *FLAGS) as product:
        yield product
    cluster.kubectl("delete", "-f", str(DEFINITION))


def path_of(world: World, name: str = "") -> str:
    root = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{world.namespace}/podgroups"
    return f"{root}/{name}" if name else root


def stored(world: World) -> dict[str, Object]:
    """Return the PodGroups by name."""
    return {pod_group["metadata"]["name"]: pod_group for pod_group in world.api.get(path_of(world))["items"]}


def wait_for_pod_groups(world: World, name: str) -> dict[str, Object]:
    """Wait until the PodGroups are exactly the ones that pods name, and return them."""

    def see() -> tuple[set[str], set[str]]:
        return set(stored(world)), {annotations_of(pod)[GROUP_NAME] for pod in pods_of(world, name)}

    eventually("every PodGroup has pods", see, lambda seen: seen[0] == seen[1])
    return stored(world)


@pytest.mark.parametrize("identity", ["Ordinal", "Hash"])
def test_the_set_owns_pod_groups_which_are_deleted_with_their_pods(world: World, identity: str) -> None:
    name = identity.lower()
    world.create(a_set(name, 2, 2, scheduling={}, groupIdentity=identity))
    settle(world, name)
    groups = wait_for_pod_groups(world, name)
    owner = {"kind": SET, "uid": world.uid(SET, name)}
    assert len(groups) == 2
    for pod_group in groups.values():
        (reference,) = pod_group["metadata"]["ownerReferences"]
        assert owner.items() <= reference.items()
        assert pod_group["spec"]["minMember"] == 2

    lost = sorted(groups)[0]
    uid = groups[lost]["metadata"]["uid"]
    world.api.delete(path_of(world, lost))
    eventually(
        "the PodGroup is recreated",
        lambda: stored(world).get(lost, groups[lost])["metadata"]["uid"],
        lambda now: now != uid,
    )
    for label in (GROUP_INDEX_LABEL, NAME_LABEL):
        world.api.merge(path_of(world, lost), {"metadata": {"labels": {label: None}}})
        eventually("the label is restored", lambda: labels_of(stored(world)[lost]), lambda now: label in now)  # noqa: B023

    # The group of a failed worker is recreated.
    index, before = labels_of(groups[lost])[GROUP_INDEX_LABEL], pod_uids(world, name)
    of_group = [pod for pod in pods_of(world, name) if labels_of(pod)[GROUP_INDEX_LABEL] == index]
    leader, worker = (
        next(pod["metadata"]["name"] for pod in of_group if labels_of(pod)[WORKER_INDEX_LABEL] == number)
        for number in ("0", "1")
    )
    world.delete("Pod", worker)
    world.gone_or_replaced("Pod", leader, before[leader])
    settle(world, name)
    assert len(wait_for_pod_groups(world, name)) == 2

    world.patch(SET, name, new_image("server:2"))
    settle(world, name)
    after = wait_for_pod_groups(world, name)
    assert len(after) == 2 and after.keys().isdisjoint(groups)
    world.patch(SET, name, scaled_to(1))
    settle(world, name)
    assert len(wait_for_pod_groups(world, name)) == 1
    world.delete(SET, name)
    eventually("no PodGroup is left", lambda: stored(world), lambda remaining: not remaining)
