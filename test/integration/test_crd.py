"""A real API server accepts our CRD, and stores objects as `lws_api.crds` computes.

The schema is installed under a separate group, so that neither an installed chart nor its webhooks can
interfere.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lws_api.crds import definitions, stored
from lws_api.leaderworkerset.v1 import KIND, LeaderWorkerSet
from tools.crdgen import ROOT
from tools.localcluster import ClusterAccess, CommandError

GROUP = "schema.test.example.com"
PLURAL = f"leaderworkersets.{GROUP}"
SHORT_NAME = "lwsschema"


def definition() -> dict[str, Any]:
    """Return our CRD, moved to the group of this test."""
    crd = copy.deepcopy(dict(definitions()[KIND]))
    crd["metadata"] = {"name": PLURAL}
    crd["spec"]["group"] = GROUP
    crd["spec"]["names"]["shortNames"] = [SHORT_NAME]
    return crd


def wait_until_served(cluster: ClusterAccess) -> None:
    """Wait until discovery and the OpenAPI document include the new CRD."""
    for _ in range(720):
        if f"apis/{GROUP}/v1" in cluster.kubectl("get", "--raw", "/openapi/v3") and PLURAL in cluster.kubectl(
            "api-resources", "--cached=false", "-o", "name", f"--api-group={GROUP}"
        ):
            return
        time.sleep(0.25)
    pytest.fail(f"{PLURAL} is not served after 3 minutes")


@pytest.fixture(scope="module")
def crd(cluster: ClusterAccess) -> Iterator[ClusterAccess]:
    """A cluster that serves the schema.

    It is installed by client-side apply, which stores the whole CRD in one annotation.
    """
    cluster.kubectl("apply", "-f", "-", input=json.dumps(definition()))
    wait_until_served(cluster)
    yield cluster
    cluster.kubectl("delete", "crd", PLURAL, "--timeout=180s")


def a_set(spec: dict[str, Any], **root: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": KIND,
        "metadata": {"name": "a", "namespace": "default"},
        "spec": spec,
    } | root


def with_workers(pod: dict[str, Any], **template: Any) -> dict[str, Any]:
    containers = pod.pop("containers", [{"name": "c", "image": "i"}])
    return a_set(
        {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": containers, **pod}, **template}}}
    )


MINIMAL = with_workers({})

VOLUMES: list[dict[str, Any]] = [
    {"name": "a", "azureDisk": {"diskName": "d", "diskURI": "u"}},
    {"name": "b", "iscsi": {"iqn": "q", "lun": 0, "targetPortal": "p", "secretRef": {}}},
    {"name": "c", "rbd": {"image": "i", "monitors": ["m"]}},
    {"name": "d", "scaleIO": {"gateway": "g", "system": "s", "secretRef": {}}},
    {"name": "e", "configMap": {}},
    {
        "name": "f",
        "projected": {"sources": [{"configMap": {}}, {"secret": {}}, {"serviceAccountToken": {"path": "t"}}]},
    },
    {"name": "g", "csi": {"driver": "d", "nodePublishSecretRef": {}}},
    {
        "name": "h",
        "ephemeral": {
            "volumeClaimTemplate": {
                "metadata": {"labels": {"a": "b"}, "generateName": "gone", "creationTimestamp": None},
                "spec": {"resources": {"requests": {"storage": "1Gi"}}},
            }
        },
    },
    {"name": "i", "emptyDir": {}},
    {"name": "j", "emptyDir": {"sizeLimit": 1}},
]

CONTAINER: dict[str, Any] = {
    "name": "c",
    "image": "i",
    "command": None,
    "unheardOf": {"deeply": [1]},
    "ports": [
        {"containerPort": 80},
        {"containerPort": 80, "protocol": "UDP"},
        {"containerPort": 81, "protocol": None},
    ],
    "env": [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"key": "k"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"key": "k", "name": None}}},
        {"name": "C", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p", "volumeName": "v"}}},
        {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}},
    ],
    "envFrom": [{"configMapRef": {}}, {"secretRef": {}}],
    "livenessProbe": {"grpc": {"port": 1}},
    "readinessProbe": {"httpGet": {"port": "http"}},
    "startupProbe": {"tcpSocket": {"port": 80}},
    "resources": {"limits": {"cpu": 1, "memory": "1.5Gi", "nvidia.com/gpu": "8"}, "requests": {"cpu": None}},
    "securityContext": {},
}

CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "d", "uid": "gone", "annotations": {"a": "b"}, "creationTimestamp": None},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": 1}},
        "storageClassName": None,
    },
    "status": {},
}

ACCEPTED = {
    "minimal": MINIMAL,
    "every default of our own fields": a_set(
        {
            "leaderWorkerTemplate": {
                "workerTemplate": {"spec": {"containers": [CONTAINER]}},
                "leaderTemplate": {
                    "metadata": {"labels": {"a": "b"}, "ownerReferences": []},
                    "spec": {"containers": [CONTAINER]},
                },
                "subGroupPolicy": {},
                "volumeClaimTemplates": [CLAIM],
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "whatever"},
            },
            "rolloutStrategy": {"rollingUpdateConfiguration": {"maxUnavailable": "25%"}},
            "networkConfig": {"subdomainPolicy": None},
        }
    ),
    "nulls": a_set(
        {
            "replicas": None,
            "startupPolicy": None,
            "rolloutStrategy": {"type": None, "rollingUpdateConfiguration": None},
            "networkConfig": None,
            "leaderWorkerTemplate": {
                "size": None,
                "leaderTemplate": None,
                "subGroupPolicy": None,
                "volumeClaimTemplates": None,
                "workerTemplate": {
                    "metadata": {"creationTimestamp": None},
                    "spec": {"containers": [{"name": "c"}]},
                },
            },
        }
    ),
    "unknown fields": a_set({**MINIMAL["spec"], "surprise": {"a": 1}}, extra=True),
    "scheduling": a_set(
        {**MINIMAL["spec"], "scheduling": {"replica": {"schedulingPolicy": {"basic": {"a": 1}}, "any": [1]}}}
    ),
    "defaults in volumes": with_workers({"volumes": VOLUMES}),
    "defaults in containers": with_workers({"containers": [CONTAINER], "initContainers": [CONTAINER]}),
    "defaults in pods": with_workers(
        {"imagePullSecrets": [{}], "tolerations": [{}], "affinity": {}, "hostAliases": [{"ip": "1"}]}
    ),
    "values that only a kubelet would reject": with_workers(
        {"restartPolicy": "Sometimes", "dnsPolicy": "none"}
    ),
}


@pytest.mark.parametrize("manifest", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_stored_objects_equal_the_computed_ones(crd: ClusterAccess, manifest: dict[str, Any]) -> None:
    ours = stored(manifest, definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    theirs = json.loads(
        crd.kubectl(
            "create",
            "--dry-run=server",
            "--validate=false",
            "-o",
            "json",
            "-f",
            "-",
            input=json.dumps(manifest),
        )
    )
    assert ours["spec"] == theirs["spec"]
    assert ours.keys() == theirs.keys()
    LeaderWorkerSet.model_validate(theirs)


REFUSED = {
    "no spec": ({key: value for key, value in MINIMAL.items() if key != "spec"}, "spec: Required value"),
    "no workers": (a_set({"leaderWorkerTemplate": {}}), "workerTemplate: Required value"),
    "no containers": (
        a_set({"leaderWorkerTemplate": {"workerTemplate": {"spec": {}}}}),
        "containers: Required value",
    ),
    "replicas below 0": (a_set({**MINIMAL["spec"], "replicas": -1}), "greater than or equal to 0"),
    "replicas above a million": (
        a_set({**MINIMAL["spec"], "replicas": 1_000_001}),
        "less than or equal to 1000000",
    ),
    "unknown startup policy": (
        a_set({**MINIMAL["spec"], "startupPolicy": "Never"}),
        'Unsupported value: "Never"',
    ),
    "duplicate variable": (
        with_workers(
            {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}]}
        ),
        "env[1]: Duplicate value",
    ),
    "duplicate port": (
        with_workers(
            {
                "containers": [
                    {"name": "c", "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}
                ]
            }
        ),
        "ports[1]: Duplicate value",
    ),
    "invalid quantity": (
        with_workers({"containers": [{"name": "c", "resources": {"limits": {"cpu": "many"}}}]}),
        "should match",
    ),
}


@pytest.mark.parametrize(("manifest", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_the_schema_rejects_invalid_sets(crd: ClusterAccess, manifest: dict[str, Any], message: str) -> None:
    with pytest.raises(CommandError) as refusal:
        crd.kubectl("create", "--dry-run=server", "--validate=false", "-f", "-", input=json.dumps(manifest))
    assert "is invalid" in str(refusal.value)
    assert message in str(refusal.value)


def test_scale_is_a_subresource(crd: ClusterAccess) -> None:
    crd.kubectl("create", "-f", "-", input=json.dumps(MINIMAL))
    status = {
        "status": {"replicas": 3, "hpaPodSelector": "a=b", "collisionCount": 1, "currentRevision": "a-1"}
    }
    crd.kubectl("patch", PLURAL, "a", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    crd.kubectl("scale", PLURAL, "a", "--replicas=7")
    scale = json.loads(
        crd.kubectl("get", "--raw", f"/apis/{GROUP}/v1/namespaces/default/leaderworkersets/a/scale")
    )
    assert scale["spec"] == {"replicas": 7}
    assert scale["status"] == {"replicas": 3, "selector": "a=b"}
    after = json.loads(crd.kubectl("get", PLURAL, "a", "-o", "json"))
    assert after["spec"]["replicas"] == 7
    assert after["status"] == status["status"], "every field of the status is in the schema"


def test_an_applier_replaces_a_reference_as_a_whole(crd: ClusterAccess) -> None:
    """As with upstream's CRD, fields of the previous applier are not kept."""

    def applied(who: str, source: dict[str, Any]) -> dict[str, Any]:
        manifest = with_workers({"volumes": [{"name": "v", "configMap": source}]})
        manifest["metadata"] = {"name": "shared", "namespace": "default"}
        command = ("apply", "--server-side", "--force-conflicts", f"--field-manager={who}", "-o", "json")
        answer = json.loads(crd.kubectl(*command, "-f", "-", input=json.dumps(manifest)))
        volumes = answer["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["volumes"]
        reference: dict[str, Any] = volumes[0]["configMap"]
        return reference

    assert applied("one", {"name": "a", "defaultMode": 256}) == {"name": "a", "defaultMode": 256}
    assert applied("two", {"name": "b"}) == {"name": "b"}


def test_kubectl_prints_the_columns(crd: ClusterAccess) -> None:
    assert crd.kubectl("get", PLURAL).split("\n")[0].split() == [
        "NAME",
        "READY",
        "DESIRED",
        "UP-TO-DATE",
        "AGE",
    ]


def test_kubectl_explain_describes_the_fields(crd: ClusterAccess) -> None:
    text = " ".join(crd.kubectl("explain", f"{SHORT_NAME}.spec").split())
    assert "Number of groups" in text
    assert "<empty>" not in text


APPLY = {
    "by kubectl": ("apply", "--dry-run=server"),
    "by another field manager": (
        "apply",
        "--dry-run=server",
        "--server-side",
        "--force-conflicts",
        "--field-manager=other",
    ),
}


@pytest.mark.parametrize("command", APPLY.values(), ids=APPLY.keys())
def test_the_crd_replaces_one_with_a_conversion_webhook(
    cluster: ClusterAccess, command: tuple[str, ...]
) -> None:
    """Upstream's CRD has one, which can never be called."""
    group = "takeover.test.example.com"
    ours = definition()
    ours["metadata"]["name"] = f"leaderworkersets.{group}"
    ours["spec"] |= {"group": group, "names": ours["spec"]["names"] | {"shortNames": ["lwstakeover"]}}
    theirs = copy.deepcopy(ours)
    theirs["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "none", "namespace": "default", "path": "/convert"}},
        },
    }
    cluster.kubectl("create", "-f", "-", input=json.dumps(theirs))
    try:
        assert "takeover" in cluster.kubectl(*command, "-o", "name", "-f", "-", input=json.dumps(ours))
    finally:
        cluster.kubectl("delete", "crd", f"leaderworkersets.{group}", "--timeout=180s")


def test_the_copy_in_the_chart_is_accepted(cluster: ClusterAccess) -> None:
    template = "templates/crds/leaderworkersets.yaml"
    rendered = cluster.helm("template", "lws", str(ROOT / "charts" / "lws"), "--show-only", template)
    assert "leaderworkersets.leaderworkerset.x-k8s.io" in cluster.kubectl(
        *APPLY["by another field manager"], "-o", "name", "-f", "-", input=rendered
    )
