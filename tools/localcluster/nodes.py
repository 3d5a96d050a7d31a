"""Build simulated nodes, and provision the volumes of their pods."""

from __future__ import annotations

import re
from typing import Any

from tools.localcluster.api import Api, tolerating

ZONE_LABEL = "topology.kubernetes.io/zone"
POOL_LABEL = "cloud.google.com/gke-nodepool"
SIMULATED_LABEL = "localcluster/simulated"
DEAD_LABEL = "localcluster/dead"
"""The label of dead nodes. These nodes send no heartbeat, and their pods are neither started nor ended."""

CAPACITY = {
    "cpu": "64",
    "memory": "512Gi",
    "ephemeral-storage": "2Ti",
    "pods": "500",
    "nvidia.com/gpu": "8",
    "google.com/tpu": "8",
}
_DEFAULT_CLASS = {"storageclass.kubernetes.io/is-default-class": "true"}
STORAGE_CLASS: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "localcluster", "annotations": _DEFAULT_CLASS},
    "provisioner": "localcluster/volumes",
    "reclaimPolicy": "Delete",
    "allowVolumeExpansion": True,
    "volumeBindingMode": "Immediate",
}
_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
"""The annotation in which the controller manager names the provisioner of a claim's volume."""
# The same object may be seen twice before our first change to it is visible.
_EXISTS_OR_GONE = (404, 409)


def build_node(index: int, zones: int, nodes_per_pool: int) -> dict[str, Any]:
    """Return node number `index`. Neighbours form a pool; pools are distributed over the zones in turn."""
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
    """Report whether pods can be scheduled to the node: it is Ready and has no taints."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not node.get("spec", {}).get("taints")


def is_simulated(node: dict[str, Any]) -> bool:
    """Report whether `build_node` has built the node."""
    return SIMULATED_LABEL in node["metadata"].get("labels", {})


def runs_pods(node: dict[str, Any]) -> bool:
    """Report whether pods may be scheduled to the node and a kubelet then runs them.

    Kubelets report their version. Simulations report none, or a word: kwok's own stages report kwok-v0.8.0.
    """
    version = node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
    return bool(re.match(r"v\d", version)) and not node.get("spec", {}).get("unschedulable")


def wants_volume(claim: dict[str, Any]) -> bool:
    """Report whether a claim waits for our provisioner."""
    metadata, spec = claim["metadata"], claim["spec"]
    ours = bool(metadata.get("annotations", {}).get(_PROVISIONER) == STORAGE_CLASS["provisioner"])
    return ours and not spec.get("volumeName") and "deletionTimestamp" not in metadata


def is_left_over(volume: dict[str, Any]) -> bool:
    """Report whether one of our volumes has lost its claim and is not to be retained."""
    annotations = volume["metadata"].get("annotations", {})
    ours = bool(annotations.get("pv.kubernetes.io/provisioned-by") == STORAGE_CLASS["provisioner"])
    released = volume.get("status", {}).get("phase") == "Released"
    return ours and released and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"


def build_volume(claim: dict[str, Any]) -> dict[str, Any]:
    """Return the volume for a claim. Nothing ever uses its host path, because no container runs."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    reference = {key: metadata[key] for key in ("namespace", "name", "uid")}
    annotations = {"pv.kubernetes.io/provisioned-by": STORAGE_CLASS["provisioner"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "storageClassName": spec["storageClassName"],
            "accessModes": list(spec["accessModes"]),
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "persistentVolumeReclaimPolicy": STORAGE_CLASS["reclaimPolicy"],
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
            "hostPath": {"path": f"/nonexistent/{name}"},
        },
    }


class Provisioner:
    """Creates and deletes volumes. The controller manager binds them."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def consider_claim(self, claim: dict[str, Any]) -> None:
        """Create the volume of a claim that waits for one."""
        if wants_volume(claim):
            with tolerating(*_EXISTS_OR_GONE):
                self._api.create("/api/v1/persistentvolumes", build_volume(claim))

    def consider_volume(self, volume: dict[str, Any]) -> None:
        """Delete a volume that has lost its claim."""
        if is_left_over(volume):
            metadata = volume["metadata"]
            with tolerating(*_EXISTS_OR_GONE):
                options = {"preconditions": {"uid": metadata["uid"]}}
                self._api.delete(f"/api/v1/persistentvolumes/{metadata['name']}", options)
