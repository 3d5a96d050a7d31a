"""tools.localcluster.nodes: one volume for each PVC, and none without a PVC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tools.localcluster.nodes import STORAGE_CLASS, build_volume, is_left_over, wants_volume

OURS = {"volume.kubernetes.io/storage-provisioner": "localcluster/volumes"}
OF_ANOTHER = {"volume.kubernetes.io/storage-provisioner": "rancher.io/local-path"}


def make_claim(annotations: Mapping[str, str] = OURS, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "data-0", "namespace": "team", "uid": "u1", "annotations": annotations},
        "spec": {
            "storageClassName": "localcluster",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5Gi"}},
            **spec,
        },
    }


def make_volume(phase: str, **spec: Any) -> dict[str, Any]:
    volume = build_volume(make_claim())
    volume["status"] = {"phase": phase}
    volume["spec"].update(spec)
    return volume


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (make_claim(), True),
        (make_claim(volumeName="pvc-u1"), False),
        (make_claim(OF_ANOTHER, storageClassName="standard"), False),
        (make_claim({}), False),
    ],
    ids=["waits", "has one", "of another provisioner", "no claim reference yet"],
)
def test_wants_volume(claim: dict[str, Any], expected: bool) -> None:
    assert wants_volume(claim) is expected


def test_a_deleted_claim_needs_no_volume() -> None:
    claim = make_claim()
    claim["metadata"]["deletionTimestamp"] = "now"
    assert not wants_volume(claim)


def test_a_volume_matches_its_claim_and_is_reserved_for_it() -> None:
    volume = build_volume(make_claim(volumeMode="Block"))
    assert volume["metadata"]["name"] == "pvc-u1"
    assert volume["spec"]["capacity"] == {"storage": "5Gi"}
    assert volume["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert volume["spec"]["volumeMode"] == "Block"
    claim = volume["spec"]["claimRef"]
    assert (claim["namespace"], claim["name"], claim["uid"]) == ("team", "data-0", "u1")
    assert volume["spec"]["storageClassName"] == STORAGE_CLASS["metadata"]["name"]


def test_only_our_released_volumes_are_left_over() -> None:
    assert is_left_over(make_volume("Released"))
    assert not is_left_over(make_volume("Bound"))
    assert not is_left_over(make_volume("Released", persistentVolumeReclaimPolicy="Retain"))
    foreign = make_volume("Released")
    del foreign["metadata"]["annotations"]
    assert not is_left_over(foreign)
