"""tools.openapi.extract: Kubernetes types in the form that a CRD allows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tools.openapi import extract
from tools.openapi.extract import structural

POD = "io.k8s.api.core.v1.PodTemplateSpec"
CLAIM = "io.k8s.api.core.v1.PersistentVolumeClaim"
INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


@cache
def schema(name: str) -> dict[str, Any]:
    return structural(name, extract.read())


def at(name: str, path: str) -> dict[str, Any]:
    node = schema(name)
    for step in re.findall(r"[^.\[\]{}]+|\[\]|\{\}", path):
        node = (
            node["items"]
            if step == "[]"
            else node["additionalProperties"]
            if step == "{}"
            else node["properties"][step]
        )
    return node


def defaults(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    if "default" in node:
        yield path, node["default"]
    for field, child in node.get("properties", {}).items():
        yield from defaults(child, f"{path}.{field}" if path else field)
    if "items" in node:
        yield from defaults(node["items"], f"{path}[]")


EMBEDDED_METADATA = ["annotations", "finalizers", "labels", "name", "namespace"]


@pytest.mark.parametrize(
    ("name", "path"),
    [(POD, "metadata"), (CLAIM, "metadata"), (POD, "spec.volumes[].ephemeral.volumeClaimTemplate.metadata")],
)
def test_embedded_metadata_has_five_fields(name: str, path: str) -> None:
    assert sorted(at(name, path)["properties"]) == EMBEDDED_METADATA


CONTAINER_DEFAULTS = {
    "env[].valueFrom.configMapKeyRef.name": "",
    "env[].valueFrom.fileKeyRef.optional": False,
    "env[].valueFrom.secretKeyRef.name": "",
    "envFrom[].configMapRef.name": "",
    "envFrom[].secretRef.name": "",
    "livenessProbe.grpc.service": "",
    "readinessProbe.grpc.service": "",
    "startupProbe.grpc.service": "",
    "ports[].protocol": "TCP",
}
VOLUME_DEFAULTS = {
    "azureDisk.fsType": "ext4",
    "azureDisk.readOnly": False,
    "cephfs.secretRef.name": "",
    "cinder.secretRef.name": "",
    "configMap.name": "",
    "csi.nodePublishSecretRef.name": "",
    "flexVolume.secretRef.name": "",
    "iscsi.iscsiInterface": "default",
    "iscsi.secretRef.name": "",
    "projected.sources[].configMap.name": "",
    "projected.sources[].secret.name": "",
    "rbd.keyring": "/etc/ceph/keyring",
    "rbd.pool": "rbd",
    "rbd.secretRef.name": "",
    "rbd.user": "admin",
    "scaleIO.fsType": "xfs",
    "scaleIO.secretRef.name": "",
    "scaleIO.storageMode": "ThinProvisioned",
    "storageos.secretRef.name": "",
}


def test_the_defaults_of_a_pod_template_match_the_crd_of_upstream() -> None:
    containers = ("containers", "initContainers", "ephemeralContainers")
    expected = {
        f"spec.{kind}[].{path}": value for kind in containers for path, value in CONTAINER_DEFAULTS.items()
    }
    expected |= {f"spec.volumes[].{path}": value for path, value in VOLUME_DEFAULTS.items()}
    expected["spec.imagePullSecrets[].name"] = ""
    assert dict(defaults(schema(POD))) == expected


def test_a_claim_has_no_defaults() -> None:
    assert dict(defaults(schema(CLAIM))) == {}


LIST_MAPS = {
    "spec.containers": ["name"],
    "spec.initContainers": ["name"],
    "spec.volumes": ["name"],
    "spec.imagePullSecrets": ["name"],
    "spec.hostAliases": ["ip"],
    "spec.resourceClaims": ["name"],
    "spec.schedulingGates": ["name"],
    "spec.topologySpreadConstraints": ["topologyKey", "whenUnsatisfiable"],
    "spec.containers[].env": ["name"],
    "spec.containers[].ports": ["containerPort", "protocol"],
    "spec.containers[].volumeMounts": ["mountPath"],
    "spec.containers[].volumeDevices": ["devicePath"],
    "spec.containers[].resources.claims": ["name"],
}


@pytest.mark.parametrize(("path", "keys"), LIST_MAPS.items(), ids=LIST_MAPS.keys())
def test_list_maps(path: str, keys: list[str]) -> None:
    assert at(POD, path)["x-kubernetes-list-type"] == "map"
    assert at(POD, path)["x-kubernetes-list-map-keys"] == keys


@pytest.mark.parametrize("path", ["spec.tolerations", "spec.containers[].args", "spec.containers[].command"])
def test_atomic_lists(path: str) -> None:
    assert at(POD, path)["x-kubernetes-list-type"] == "atomic"


OF_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
CONTAIN_A_REFERENCE = (
    *(
        f"spec.{kind}[].envFrom[].{field}"
        for kind in OF_CONTAINERS
        for field in ("configMapRef", "secretRef")
    ),
    "spec.volumes[].configMap",
    "spec.volumes[].projected.sources[].configMap",
    "spec.volumes[].projected.sources[].secret",
)


@pytest.mark.parametrize(
    "path",
    [
        *CONTAIN_A_REFERENCE,
        "spec.imagePullSecrets[]",
        "spec.containers[].env[].valueFrom.fieldRef",
        "spec.topologySpreadConstraints[].labelSelector",
        "spec.nodeSelector",
    ],
)
def test_fields_that_are_atomic_in_upstream_are_atomic(path: str) -> None:
    assert at(POD, path)["x-kubernetes-map-type"] == "atomic"


@pytest.mark.parametrize("path", ["spec.volumes[].secret", "spec.containers[].resources", "spec.affinity"])
def test_fields_shared_by_appliers_are_not_atomic(path: str) -> None:
    assert "x-kubernetes-map-type" not in at(POD, path)


@pytest.mark.parametrize(
    "path",
    ["spec.containers[].resources.limits{}", "spec.overhead{}", "spec.volumes[].emptyDir.sizeLimit"],
)
def test_quantities(path: str) -> None:
    quantity = dict(at(POD, path))
    pattern = quantity.pop("pattern")
    assert quantity == INT_OR_STRING
    for good in ("1", "1.5Gi", "-5m", "+.5", "1e3", "1E-3", "100k", "5."):
        assert re.search(pattern, good), good
    for bad in ("", "many", "1 Gi", "1Gib", "Gi", "1e", "1.5.5"):
        assert not re.search(pattern, bad), bad


@pytest.mark.parametrize("path", ["livenessProbe.httpGet.port", "startupProbe.tcpSocket.port"])
def test_ports_of_probes_may_be_names(path: str) -> None:
    assert at(POD, f"spec.containers[].{path}") == INT_OR_STRING


def test_only_keywords_of_structural_schemas_remain() -> None:
    def keywords(node: dict[str, Any]) -> Iterator[str]:
        yield from node
        for child in node.get("properties", {}).values():
            yield from keywords(child)
        for key in ("items", "additionalProperties"):
            if key in node:
                yield from keywords(node[key])

    assert set(keywords(schema(POD))) | set(keywords(schema(CLAIM))) == {
        "additionalProperties",
        "anyOf",
        "default",
        "format",
        "items",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
    }


@pytest.mark.parametrize(("path", "required"), [("spec", ["containers"]), ("spec.containers[]", ["name"])])
def test_required_fields(path: str, required: list[str]) -> None:
    assert at(POD, path)["required"] == required


def test_a_type_that_the_extract_lacks() -> None:
    with pytest.raises(KeyError, match="Nothing"):
        structural("Nothing", {})
