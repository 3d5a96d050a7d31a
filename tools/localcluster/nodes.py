"""Answers: what the simulated nodes look like.

In: how many, in how many zones and pools. Out: Node objects. Pure.
"""

from __future__ import annotations

import re
from typing import Any

ZONE_LABEL = "topology.kubernetes.io/zone"
POOL_LABEL = "cloud.google.com/gke-nodepool"
SIMULATED_LABEL = "localcluster/simulated"
DEAD_LABEL = "localcluster/dead"
"""Nodes with this label are nobody's: they send no heartbeat, and nobody starts or ends their pods."""

CAPACITY = {
    "cpu": "64",
    "memory": "512Gi",
    "ephemeral-storage": "2Ti",
    "pods": "500",
    "nvidia.com/gpu": "8",
    "google.com/tpu": "8",
}


def build_node(index: int, zones: int, nodes_per_pool: int) -> dict[str, Any]:
    """Return node number `index`: pools are runs of neighbours, and the pools take turns over the zones."""
    name = f"node-{index}"
    pool = index // nodes_per_pool
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "local",
        SIMULATED_LABEL: "true",
        ZONE_LABEL: f"zone-{pool % zones}",
        POOL_LABEL: f"pool-{pool}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": dict(CAPACITY), "allocatable": dict(CAPACITY)},
    }


def is_ready(node: dict[str, Any]) -> bool:
    """Tell whether pods can be placed on `node`: it reports Ready and no taint keeps them away."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node.get("spec", {}).get("taints")


def is_simulated(node: dict[str, Any]) -> bool:
    """Tell whether it is a node of `build_node`."""
    return SIMULATED_LABEL in node["metadata"].get("labels", {})


def runs_pods(node: dict[str, Any]) -> bool:
    """Tell whether pods may be placed on `node` and a kubelet then runs them.

    Kubelets report their version, simulations none or a word: kwok's own stages say kwok-v0.8.0.
    """
    version = node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
    return bool(re.match(r"v\d", version)) and not node.get("spec", {}).get("unschedulable")
