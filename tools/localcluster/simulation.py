"""Simulate nodes: kwok starts their pods, and our kubelet ends the pods."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.localcluster.api import Api
from tools.localcluster.component import Blueprint, wait_until
from tools.localcluster.components import Options
from tools.localcluster.nodes import STORAGE_CLASS, build_node, is_ready, is_simulated

KUBELET = "kubelet"
STAGES = Path(__file__).with_name("stages.yaml")

_REPOSITORY = Path(__file__).resolve().parents[2]
NODES = "/api/v1/nodes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_START_SECONDS = 240.0


def kubelet_blueprint(kubeconfig: Path, logs: Path) -> Blueprint:
    """Return the blueprint of the process that ends pods of simulated nodes."""
    command = [sys.executable, "-m", "tools.localcluster.kubelet", str(kubeconfig)]
    return Blueprint(KUBELET, command, logs / f"{KUBELET}.log", directory=_REPOSITORY)


def add_nodes(api: Api, options: Options) -> None:
    """Create nodes and the storage class of their volumes; return when all nodes accept pods."""
    api.create(CLASSES, STORAGE_CLASS)
    nodes = [build_node(index, options.zones, options.nodes_per_pool) for index in range(options.nodes)]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda node: api.create(NODES, node), nodes):
            pass

    def all_are_ready() -> bool:
        return all(is_ready(node) for node in api.get(NODES)["items"] if is_simulated(node))

    wait_until(all_are_ready, "the simulated nodes do not get ready", _START_SECONDS)
