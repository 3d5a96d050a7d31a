"""Tests run on simulated nodes next to the kubelets of another cluster, which is unchanged afterwards.

The other cluster is our own control plane, with a node that only looks as if it had a kubelet. Of kind, only
the programs `kind` and `docker` are replaced: the first returns that cluster, the second its address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from test.harness.simulated_nodes import simulated_nodes
from test.harness.waiting import eventually, stays
from test.integration.foreign.inner import CONTROLLERS, run_tests
from tools.localcluster import Api, ApiError, LocalCluster, Options

REAL = "kind-control-plane"
NODE, PODS = f"/api/v1/nodes/{REAL}", "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
OURS = ("ours-0", "ours-1", "ours-2")
GATED = (
    f"{CONTROLLERS}/test_status.py::test_a_set_is_not_stalled_without_a_deadline_or_while_its_pods_are_gated"
)
POLICY = f"{CONTROLLERS}/test_restart.py::test_without_a_policy_only_the_lost_pod_is_recreated"

_KIND = """#!/bin/sh
for argument in "$@"; do
  case "$argument" in --kubeconfig=*) [ "$1" = create ] && cp "{kubeconfig}" "${{argument#*=}}";; esac
done
exit 0
"""
_DOCKER = """#!/bin/sh
echo '[{"Name": "kind", "IPAM": {"Config": [{"Gateway": "127.0.0.1"}]}}]'
"""
_PLUGIN = """
import subprocess

class KindCluster:
    def __init__(self, name, kubeconfig, image, kind_path):
        self.kubeconfig_path, self._kind = kubeconfig, kind_path

    def create(self):
        subprocess.run([self._kind, "create", "cluster", f"--kubeconfig={self.kubeconfig_path}"], check=True)

    def delete(self):
        subprocess.run([self._kind, "delete", "cluster", f"--kubeconfig={self.kubeconfig_path}"], check=True)
"""


@pytest.fixture(scope="module", autouse=True)
def _real_node(cluster: LocalCluster) -> Iterator[None]:
    """Create a node as kind does, without a taint that keeps pods away."""
    room = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    info = {"kubeletVersion": "v1.36.3"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": room, "allocatable": room, "nodeInfo": info, "conditions": ready}
    metadata = {"name": REAL, "labels": {"kubernetes.io/hostname": REAL}}
    cluster.api.create(
        "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    )
    eventually("pods can be created", lambda: "taints" not in cluster.api.get(NODE)["spec"])
    yield
    cluster.api.delete(NODE)


@pytest.fixture
def machine(cluster: LocalCluster, tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with kind, Docker and the plugin, which is the real one if installed."""
    for name, text in (("kind", _KIND.format(kubeconfig=cluster.kubeconfig)), ("docker", _DOCKER)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    variables = {"CLUSTER": "kind", "NODES": "", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    if find_spec("pytest_kind") is None:
        (tmp_path / "pytest_kind.py").write_text(_PLUGIN)
        variables["PYTHONPATH"] = str(tmp_path)
    return variables


def test_pods_run_only_on_simulated_nodes_and_other_pods_are_left_alone(cluster: LocalCluster) -> None:
    api = cluster.api
    _create_pod(api, "theirs", nodeName=REAL, terminationGracePeriodSeconds=600)
    with simulated_nodes(cluster.kubeconfig, Options(nodes=2)):
        for name in OURS:
            _create_pod(api, name)
        for name in OURS:
            eventually(
                "the pod runs on a simulated node", _state_of(api, name), lambda now: now[0] == "Running"
            )
            assert _state_of(api, name)()[1] in ("node-0", "node-1")
        assert _state_of(api, "theirs")() == ("Pending", REAL), "the other pod is not simulated"
        _claim(api)
        for name in (OURS[0], "theirs"):
            api.delete(f"{PODS}/{name}")
        eventually("the simulated pod ends", _state_of(api, OURS[0]), lambda now: now[0] == "gone")
        stays("the other pod is left to its kubelet", _state_of(api, "theirs"), 2)
    assert [node["metadata"]["name"] for node in api.get("/api/v1/nodes")["items"]] == [REAL]
    assert api.get("/apis/storage.k8s.io/v1/storageclasses")["items"] == []
    assert "unschedulable" not in api.get(NODE)["spec"]
    for name in (*OURS[1:], "theirs"):
        api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})


def test_tests_run_on_simulated_nodes_of_an_existing_cluster(cluster: LocalCluster, tmp_path: Path) -> None:
    variables = {"CLUSTER": "existing", "NODES": "simulated", "KUBECONFIG": str(cluster.kubeconfig)}
    outcome = run_tests(tmp_path / "report.xml", variables, GATED)
    assert list(outcome.results.values()) == ["passed"], outcome.output
    _is_as_before(cluster.api)


def test_tests_run_on_a_cluster_of_kind(
    cluster: LocalCluster, tmp_path: Path, machine: dict[str, str]
) -> None:
    outcome = run_tests(tmp_path / "report.xml", machine, GATED, POLICY)
    assert list(outcome.results.values()) == ["passed", "passed"], outcome.output
    _is_as_before(cluster.api)


def _is_as_before(api: Api) -> None:
    assert [node["metadata"]["name"] for node in api.get("/api/v1/nodes")["items"]] == [REAL]
    assert "unschedulable" not in api.get(NODE)["spec"]


def _create_pod(api: Api, name: str, **spec: Any) -> None:
    containers = [{"name": "main", "image": "server:1"}]
    manifest = {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}
    api.create(PODS, {"apiVersion": "v1", "kind": "Pod", **manifest})


def _state_of(api: Api, name: str) -> Callable[[], tuple[str, str]]:
    """Return a function for the phase and the node of a pod."""

    def look() -> tuple[str, str]:
        try:
            pod = api.get(f"{PODS}/{name}")
        except ApiError as refusal:
            assert refusal.status == 404
            return "gone", ""
        return pod["status"]["phase"], pod["spec"].get("nodeName", "")

    return look


def _claim(api: Api) -> None:
    """Check that a PVC without a class gets a volume, and that the volume is deleted with it."""
    room = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": room}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    api.create(CLAIMS, claim)
    eventually("the claim is bound", lambda: api.get(f"{CLAIMS}/data")["status"]["phase"], "Bound".__eq__)
    api.delete(f"{CLAIMS}/data")
    eventually(
        "no volume is left",
        lambda: api.get("/api/v1/persistentvolumes")["items"],
        lambda volumes: not volumes,
    )
