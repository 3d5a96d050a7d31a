"""lws_api.disaggregatedset.v1: what the CRDs accept, prune and default, and the typed views of objects."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from pydantic import ValidationError

from lws_api.crds import defaulted, definitions
from lws_api.disaggregatedset import v1
from lws_api.disaggregatedset.v1 import (
    API_VERSION,
    KIND,
    SCALER_KIND,
    DisaggregatedSet,
    DisaggregatedSetRoleScaler,
    PlacementType,
    ScalingMode,
)
from lws_api.leaderworkerset import v1 as leaderworkerset

POD: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
STORED_TEMPLATE = {"size": 1, "restartPolicy": "RecreateGroupOnPodRestart", "workerTemplate": POD}


def a_role(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "spec": {"leaderWorkerTemplate": {"workerTemplate": copy.deepcopy(POD)}}} | fields


def a_stored_role(name: str, **fields: Any) -> dict[str, Any]:
    spec = {
        "replicas": 1,
        "startupPolicy": "LeaderCreated",
        "groupIdentity": "Ordinal",
        "groupReplacementPolicy": "PostTermination",
        "leaderWorkerTemplate": STORED_TEMPLATE,
    }
    return {"name": name, "spec": spec} | fields


def a_set(*roles: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "generation": 3},
        "spec": {"roles": list(roles or (a_role("prefill"), a_role("decode"))), **spec},
    }


def a_scaler(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": SCALER_KIND, "metadata": {"name": "a-decode"}} | fields


@cache
def schema(kind: str = KIND) -> dict[str, Any]:
    openapi_schema: dict[str, Any] = version(kind)["schema"]["openAPIV3Schema"]
    return openapi_schema


def version(kind: str) -> dict[str, Any]:
    (crd_version,) = definitions()[kind]["spec"]["versions"]
    return dict(crd_version)


def nodes(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field below a node, except inside types that other APIs define."""
    yield (
        path,
        {key: value for key, value in node.items() if key not in ("description", "properties", "items")},
    )
    if path == ROLE_SPEC or path.endswith("conditions[]"):
        return
    for field, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{field}")
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")


ROLE_SPEC = "spec.roles[].spec"
RULE = (
    "self.roles.filter(r, !has(r.scaling) || r.scaling.mode != 'External')"
    ".all(r, !has(r.spec.replicas) || r.spec.replicas == 0) || "
    "self.roles.filter(r, !has(r.scaling) || r.scaling.mode != 'External')"
    ".all(r, has(r.spec.replicas) && r.spec.replicas > 0)"
)
MESSAGE = "replicas must be zero for all non-External roles or non-zero for all non-External roles"
COUNT = {"type": "integer", "format": "int32"}
TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def keyed(by: str) -> dict[str, Any]:
    return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [by]}


SPEC: dict[str, dict[str, Any]] = {
    "spec": {
        "type": "object",
        "required": ["roles"],
        "x-kubernetes-validations": [{"rule": RULE, "message": MESSAGE}],
    },
    "spec.roles": {**keyed("name"), "minItems": 1, "maxItems": 10},
    "spec.roles[]": {"type": "object", "required": ["name"]},
    "spec.roles[].name": {
        "type": "string",
        "minLength": 1,
        "maxLength": 63,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    },
    "spec.roles[].scaling": {"type": "object"},
    "spec.roles[].scaling.mode": {"type": "string", "enum": ["Static", "External"], "default": "Static"},
    "spec.roles[].metadata": {"type": "object"},
    "spec.roles[].metadata.annotations": TEXTS,
    "spec.roles[].metadata.finalizers": {"type": "array"},
    "spec.roles[].metadata.finalizers[]": TEXT,
    "spec.roles[].metadata.labels": TEXTS,
    "spec.roles[].metadata.name": TEXT,
    "spec.roles[].metadata.namespace": TEXT,
    ROLE_SPEC: {"type": "object", "required": ["leaderWorkerTemplate"]},
    "spec.slices": {**COUNT, "minimum": 1, "maximum": 100, "default": 1},
    "spec.placementPolicy": {"type": "object"},
    "spec.placementPolicy.type": {
        "type": "string",
        "enum": ["None", "ExclusiveSlice", "ExclusiveTopology"],
        "default": "None",
    },
    "spec.placementPolicy.topology": TEXT,
}
SPEC_BEYOND_THE_ORIGINAL: dict[str, dict[str, Any]] = {
    "spec.roles[].startAfter": {"type": "array"},
    "spec.roles[].startAfter[]": TEXT,
    "spec.roles[].subRoles": {"type": "array"},
    "spec.roles[].subRoles[]": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "spec.placementPolicy.strength": {"type": "string", "enum": ["Required", "Preferred"]},
    "spec.rolloutStrategy": {"type": "object"},
    "spec.rolloutStrategy.paused": {"type": "boolean"},
    "spec.rolloutStrategy.maxUpdatingSlices": {**COUNT, "minimum": 1},
    "spec.revisionHistoryLimit": {**COUNT, "minimum": 0},
    "spec.progressDeadlineSeconds": {**COUNT, "minimum": 1},
}
CONDITION = {"type": "object", "required": ["type", "status", "reason", "message", "lastTransitionTime"]}
STATUS: dict[str, dict[str, Any]] = {
    "status": {"type": "object"},
    "status.observedGeneration": {"type": "integer", "format": "int64"},
    "status.roleStatuses": keyed("name"),
    "status.roleStatuses[]": {"type": "object", "required": ["name"]},
    "status.roleStatuses[].name": TEXT,
    "status.roleStatuses[].replicas": COUNT,
    "status.roleStatuses[].readyReplicas": COUNT,
    "status.roleStatuses[].updatedReplicas": COUNT,
    "status.conditions": keyed("type"),
    "status.conditions[]": CONDITION,
}
STATUS_BEYOND_THE_ORIGINAL: dict[str, dict[str, Any]] = {
    "status.currentRevision": TEXT,
    "status.updateRevision": TEXT,
    "status.collisionCount": COUNT,
    "status.lastProgressTime": {"type": "string", "format": "date-time"},
    "status.slices": COUNT,
    "status.selector": TEXT,
    "status.sliceStatuses": keyed("index"),
    "status.sliceStatuses[]": {"type": "object", "required": ["index"]},
    "status.sliceStatuses[].index": COUNT,
    "status.sliceStatuses[].revisions": keyed("revision"),
    "status.sliceStatuses[].revisions[]": {"type": "object", "required": ["revision"]},
    "status.sliceStatuses[].revisions[].revision": TEXT,
    "status.sliceStatuses[].revisions[].roles": keyed("name"),
    "status.sliceStatuses[].revisions[].roles[]": {"type": "object", "required": ["name"]},
    "status.sliceStatuses[].revisions[].roles[].name": TEXT,
    "status.sliceStatuses[].revisions[].roles[].replicas": COUNT,
    "status.sliceStatuses[].revisions[].roles[].readyReplicas": COUNT,
    "status.pending": {"type": "array"},
    "status.pending[]": TEXT,
}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("spec", SPEC | SPEC_BEYOND_THE_ORIGINAL),
        ("status", STATUS | STATUS_BEYOND_THE_ORIGINAL),
    ],
)
def test_every_field_of_a_set(part: str, expected: dict[str, dict[str, Any]]) -> None:
    actual = dict(nodes(schema()["properties"][part], part))
    rollouts = actual.pop("status.rollouts", None)
    assert actual == expected
    if part == "status":
        assert rollouts is not None
        memory = rollouts["additionalProperties"]["properties"]
        assert memory["revision"]["type"] == "string"
        assert memory["initialReplicas"]["additionalProperties"] == COUNT


def test_every_field_of_a_scaler() -> None:
    root = schema(SCALER_KIND)
    assert "required" not in root
    assert dict(nodes(root["properties"]["spec"], "spec")) == {
        "spec": {"type": "object", "required": ["replicas"]},
        "spec.replicas": {**COUNT, "minimum": 0, "default": 0},
    }
    assert dict(nodes(root["properties"]["status"], "status")) == {
        "status": {"type": "object"},
        "status.conditions": keyed("type"),
        "status.conditions[]": CONDITION,
        "status.observedGeneration": {"type": "integer", "format": "int64"},
        "status.replicas": COUNT,
        "status.selector": TEXT,
    }


def test_the_spec_of_a_role_has_the_schema_of_a_leaderworkerset() -> None:
    """The exceptions are defaults that a webhook sets: DisaggregatedSets have no defaulting webhook."""
    of_sets = copy.deepcopy(schema(leaderworkerset.KIND)["properties"]["spec"])
    network = of_sets["properties"]["networkConfig"]
    network["required"] = ["subdomainPolicy"]
    policy = network["properties"]["subdomainPolicy"]
    policy["description"] = policy["description"].replace("the set.", "the role.").replace(" (default)", "")
    of_roles = schema()["properties"]["spec"]["properties"]["roles"]["items"]["properties"]["spec"]
    assert {**of_roles, "description": ""} == {**of_sets, "description": ""}


@pytest.mark.parametrize(
    ("kind", "names", "columns", "scale"),
    [
        (
            KIND,
            ("disaggregatedsets", "disaggregatedset", "DisaggregatedSetList", ["dset"]),
            [
                ("Available", "string", '.status.conditions[?(@.type=="Available")].status'),
                ("Slices", "integer", ".spec.slices"),
                ("Revision", "string", ".status.updateRevision"),
                ("Age", "date", ".metadata.creationTimestamp"),
            ],
            (".spec.slices", ".status.slices", ".status.selector"),
        ),
        (
            SCALER_KIND,
            (
                "disaggregatedsetrolescalers",
                "disaggregatedsetrolescaler",
                "DisaggregatedSetRoleScalerList",
                ["dsrs"],
            ),
            [
                ("Desired", "integer", ".spec.replicas"),
                ("Current", "integer", ".status.replicas"),
                ("Age", "date", ".metadata.creationTimestamp"),
            ],
            (".spec.replicas", ".status.replicas", ".status.selector"),
        ),
    ],
)
def test_printer_columns_and_subresources_of_the_kinds(
    kind: str, names: tuple[Any, ...], columns: list[tuple[str, str, str]], scale: tuple[str, str, str]
) -> None:
    spec = definitions()[kind]["spec"]
    assert definitions()[kind]["metadata"] == {"name": f"{names[0]}.disaggregatedset.x-k8s.io"}
    keys = ("plural", "singular", "listKind", "shortNames", "categories")
    assert tuple(spec["names"].get(key) for key in keys) == (*names, None)
    assert (spec["group"], spec["scope"]) == ("disaggregatedset.x-k8s.io", "Namespaced")
    crd_version = version(kind)
    assert (crd_version["name"], crd_version["served"], crd_version["storage"]) == ("v1", True, True)
    actual = [
        (column["name"], column["type"], column["jsonPath"])
        for column in crd_version["additionalPrinterColumns"]
    ]
    assert actual == columns
    paths = dict(zip(("specReplicasPath", "statusReplicasPath", "labelSelectorPath"), scale, strict=True))
    assert crd_version["subresources"] == {"status": {}, "scale": paths}


STORED = {
    "a minimal set": (a_set(), a_set(a_stored_role("prefill"), a_stored_role("decode"), slices=1)),
    "absent objects stay absent, existing ones get defaults": (
        a_set(
            a_role(
                "prefill", scaling={}, metadata={"labels": {"a": "b"}, "uid": "gone", "ownerReferences": []}
            ),
            a_role("decode", scaling={"mode": "External"}, startAfter=["prefill"], surprise=1),
            slices=None,
            placementPolicy={},
            rolloutStrategy={"type": "unheard of"},
        ),
        a_set(
            a_stored_role("prefill", scaling={"mode": "Static"}, metadata={"labels": {"a": "b"}}),
            a_stored_role("decode", scaling={"mode": "External"}, startAfter=["prefill"]),
            slices=1,
            placementPolicy={"type": "None"},
            rolloutStrategy={},
        ),
    ),
    "fields unknown to upstream are kept and get no defaults": (
        a_set(
            a_stored_role("prefill"),
            a_stored_role("decode"),
            slices=3,
            placementPolicy={"type": "ExclusiveSlice", "topology": "zone", "strength": "Preferred"},
            rolloutStrategy={"paused": True, "maxUpdatingSlices": 1},
            revisionHistoryLimit=0,
            progressDeadlineSeconds=60,
        ),
    )
    * 2,
    "an External role without a spec": (
        a_set(a_role("prefill"), {"name": "decode", "scaling": {"mode": "External"}}),
        a_set(a_stored_role("prefill"), {"name": "decode", "scaling": {"mode": "External"}}, slices=1),
    ),
    "a scaler that asks for nothing": (a_scaler(spec={}), a_scaler(spec={"replicas": 0})),
    "a scaler with a null": (a_scaler(spec={"replicas": None}), a_scaler(spec={"replicas": 0})),
    "a scaler without a spec": (a_scaler(), a_scaler()),
}


@pytest.mark.parametrize(("raw", "expected"), STORED.values(), ids=STORED.keys())
def test_defaulting_returns_the_stored_object(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy(raw)
    assert defaulted(raw) == expected
    assert defaulted(expected) == expected
    assert raw == before


def test_pod_templates_are_defaulted_as_in_a_leaderworkerset() -> None:
    """The hash of a template is computed from its bytes."""
    pod: dict[str, Any] = {
        "metadata": {"labels": {"a": "b"}, "creationTimestamp": None, "generateName": "gone"},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "ports": [{"containerPort": 1}],
                    "livenessProbe": {"grpc": {"port": 1}},
                    "env": [{"name": "e", "valueFrom": {"secretKeyRef": {"key": "k"}}}],
                }
            ],
            "imagePullSecrets": [{}],
            "volumes": [{"name": "r", "rbd": {"image": "i", "monitors": ["m"]}}],
        },
    }
    template = {"workerTemplate": pod, "leaderTemplate": pod, "volumeClaimTemplates": [{"status": {}}]}
    in_a_set = defaulted(
        {
            "apiVersion": leaderworkerset.API_VERSION,
            "kind": leaderworkerset.KIND,
            "spec": {"leaderWorkerTemplate": template},
        }
    )
    in_a_role = defaulted(a_set(a_role("prefill", spec={"leaderWorkerTemplate": template}), a_role("decode")))
    assert in_a_role["spec"]["roles"][0]["spec"] == in_a_set["spec"]
    (container,) = in_a_set["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 1, "protocol": "TCP"}]


def test_a_minimal_set_is_readable() -> None:
    view = DisaggregatedSet.model_validate(a_set())
    assert [role.name for role in view.spec.roles] == ["prefill", "decode"]
    assert view.spec.slices == 1
    assert (view.spec.placement_policy, view.spec.rollout_strategy) == (None, None)
    assert (view.spec.revision_history_limit, view.spec.progress_deadline_seconds) == (None, None)
    assert view.spec.roles[0].scaling is None
    assert view.spec.roles[0].start_after == ()
    assert view.status.conditions == ()
    assert view.status.slice_statuses == ()
    scaler = DisaggregatedSetRoleScaler.model_validate(a_scaler(spec={}))
    assert scaler.spec is not None and scaler.spec.replicas == 0


def test_all_stored_fields_are_read_and_kept() -> None:
    condition = {
        "type": "Available",
        "status": "True",
        "reason": "AllRolesReady",
        "message": "",
        "lastTransitionTime": "2024-05-01T10:00:00Z",
    }
    raw = a_set(
        a_stored_role("prefill", scaling={"mode": "External"}, metadata={"labels": {"a": "b"}}),
        a_stored_role("decode", startAfter=["prefill"]),
        slices=2,
        placementPolicy={"type": "ExclusiveTopology", "topology": "zone", "strength": "Preferred"},
        rolloutStrategy={"paused": False, "maxUpdatingSlices": 1},
        laterRelease=1,
    )
    raw["status"] = {
        "observedGeneration": 3,
        "roleStatuses": [{"name": "prefill", "replicas": 2, "readyReplicas": 1, "updatedReplicas": 1}],
        "conditions": [condition],
        "currentRevision": "a-11111111-1",
        "updateRevision": "a-22222222-2",
        "collisionCount": 1,
        "lastProgressTime": "2024-05-01T10:00:00Z",
        "slices": 2,
        "selector": "a=b",
        "sliceStatuses": [
            {
                "index": 1,
                "revisions": [
                    {
                        "revision": "22222222",
                        "roles": [{"name": "prefill", "replicas": 1, "readyReplicas": 1}],
                    }
                ],
            }
        ],
        "rollouts": {"1": {"revision": "22222222", "initialReplicas": {"a-1-11111111-prefill": 2}}},
        "pending": ["prefill: networkConfig"],
    }
    view = DisaggregatedSet.model_validate(raw)
    assert view.spec.roles[0].scaling is not None
    assert view.spec.roles[0].scaling.mode is ScalingMode.EXTERNAL
    assert view.spec.placement_policy is not None
    assert view.spec.placement_policy.type is PlacementType.EXCLUSIVE_TOPOLOGY
    assert view.model_dump(mode="json", exclude_unset=True) == raw
    without_spec = {key: value for key, value in raw.items() if key != "spec"}
    assert {key: value for key, value in defaulted(raw).items() if key != "spec"} == without_spec


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        pytest.param({"metadata": {"name": "a"}}, "spec", id="no spec"),
        pytest.param({"spec": {}}, "roles", id="no roles"),
        pytest.param({"spec": {"roles": [{}]}}, "name", id="no name"),
    ],
)
def test_an_invalid_set_is_rejected_with_the_path_of_the_field(raw: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as error:
        DisaggregatedSet.model_validate(raw)
    assert error.value.errors()[0]["loc"][-1] == field


def test_labels_and_annotations_match_upstreams_names() -> None:
    ours = {name: value for name, value in vars(v1).items() if name.endswith(("_LABEL", "_ANNOTATION"))}
    assert ours == {
        "NAME_LABEL": "disaggregatedset.x-k8s.io/name",
        "ROLE_LABEL": "disaggregatedset.x-k8s.io/role",
        "SLICE_LABEL": "disaggregatedset.x-k8s.io/slice",
        "REVISION_LABEL": "disaggregatedset.x-k8s.io/revision",
        "APP_LABEL": "app",
        "INITIAL_REPLICAS_ANNOTATION": "disaggregatedset.x-k8s.io/initial-replicas",
        "OTHERS_INITIAL_REPLICAS_ANNOTATION": "disaggregatedset.x-k8s.io/initial-replicas-of-others",
        "ADDED_METADATA_ANNOTATION": "disaggregatedset.x-k8s.io/added-metadata",
    }
