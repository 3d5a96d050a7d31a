"""Do the manifests that we show to people come up as they stand, on a cluster with the chart installed?

Images are never pulled: nodes are simulated. What is tested is everything up to that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, KIND, WORKER_INDEX_LABEL
from test.harness.events import events_of
from test.harness.groups import condition, labels_of, name_of, pods_of, settle
from test.harness.product import Product, running_product
from test.harness.waiting import eventually
from test.harness.world import SET, World, a_namespace
from tools.localcluster import ClusterAccess

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(EXAMPLES.rglob("*.yaml"))
REFERENCE = re.compile(r"\$\((LWS_[A-Z_]+)\)")

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))


@pytest.fixture(scope="module")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running_product(cluster, tmp_path_factory.mktemp("examples")) as product:
        yield product


@pytest.fixture
def world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace for one file: the GPUs of the cluster are enough for one at a time."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.callspec.id.removesuffix(".yaml"))
    with a_namespace(cluster, f"example-{name}") as world:
        yield world
        world.kubectl("delete", "lws", "--all", "--cascade=foreground")


def sets_in(path: Path) -> list[str]:
    documents = yaml.safe_load_all(path.read_text())
    return [each["metadata"]["name"] for each in documents if each and each["kind"] == KIND]


def undefined(pod: dict[str, Any]) -> set[str]:
    """Variables of ours that commands refer to, and that their container does not define."""
    found = set()
    spec = pod["spec"]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        texts = (*container.get("command", ()), *container.get("args", ()))
        known = {each["name"] for each in container["env"]}
        found |= {name for text in texts for name in REFERENCE.findall(text)} - known
    return found


@each_file
def test_an_example_is_accepted_comes_up_and_is_wired(world: World, path: Path) -> None:
    world.kubectl("apply", "--dry-run=server", "-f", str(path))
    world.kubectl("apply", "-f", str(path))
    names = sets_in(path)
    settle(world, *names)
    for name in names:
        pods = pods_of(world, name)
        assert [undefined(pod) for pod in pods] == [set()] * len(pods)
        for pod in pods:
            group, worker = labels_of(pod)[GROUP_INDEX_LABEL], labels_of(pod)[WORKER_INDEX_LABEL]
            leader = f"{name}-{group}"
            assert name_of(pod) == (leader if worker == "0" else f"{leader}-{worker}")
            address = pod["spec"]["containers"][0]["env"][0]
            assert address == {
                "name": "LWS_LEADER_ADDRESS",
                "value": f"{leader}.{pod['spec']['subdomain']}.{world.namespace}",
            }
        assert condition(world.get(SET, name), "ReplicaFailure").get("status") != "True"
        assert [each.note for each in events_of(world, name) if each.type == "Warning"] == []


@pytest.mark.parametrize("path", [EXAMPLES / "hpa.yaml"], ids=["autoscaled"])
def test_an_autoscaler_finds_what_it_needs_and_scales_the_set(world: World, path: Path) -> None:
    """Without metrics it knows one thing only: that 1 group is fewer than the least it may have."""
    world.kubectl("apply", "-f", str(path))
    eventually("it is scaled", lambda: world.get(SET, "hpa")["spec"]["replicas"], lambda now: now == 2)
    settle(world, "hpa")
    scale = world.api.get(f"{world.path(SET, 'hpa')}/scale")
    assert (scale["spec"], scale["status"]["replicas"]) == ({"replicas": 2}, 2)
    leaders = world.list("Pod", scale["status"]["selector"])
    assert {name_of(pod) for pod in leaders} == {"hpa-0", "hpa-1"}
