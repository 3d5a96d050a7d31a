"""Answers: where the volumes of simulated pods come from.

In: claims that wait for us, volumes whose claim is gone. Out: a volume for each claim, none without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tools.localcluster.api import Api, ApiError

STORAGE_CLASS: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "localcluster",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "localcluster/volumes",
    "reclaimPolicy": "Delete",
    "allowVolumeExpansion": True,
    "volumeBindingMode": "Immediate",
}

_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
"""The controller manager names in it who is to make the volume of a claim."""
_EXISTS_OR_GONE = (404, 409)


def wants_volume(claim: dict[str, Any]) -> bool:
    """Tell whether a claim waits for our provisioner."""
    metadata, spec = claim["metadata"], claim["spec"]
    ours = bool(metadata.get("annotations", {}).get(_PROVISIONER) == STORAGE_CLASS["provisioner"])
    return ours and not spec.get("volumeName") and "deletionTimestamp" not in metadata


def is_left_over(volume: dict[str, Any]) -> bool:
    """Tell whether one of our volumes has lost its claim and is not to be retained."""
    annotations = volume["metadata"].get("annotations", {})
    ours = bool(annotations.get("pv.kubernetes.io/provisioned-by") == STORAGE_CLASS["provisioner"])
    released = volume.get("status", {}).get("phase") == "Released"
    return ours and released and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"


def build_volume(claim: dict[str, Any]) -> dict[str, Any]:
    """Return the volume for `claim`; the host path is never looked at, because nothing runs."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {"pv.kubernetes.io/provisioned-by": STORAGE_CLASS["provisioner"]},
        },
        "spec": {
            "storageClassName": spec["storageClassName"],
            "accessModes": list(spec["accessModes"]),
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "persistentVolumeReclaimPolicy": STORAGE_CLASS["reclaimPolicy"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "hostPath": {"path": f"/nonexistent/{name}"},
        },
    }


class Provisioner:
    """Creates and removes volumes; the controller manager binds them."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def consider_claim(self, claim: dict[str, Any]) -> None:
        """Create the volume of a claim that waits for one."""
        if wants_volume(claim):
            with _done_already_is_done():
                self._api.create("/api/v1/persistentvolumes", build_volume(claim))

    def consider_volume(self, volume: dict[str, Any]) -> None:
        """Delete a volume that nobody claims any more."""
        if is_left_over(volume):
            metadata = volume["metadata"]
            with _done_already_is_done():
                options = {"preconditions": {"uid": metadata["uid"]}}
                self._api.delete(f"/api/v1/persistentvolumes/{metadata['name']}", options)


@contextmanager
def _done_already_is_done() -> Iterator[None]:
    """The same object may be seen twice before our first answer to it shows."""
    try:
        yield
    except ApiError as refusal:
        if refusal.status not in _EXISTS_OR_GONE:
            raise
