"""lws.kube.defaults: the defaults that the API server sets in templates."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube import defaults
from lws.kube.defaults import DEFAULTS
from lws.kube.typed import POD_TYPES, Normaliser

STORED = Normaliser(POD_TYPES, DEFAULTS)
AZURE_DISK = {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": False}
DIGEST = "@sha256:" + "0" * 64


def test_a_pod_template_as_the_api_server_stores_it() -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    assert STORED.write("PodTemplateSpec", template) == {
        "metadata": {},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "app:1",
                    "imagePullPolicy": "IfNotPresent",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("app:v1", "IfNotPresent"),
        ("app:latest-1", "IfNotPresent"),
        ("registry.example:5000/app", "Always"),
        ("registry.example:5000/app:1", "IfNotPresent"),
        ("[::1]:5000/team/app", "Always"),
        ("localhost/app", "Always"),
        ("Host/app", "Always"),
        ("team/my__app-x.y", "Always"),
        ("app" + DIGEST, "IfNotPresent"),
        ("app:latest" + DIGEST, "Always"),
        ("app:latest@sha256:short", "IfNotPresent"),
        ("team/App", "IfNotPresent"),
        ("App", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
        ("", "IfNotPresent"),
        (None, "IfNotPresent"),
        ("app:", "IfNotPresent"),
        ("app latest", "IfNotPresent"),
        ("a" * 300, "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str | None, policy: str) -> None:
    assert STORED.write("Container", {"image": image})["imagePullPolicy"] == policy
    assert STORED.write("EphemeralContainer", {"image": image})["imagePullPolicy"] == policy
    assert STORED.write("ImageVolumeSource", {"reference": image})["pullPolicy"] == policy


def test_long_texts_are_not_kept() -> None:
    before = defaults._cached_tag.cache_info().currsize
    assert STORED.write("Container", {"image": "a" * 100_000})["imagePullPolicy"] == "IfNotPresent"
    assert defaults._cached_tag.cache_info().currsize == before


@pytest.mark.parametrize(
    ("kind", "unfilled", "filled"),
    [
        ("Probe", {"timeoutSeconds": 2}, {"periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
        ("Probe", {"periodSeconds": 5, "successThreshold": 2, "failureThreshold": 9}, {"timeoutSeconds": 1}),
        ("HTTPGetAction", {"port": 1, "path": ""}, {"path": "/", "scheme": "HTTP"}),
        ("GRPCAction", {"port": 1}, {"service": ""}),
        ("ContainerPort", {"containerPort": 1}, {"protocol": "TCP"}),
        ("ObjectFieldSelector", {"fieldPath": "a"}, {"apiVersion": "v1"}),
        ("FileKeySelector", {}, {"optional": False}),
        ("Volume", {"name": "v"}, {"emptyDir": {}}),
        ("HostPathVolumeSource", {"path": "/"}, {"type": ""}),
        ("SecretVolumeSource", {}, {"defaultMode": 420}),
        ("SecretVolumeSource", {"defaultMode": 0}, {"defaultMode": 0}),
        ("ConfigMapVolumeSource", {}, {"defaultMode": 420}),
        ("DownwardAPIVolumeSource", {}, {"defaultMode": 420}),
        ("ProjectedVolumeSource", {"sources": []}, {"defaultMode": 420, "sources": None}),
        ("ServiceAccountTokenProjection", {"path": "t"}, {"expirationSeconds": 3600}),
        ("AzureDiskVolumeSource", {}, AZURE_DISK),
        ("AzureDiskVolumeSource", {"fsType": ""}, {**AZURE_DISK, "fsType": ""}),
        ("ISCSIVolumeSource", {}, {"iscsiInterface": "default"}),
        ("RBDVolumeSource", {}, {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        ("ScaleIOVolumeSource", {}, {"fsType": "xfs", "storageMode": "ThinProvisioned"}),
        ("PersistentVolumeClaimSpec", {}, {"volumeMode": "Filesystem"}),
        ("PersistentVolumeClaimStatus", {}, {"phase": "Pending"}),
        ("ResourceRequirements", {"limits": {"cpu": "1500u"}}, {"limits": {"cpu": "2m"}}),
        ("VolumeResourceRequirements", {"requests": {"storage": "0.1"}}, {"requests": {"storage": "100m"}}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_defaults_are_set(kind: str, unfilled: dict[str, Any], filled: dict[str, Any]) -> None:
    plain = Normaliser(POD_TYPES).write(kind, unfilled)
    assert STORED.write(kind, unfilled) == {**plain, **filled}


def test_a_claim_template_as_the_api_server_stores_it() -> None:
    assert STORED.write("PersistentVolumeClaim", {"metadata": {"name": "data"}}) == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"resources": {}, "volumeMode": "Filesystem"},
        "status": {"phase": "Pending"},
    }


@pytest.mark.parametrize(
    ("spec_fields", "account"),
    [
        ({"serviceAccount": "old"}, "old"),
        ({"serviceAccountName": "new"}, "new"),
        ({"serviceAccount": "old", "serviceAccountName": "new"}, "new"),
        ({}, None),
    ],
    ids=["old field", "new field", "serviceAccountName takes precedence", "none"],
)
def test_service_account_has_two_names(spec_fields: dict[str, str], account: str | None) -> None:
    spec = STORED.write("PodSpec", spec_fields)
    assert (spec.get("serviceAccount"), spec.get("serviceAccountName")) == (account, account)


def test_retired_annotations_are_removed_from_templates_without_touching_the_input() -> None:
    annotations = {"pod.beta.kubernetes.io/init-containers": "[]", "mine": "1"}
    template = {"metadata": {"annotations": annotations}}
    assert STORED.write("PodTemplateSpec", template)["metadata"] == {"annotations": {"mine": "1"}}
    assert annotations == {"pod.beta.kubernetes.io/init-containers": "[]", "mine": "1"}
    del annotations["mine"]
    assert STORED.write("PodTemplateSpec", template)["metadata"] == {}


@pytest.mark.parametrize(
    "template",
    [
        {"metadata": "no object"},
        {"metadata": {"annotations": ["no", "object"]}},
        {"spec": {"containers": [{"name": "a", "image": ["no", "text"]}], "overhead": "no object"}},
        {"spec": {"overhead": {"cpu": "much"}}},
    ],
    ids=["metadata", "annotations", "image", "quantity"],
)
def test_invalid_input_does_not_raise(template: dict[str, Any]) -> None:
    written = STORED.write("PodTemplateSpec", template)
    assert STORED.write("PodTemplateSpec", written) == written


def test_every_default_belongs_to_a_type_of_the_table() -> None:
    assert DEFAULTS.keys() <= POD_TYPES.keys()
