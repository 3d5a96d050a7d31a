"""tools.localcluster.nodes: the objects of simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tools.localcluster.nodes import POOL_LABEL, ZONE_LABEL, build_node, is_ready, is_simulated, runs_pods


def test_nodes_of_a_pool_are_consecutive_and_pools_alternate_between_zones() -> None:
    labels = [build_node(index, zones=2, nodes_per_pool=2)["metadata"]["labels"] for index in range(6)]
    assert [node[POOL_LABEL] for node in labels] == ["pool-0"] * 2 + ["pool-1"] * 2 + ["pool-2"] * 2
    assert [node[ZONE_LABEL] for node in labels] == ["zone-0"] * 2 + ["zone-1"] * 2 + ["zone-0"] * 2
    assert [node["kubernetes.io/hostname"] for node in labels] == [f"node-{index}" for index in range(6)]


def test_accelerators() -> None:
    status = build_node(0, 1, 1)["status"]
    assert status["capacity"] == status["allocatable"]
    assert {"nvidia.com/gpu", "google.com/tpu", "cpu", "memory", "pods"} <= set(status["capacity"])


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, False),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"taints": [{}]}}, False),
        ({}, False),
    ],
    ids=["ready", "not ready", "still tainted", "no status"],
)
def test_is_ready(node: dict[str, Any], expected: bool) -> None:
    assert is_ready(node) is expected


def test_simulated_nodes_are_distinguished_from_others() -> None:
    assert is_simulated(build_node(0, 1, 1))
    assert not is_simulated({"metadata": {"name": "kind-control-plane"}})


@pytest.mark.parametrize(
    ("version", "spec", "expected"),
    [
        ("v1.36.3", {}, True),
        ("v1.36.3", {"unschedulable": True}, False),
        ("kwok-v0.8.0", {}, False),
        ("fake", {}, False),
        ("", {}, False),
    ],
    ids=["kubelet", "cordoned", "kwok", "as in its guide", "ours"],
)
def test_a_kubelet_is_recognised_by_its_version(version: str, spec: dict[str, Any], expected: bool) -> None:
    assert runs_pods({"spec": spec, "status": {"nodeInfo": {"kubeletVersion": version}}}) is expected


def test_a_node_that_has_not_reported_yet_runs_nothing() -> None:
    assert not runs_pods(build_node(0, 1, 1))
