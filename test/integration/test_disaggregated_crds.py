"""A real API server accepts the disaggregated CRDs, and stores objects as `lws_api.crds` computes.

The schemas are installed under a separate group, so that neither an installed chart nor its webhooks can
interfere.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from lws_api.crds import definitions, stored
from lws_api.disaggregatedset.v1 import KIND, SCALER_KIND, DisaggregatedSet, DisaggregatedSetRoleScaler
from test.harness.waiting import eventually
from tools.localcluster import ClusterAccess, CommandError

GROUP = "disaggregatedschema.test.example.com"
SETS, SCALERS = f"disaggregatedsets.{GROUP}", f"disaggregatedsetrolescalers.{GROUP}"
REPLICAS_RULE = "replicas must be zero for all non-External roles or non-zero for all non-External roles"


def definition(kind: str) -> dict[str, Any]:
    """Return our CRD, moved to the group of this test."""
    crd = copy.deepcopy(dict(definitions()[kind]))
    crd["metadata"] = {"name": f"{crd['spec']['names']['plural']}.{GROUP}"}
    crd["spec"]["group"] = GROUP
    crd["spec"]["names"]["shortNames"] = [f"{name}schema" for name in crd["spec"]["names"]["shortNames"]]
    return crd


@pytest.fixture(scope="module")
def crds(cluster: ClusterAccess) -> Iterator[ClusterAccess]:
    """A cluster that serves the schemas.

    They are installed by client-side apply, which stores each whole CRD in one annotation.
    """
    for kind in (KIND, SCALER_KIND):
        cluster.kubectl("apply", "-f", "-", input=json.dumps(definition(kind)))
    eventually(
        "the OpenAPI document has the group",
        lambda: cluster.kubectl("get", "--raw", "/openapi/v3"),
        is_served,
    )
    listing = ("api-resources", "--cached=false", "-o", "name", f"--api-group={GROUP}")
    eventually(
        "both kinds are served",
        lambda: cluster.kubectl(*listing),
        lambda text: SCALERS in text and SETS in text,
    )
    yield cluster
    cluster.kubectl("delete", "crd", SETS, SCALERS, "--timeout=180s")


def is_served(documents: str) -> bool:
    return f"apis/{GROUP}/v1" in documents


def an_object(kind: str, spec: dict[str, Any] | None, name: str = "a") -> dict[str, Any]:
    obj = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}
    return obj if spec is None else {**obj, "spec": spec}


def a_role(name: str, template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"name": name, "spec": {"leaderWorkerTemplate": {"workerTemplate": template or pod}, **spec}}


def a_set(*roles: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return an_object(KIND, {"roles": list(roles or (a_role("prefill"), a_role("decode"))), **spec})


EXTERNAL = {"scaling": {"mode": "External"}}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}, "creationTimestamp": None, "ownerReferences": []},
    "spec": {
        "containers": [
            {
                "name": "c",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"key": "k"}}}],
                "livenessProbe": {"grpc": {"port": 1}},
                "resources": {"limits": {"cpu": 1, "memory": "1.5Gi"}},
                "unheardOf": 1,
            }
        ],
        "imagePullSecrets": [{}],
        "volumes": [
            {"name": "a", "azureDisk": {"diskName": "d", "diskURI": "u"}},
            {"name": "b", "rbd": {"image": "i", "monitors": ["m"]}},
            {"name": "c", "iscsi": {"iqn": "q", "lun": 0, "targetPortal": "p"}},
        ],
    },
}

ACCEPTED = {
    "minimal": a_set(),
    "one role": a_set(a_role("prefill")),
    "every default": a_set(
        a_role(
            "prefill",
            TEMPLATE,
            rolloutStrategy={"rollingUpdateConfiguration": {"maxSurge": "10%"}},
            networkConfig={"subdomainPolicy": "Shared"},
        )
        | {"scaling": {}, "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "uid": "gone"}},
        a_role("decode", TEMPLATE, replicas=2, rolloutStrategy={}),
        placementPolicy={},
        slices=None,
    ),
    "fields that upstream does not have": a_set(
        a_role("prefill"),
        a_role("decode") | {"startAfter": ["prefill"]},
        placementPolicy={"type": "ExclusiveSlice", "topology": "zone", "strength": "Preferred"},
        rolloutStrategy={"paused": True, "maxUpdatingSlices": 2, "surprise": 1},
        revisionHistoryLimit=0,
        progressDeadlineSeconds=1,
    ),
    "all roles at 0": a_set(a_role("prefill", replicas=0), a_role("decode", replicas=0)),
    "an external role at 0": a_set(a_role("prefill", replicas=0) | EXTERNAL, a_role("decode", replicas=2)),
    "an external role without a spec": a_set(a_role("prefill"), {"name": "decode", **EXTERNAL}),
    "ten roles": a_set(*(a_role(f"role-{number}") for number in range(10)), slices=100),
    "a scaler": an_object(SCALER_KIND, {"replicas": 2_000_000}),
    "an empty scaler": an_object(SCALER_KIND, {}),
    "a scaler with a null": an_object(SCALER_KIND, {"replicas": None}),
    "a scaler without a spec": an_object(SCALER_KIND, None),
}
MODELS = {KIND: DisaggregatedSet, SCALER_KIND: DisaggregatedSetRoleScaler}


def tried(cluster: ClusterAccess, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the object as stored. kubectl's validation is off, because it would reject pruned fields."""
    command = ("create", "--dry-run=server", "--validate=false", "-o", "json", "-f", "-")
    result: dict[str, Any] = json.loads(cluster.kubectl(*command, input=json.dumps(manifest)))
    return result


@pytest.mark.parametrize("manifest", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_stored_objects_equal_the_computed_ones(crds: ClusterAccess, manifest: dict[str, Any]) -> None:
    schema = definition(manifest["kind"])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    ours, theirs = stored(manifest, schema), tried(crds, manifest)
    assert ours.get("spec") == theirs.get("spec")
    assert ours.keys() == theirs.keys()
    MODELS[manifest["kind"]].model_validate(theirs)


REFUSED = {
    "no role": (an_object(KIND, {"roles": []}), "should have at least 1 items"),
    "eleven roles": (a_set(*(a_role(f"r{number}") for number in range(11))), "must have at most 10 items"),
    "duplicate name": (a_set(a_role("prefill"), a_role("prefill")), "spec.roles[1]: Duplicate value"),
    "invalid name": (a_set(a_role("Prefill"), a_role("decode")), "spec.roles[0].name: Invalid value"),
    "no slices": (a_set(slices=0), "greater than or equal to 1"),
    "too many slices": (a_set(slices=101), "less than or equal to 100"),
    "unknown mode": (
        a_set(a_role("prefill") | {"scaling": {"mode": "Auto"}}, a_role("decode")),
        'Unsupported value: "Auto"',
    ),
    "unknown placement": (a_set(placementPolicy={"type": "Near"}), 'Unsupported value: "Near"'),
    "no workers": (
        a_set({"name": "prefill", "spec": {"leaderWorkerTemplate": {}}}, a_role("decode")),
        "spec.roles[0].spec.leaderWorkerTemplate.workerTemplate: Required value",
    ),
    "one of two at 0": (a_set(a_role("prefill", replicas=0), a_role("decode", replicas=1)), REPLICAS_RULE),
    "one at 0, one left out": (a_set(a_role("prefill", replicas=0), a_role("decode")), REPLICAS_RULE),
    "no spec without a scaler": (a_set(a_role("prefill"), {"name": "decode"}), "no such key: spec"),
    "a scaler below 0": (an_object(SCALER_KIND, {"replicas": -1}), "greater than or equal to 0"),
    "no spec": (an_object(KIND, None), "spec: Required value"),
}


@pytest.mark.parametrize(("manifest", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_the_schema_rejects_invalid_objects(
    crds: ClusterAccess, manifest: dict[str, Any], message: str
) -> None:
    with pytest.raises(CommandError) as refusal:
        tried(crds, manifest)
    assert "is invalid" in str(refusal.value)
    assert message in str(refusal.value)


def scale_of(cluster: ClusterAccess, plural: str, name: str) -> dict[str, Any]:
    path = f"/apis/{GROUP}/v1/namespaces/default/{plural}/{name}/scale"
    scale: dict[str, Any] = json.loads(cluster.kubectl("get", "--raw", path))
    return scale


def test_a_new_scaler_has_a_scale_before_its_first_update(crds: ClusterAccess) -> None:
    crds.kubectl("create", "-f", "-", input=json.dumps(an_object(SCALER_KIND, {}, "fresh")))
    assert scale_of(crds, "disaggregatedsetrolescalers", "fresh")["spec"] == {}  # 0, as Go leaves it out.
    crds.kubectl("scale", SCALERS, "fresh", "--replicas=7")
    status = {"status": {"replicas": 3, "selector": "a=b", "observedGeneration": 2}}
    crds.kubectl("patch", SCALERS, "fresh", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    scale = scale_of(crds, "disaggregatedsetrolescalers", "fresh")
    assert (scale["spec"], scale["status"]) == ({"replicas": 7}, {"replicas": 3, "selector": "a=b"})
    assert crds.kubectl("get", SCALERS).split("\n")[0].split() == ["NAME", "DESIRED", "CURRENT", "AGE"]


def test_slices_are_scaled_and_every_field_of_the_status_is_kept(crds: ClusterAccess) -> None:
    crds.kubectl("create", "-f", "-", input=json.dumps(a_set()))
    status = {
        "status": {
            "slices": 2,
            "selector": "a=b",
            "currentRevision": "a-1",
            "updateRevision": "a-2",
            "collisionCount": 1,
            "roleStatuses": [{"name": "prefill", "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}],
            "sliceStatuses": [
                {
                    "index": 0,
                    "revisions": [
                        {"revision": "k", "roles": [{"name": "prefill", "replicas": 1, "readyReplicas": 1}]}
                    ],
                }
            ],
            "rollouts": {"0": {"revision": "k", "initialReplicas": {"a-0-j-prefill": 1}}},
            "pending": ["placementPolicy"],
        }
    }
    crds.kubectl("patch", SETS, "a", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    crds.kubectl("scale", SETS, "a", "--replicas=3")
    scale = scale_of(crds, "disaggregatedsets", "a")
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "a=b"})
    after = json.loads(crds.kubectl("get", SETS, "a", "-o", "json"))
    assert after["spec"]["slices"] == 3
    assert after["status"] == status["status"]
    columns = ["NAME", "AVAILABLE", "SLICES", "REVISION", "AGE"]
    assert crds.kubectl("get", SETS).split("\n")[0].split() == columns
