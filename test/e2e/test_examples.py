"""Every manifest in examples/ becomes ready unchanged on a cluster with the chart installed.

Nodes are simulated, so images are never pulled; everything before the pull is tested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import KIND as DISAGGREGATED
from lws_api.disaggregatedset.v1 import NAME_LABEL as DISAGGREGATED_LABEL
from lws_api.disaggregatedset.v1 import ROLE_LABEL, SCALER_KIND, SLICE_LABEL
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, WORKER_INDEX_LABEL
from test.harness.groups import condition, controller_of, labels_of, name_of, names_of, pods_of, settle
from test.harness.product import Product, running_product
from test.harness.waiting import eventually
from test.harness.world import SET, World, a_namespace
from tools.demo.exhibit import EXAMPLES, Example, find_example
from tools.demo.facts import host_of
from tools.localcluster import ClusterAccess, CommandError

KINDS = (SET, DISAGGREGATED)
CHILDREN = ("StatefulSet", "Pod", "Service", "ControllerRevision")
FILES = sorted(EXAMPLES.rglob("*.yaml"))
REFERENCE = re.compile(r"\$\((LWS_[A-Z_]+)\)")

SCHEDULED = EXAMPLES / "scheduling.yaml"

each_file = pytest.mark.parametrize(
    "path",
    [path for path in FILES if path != SCHEDULED],
    ids=lambda path: str(path.relative_to(EXAMPLES)),
)


@pytest.fixture(scope="module")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running_product(cluster, tmp_path_factory.mktemp("examples")) as product:
        yield product


@pytest.fixture
def world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace for one file; the cluster has GPUs for only one example at a time."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.callspec.id.removesuffix(".yaml"))
    with a_namespace(cluster, f"example-{name}") as world:
        yield world
        world.kubectl("delete", "disaggregatedsets,lws", "--all", "--cascade=foreground")


def children_of(world: World, name: str) -> list[str]:
    """Return the LeaderWorkerSets of a DisaggregatedSet once all its groups are ready."""
    wait = ("wait", f"disaggregatedset/{name}", "--for=condition=Available", "--timeout=180s")
    world.kubectl(*wait)
    return sorted(names_of(world.list(SET, f"{DISAGGREGATED_LABEL}={name}")))


def undefined(pod: dict[str, Any]) -> set[str]:
    """Return our variables that commands refer to and that their container does not define."""
    missing = set()
    spec = pod["spec"]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        texts = (*container.get("command", ()), *container.get("args", ()))
        defined = {variable["name"] for variable in container["env"]}
        missing |= {name for text in texts for name in REFERENCE.findall(text)} - defined
    return missing


@each_file
def test_an_example_is_accepted_and_becomes_ready(world: World, path: Path) -> None:
    example = find_example(str(path.relative_to(EXAMPLES)))
    serve(world, example)
    world.kubectl("apply", "--dry-run=server", "-f", str(path))
    world.kubectl("apply", "-f", str(path))
    assert example.sets or example.disaggregated
    for name, written in example.disaggregated.items():
        roles = [role["name"] for role in written["spec"]["roles"]]
        assert len(children_of(world, name)) == len(roles) * written["spec"].get("slices", 1)
    children = [child for name in example.disaggregated for child in children_of(world, name)]
    settle(world, *example.sets, *children)
    for name in (*example.sets, *children):
        verify_pods(world, name)
        assert condition(world.get(SET, name), "ReplicaFailure").get("status") != "True"
    for name in example.left_alone:
        assert "status" not in world.get(SET, name), "the other controller writes the status"
        assert [child for kind in CHILDREN for child in world.list(kind, f"{NAME_LABEL}={name}")] == []
    assert warnings(world) == []


@pytest.mark.parametrize("path", [SCHEDULED], ids=["scheduling"])
def test_an_example_that_needs_a_feature_gate_is_rejected(world: World, path: Path) -> None:
    """test/integration/gangs/test_scheduling.py tests it with the gate."""
    with pytest.raises(
        CommandError, match=r"spec\.scheduling: .*requires the WorkloadAwareScheduling feature gate"
    ):
        world.kubectl("apply", "-f", str(path))


def warnings(world: World) -> list[str]:
    """Return the notes of warnings about sets of both kinds."""
    events = (event for event in world.list("Event") if event["regarding"]["kind"] in KINDS)
    return [event["note"] for event in events if event["type"] == "Warning"]


def serve(world: World, example: Example) -> None:
    """Install the kinds that the example needs and a plain cluster lacks."""
    for definition in example.needs:
        world.kubectl("apply", "--server-side", "-f", str(definition))
        world.kubectl("wait", "--for=condition=Established", "-f", str(definition))


def verify_pods(world: World, name: str) -> None:
    pods = pods_of(world, name)
    assert pods
    assert [undefined(pod) for pod in pods] == [set()] * len(pods)
    for pod in pods:
        group, worker = labels_of(pod)[GROUP_INDEX_LABEL], labels_of(pod)[WORKER_INDEX_LABEL]
        leader = host_of(name, group)
        host = leader if worker == "0" else f"{leader}-{worker}"
        assert pod["spec"]["hostname"] == host
        assert name_of(pod) == host or controller_of(pod)["kind"] == "ReplicaSet"
        address = pod["spec"]["containers"][0]["env"][0]
        assert address == {
            "name": "LWS_LEADER_ADDRESS",
            "value": f"{leader}.{pod['spec']['subdomain']}.{world.namespace}",
        }


@pytest.mark.parametrize("path", [EXAMPLES / "hpa.yaml"], ids=["autoscaled"])
def test_an_autoscaler_scales_the_set(world: World, path: Path) -> None:
    """Without metrics, the autoscaler only knows that 1 group is below its minimum."""
    world.kubectl("apply", "-f", str(path))
    eventually("the set is scaled", lambda: world.get(SET, "hpa")["spec"]["replicas"], lambda now: now == 2)
    settle(world, "hpa")
    scale = world.api.get(f"{world.path(SET, 'hpa')}/scale")
    assert (scale["spec"], scale["status"]["replicas"]) == ({"replicas": 2}, 2)
    leaders = world.list("Pod", scale["status"]["selector"])
    assert {name_of(pod) for pod in leaders} == {"hpa-0", "hpa-1"}


@pytest.mark.parametrize("path", [EXAMPLES / "disaggregated" / "hpa.yaml"], ids=["autoscaled-role"])
def test_an_autoscaler_scales_a_role_by_its_scaler(world: World, path: Path) -> None:
    """The scaler exists before any client writes to it; the autoscaler's minimum is 2."""
    world.kubectl("apply", "-f", str(path))
    eventually(
        "the scaler has the autoscaler's minimum",
        lambda: world.find(SCALER_KIND, "scaled-decode"),
        lambda now: desired_groups(now) == 2,
    )
    expected = {"prefill": 1, "decode": 2}
    eventually("the role has two groups", lambda: counts(world, "scaled"), lambda now: now == expected)
    settle(world, *children_of(world, "scaled"))
    scale = world.api.get(f"{world.path(SCALER_KIND, 'scaled-decode')}/scale")
    assert (scale["spec"], scale["status"]["replicas"]) == ({"replicas": 2}, 2)
    leaders = world.list("Pod", scale["status"]["selector"])
    assert {labels_of(pod)[GROUP_INDEX_LABEL] for pod in leaders} == {"0", "1"}
    assert {labels_of(pod)[WORKER_INDEX_LABEL] for pod in leaders} == {"0"}


@pytest.mark.parametrize("path", [EXAMPLES / "disaggregated" / "keda.yaml"], ids=["keda-roles"])
def test_the_scale_targets_of_keda_have_a_scale(world: World, path: Path) -> None:
    example = find_example(str(path.relative_to(EXAMPLES)))
    serve(world, example)
    world.kubectl("apply", "-f", str(path))
    scaled_objects = json.loads(world.kubectl("get", "scaledobjects", "-o", "json"))["items"]
    targets = [scaled_object["spec"]["scaleTargetRef"] for scaled_object in scaled_objects]
    assert len(targets) == 2
    for target in targets:
        eventually("the scaler exists", lambda name=target["name"]: world.find(SCALER_KIND, name), bool)  # type: ignore[misc]
        world.kubectl("scale", f"{target['kind'].lower()}/{target['name']}", "--replicas=3")
    eventually(
        "both roles are scaled", lambda: counts(world, "keda"), lambda now: now == {"prefill": 3, "decode": 3}
    )


@pytest.mark.parametrize("path", [EXAMPLES / "disaggregated" / "slices.yaml"], ids=["slices-in-zones"])
def test_each_slice_has_its_own_zone(world: World, path: Path) -> None:
    world.kubectl("apply", "-f", str(path))
    settle(world, *children_of(world, "slices"))
    nodes = world.api.get("/api/v1/nodes")["items"]
    zones = {name_of(node): labels_of(node).get("topology.kubernetes.io/zone", "") for node in nodes}
    zones_by_slice: dict[str, set[str]] = {}
    for pod in world.list("Pod", f"{DISAGGREGATED_LABEL}=slices"):
        zones_by_slice.setdefault(labels_of(pod)[SLICE_LABEL], set()).add(zones[pod["spec"]["nodeName"]])
    assert {index: len(names) for index, names in zones_by_slice.items()} == {"0": 1, "1": 1}
    assert zones_by_slice["0"] != zones_by_slice["1"]


def desired_groups(scaler: dict[str, Any] | None) -> int:
    return int(((scaler or {}).get("spec") or {}).get("replicas", 0))


def counts(world: World, name: str) -> dict[str, int]:
    """Return the desired groups of each role's LeaderWorkerSet."""
    children = world.list(SET, f"{DISAGGREGATED_LABEL}={name}")
    return {labels_of(child)[ROLE_LABEL]: child["spec"]["replicas"] for child in children}
