"""tools.crdgen: the CRDs match the models, and the committed files match the CRDs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from lws_api.crds import definitions
from lws_api.leaderworkerset.v1 import KIND
from lws_api.meta import KubeModel, PodTemplate, ResourceKind
from tools import crdgen
from tools.conformance.__main__ import read_table


@cache
def schema(kind: str = KIND) -> dict[str, Any]:
    versions = definitions()[kind]["spec"]["versions"]
    root: dict[str, Any] = versions[0]["schema"]["openAPIV3Schema"]
    return root


def at(path: str) -> dict[str, Any]:
    node = schema()
    for field in path.split("."):
        node = node["properties"][field.removesuffix("[]")]
        if field.endswith("[]"):
            node = node["items"]
    return node


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for field, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{field}")
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from nodes(node["additionalProperties"], f"{path}{{}}")


def test_the_committed_files_match_the_models() -> None:
    assert crdgen.main(["--check"]) == 0, "run `make generate-api`"


def test_parts_of_a_crd_besides_the_schema() -> None:
    crd = definitions()[KIND]
    assert crd["metadata"] == {"name": "leaderworkersets.leaderworkerset.x-k8s.io"}
    spec = crd["spec"]
    assert spec["scope"] == "Namespaced"
    assert spec["names"] == {
        "kind": "LeaderWorkerSet",
        "listKind": "LeaderWorkerSetList",
        "plural": "leaderworkersets",
        "singular": "leaderworkerset",
        "shortNames": ["lws"],
    }
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1", True, True)
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.hpaPodSelector",
        },
    }
    assert [(c["name"], c["type"], c["jsonPath"]) for c in version["additionalPrinterColumns"]] == [
        ("Ready", "integer", ".status.readyReplicas"),
        ("Desired", "integer", ".spec.replicas"),
        ("Up-to-date", "integer", ".status.updatedReplicas"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ]
    assert all(column["description"] for column in version["additionalPrinterColumns"])


@pytest.mark.parametrize("kind", crdgen.KINDS, ids=lambda kind: str(kind.kind))
def test_the_copy_in_the_chart_differs_only_in_conditional_parts(kind: ResourceKind) -> None:
    shipped, chart = (
        (crdgen.ROOT / directory / f"{kind.plural}.yaml").read_text(encoding="utf-8")
        for directory in (crdgen.PACKAGE, crdgen.CHART)
    )
    block = (
        "  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n"
        "  {{- with .Values.commonLabels }}\n  labels:\n    {{- toYaml . | nindent 4 }}\n  {{- end }}\n"
    )
    assert chart.count(block) == 1
    is_optional = kind in crdgen.OPTIONAL
    optional = " (or .Values.enableDisaggregatedSet (not .Values.crds.keep))" if is_optional else ""
    start = f"{{{{- if {'and ' if optional else ''}.Values.crds.enabled{optional} }}}}\n"
    header, condition, body = chart.replace(block, "").partition(start)
    assert condition and body.endswith("{{- end }}\n")
    assert header + body.removesuffix("{{- end }}\n") == shipped


def test_the_crds_fit_into_the_last_applied_annotation() -> None:
    for definition in definitions().values():
        assert len(json.dumps(definition, separators=(",", ":"))) < 200_000


OWN = "spec.leaderWorkerTemplate"
ROLLING = "spec.rolloutStrategy.rollingUpdateConfiguration"
INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}

CONSTRAINTS: dict[str, dict[str, Any]] = {
    "spec": {"type": "object", "required": ["leaderWorkerTemplate"]},
    "spec.replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 1_000_000, "default": 1},
    "spec.startupPolicy": {
        "type": "string",
        "enum": ["LeaderCreated", "LeaderReady"],
        "default": "LeaderCreated",
    },
    "spec.networkConfig": {"type": "object"},
    "spec.networkConfig.subdomainPolicy": {"type": "string", "enum": ["Shared", "UniquePerReplica"]},
    "spec.rolloutStrategy": {"type": "object"},
    "spec.rolloutStrategy.type": {"type": "string", "enum": ["RollingUpdate"], "default": "RollingUpdate"},
    "spec.podTerminationPolicy": {"type": "string", "enum": ["Default", "Parallel"]},
    "spec.groupIdentity": {"type": "string", "enum": ["Ordinal", "Hash"], "default": "Ordinal"},
    "spec.groupReplacementPolicy": {
        "type": "string",
        "enum": ["Immediate", "PostTermination"],
        "default": "PostTermination",
    },
    ROLLING: {"type": "object"},
    f"{ROLLING}.partition": {"type": "integer", "format": "int32", "default": 0},
    f"{ROLLING}.maxUnavailable": {**INT_OR_STRING, "default": 1},
    f"{ROLLING}.maxSurge": {**INT_OR_STRING, "default": 0},
    OWN: {"type": "object", "required": ["workerTemplate"]},
    f"{OWN}.size": {"type": "integer", "format": "int32", "default": 1},
    f"{OWN}.restartPolicy": {
        "type": "string",
        "enum": ["Default", "None", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart"],
        "default": "RecreateGroupOnPodRestart",
    },
    f"{OWN}.maxGroupRestarts": {"type": "integer", "format": "int32", "minimum": 0},
    f"{OWN}.restartBackoff": {"type": "object"},
    f"{OWN}.restartBackoff.baseSeconds": {"type": "integer", "format": "int32", "minimum": 1},
    f"{OWN}.restartBackoff.capSeconds": {"type": "integer", "format": "int32", "minimum": 1},
    f"{OWN}.restartBackoff.base": {"type": "string"},
    f"{OWN}.restartBackoff.cap": {"type": "string"},
    f"{OWN}.subGroupPolicy": {"type": "object"},
    f"{OWN}.subGroupPolicy.subGroupPolicyType": {
        "type": "string",
        "enum": ["LeaderWorker", "LeaderExcluded"],
        "default": "LeaderWorker",
    },
    f"{OWN}.subGroupPolicy.subGroupSize": {"type": "integer", "format": "int32"},
    f"{OWN}.volumeClaimTemplates": {"type": "array"},
    f"{OWN}.persistentVolumeClaimRetentionPolicy": {"type": "object"},
    f"{OWN}.persistentVolumeClaimRetentionPolicy.whenDeleted": {"type": "string"},
    f"{OWN}.persistentVolumeClaimRetentionPolicy.whenScaled": {"type": "string"},
    "status": {"type": "object"},
    "status.conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    },
    "status.conditions[]": {
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    },
    "status.conditions[].status": {"type": "string", "enum": ["True", "False", "Unknown"]},
    "status.conditions[].lastTransitionTime": {"type": "string", "format": "date-time"},
    "status.conditions[].message": {"type": "string", "maxLength": 32768},
    "status.conditions[].observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    "status.replicas": {"type": "integer", "format": "int32"},
    "status.readyReplicas": {"type": "integer", "format": "int32"},
    "status.updatedReplicas": {"type": "integer", "format": "int32"},
    "status.hpaPodSelector": {"type": "string"},
    "status.observedGeneration": {"type": "integer", "format": "int64"},
}
SCHEDULING_LEVELS = (
    "spec.scheduling",
    "spec.scheduling.replica",
    "spec.scheduling.replica.leader",
    "spec.scheduling.replica.worker",
)
for level in SCHEDULING_LEVELS:
    objects = ("", ".schedulingPolicy", ".schedulingPolicy.basic", ".schedulingPolicy.gang")
    objects += (".schedulingConstraints", ".disruptionMode", ".disruptionMode.single", ".disruptionMode.all")
    CONSTRAINTS |= {f"{level}{suffix}": {"type": "object"} for suffix in objects}
    topology = f"{level}.schedulingConstraints.topology"
    CONSTRAINTS |= {
        f"{level}.schedulingPolicy.gang.minCount": {"type": "integer", "format": "int32", "minimum": 1},
        f"{level}.schedulingPolicy.gang.minGroupCount": {"type": "integer", "format": "int32"},
        topology: {"type": "array", "maxItems": 1},
        f"{topology}[]": {"type": "object", "required": ["key"]},
        f"{topology}[].key": {"type": "string"},
    }
for level in SCHEDULING_LEVELS[2:]:
    claims = f"{level}.resourceClaims"
    CONSTRAINTS |= {
        claims: {
            "type": "array",
            "maxItems": 4,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        f"{claims}[]": {"type": "object", "required": ["name"]},
        **{
            f"{claims}[].{name}": {"type": "string"}
            for name in ("name", "resourceClaimName", "resourceClaimTemplateName")
        },
    }


def test_constraints_of_upstream_fields() -> None:
    apart = ("description", "properties", "items")
    actual = {
        path: {key: value for key, value in at(path).items() if key not in apart} for path in CONSTRAINTS
    }
    assert actual == CONSTRAINTS


def test_every_other_field_is_listed_as_added() -> None:
    added = {row.name for row in read_table()["fields"] if row.is_added}
    listed = set(CONSTRAINTS) | {f"{OWN}.leaderTemplate", f"{OWN}.workerTemplate"}
    listed |= {f"status.conditions[].{field}" for field in ("type", "reason")} | {
        "apiVersion",
        "kind",
        "metadata",
    }
    others = {
        path.strip(".").replace("[]", "")
        for path, _ in nodes(schema())
        if "Template." not in path.replace(OWN, "") and "Templates[]" not in path and not path.endswith("{}")
    }
    others -= {path.replace("[]", "") for path in listed} | {""}
    assert others == {path for name in added for path in parents_of(name)} - listed


def parents_of(name: str) -> set[str]:
    """Return the path of a field and of every object that contains it."""
    parts = name.split(".")
    return {".".join(parts[:depth]) for depth in range(1, len(parts) + 1)}


EVERY_KIND = pytest.mark.parametrize("kind", sorted(definitions()))


@EVERY_KIND
def test_every_field_of_the_api_has_a_description(kind: str) -> None:
    silent = {
        path
        for path, node in nodes(schema(kind))
        if not node.get("description")
        and "Template." not in path.replace("leaderWorkerTemplate", "")
        and "Templates[]" not in path
        and not path.startswith(".spec.roles[].metadata.")
        # The values of a map are described with the map, and names and other scalars with their list.
        and not path.endswith("{}")
        and (not path.endswith("[]") or "properties" in node)
    }
    # The API server forbids a description of metadata.
    assert silent == {".metadata"}


def test_fields_inside_pod_templates_have_no_description() -> None:
    for template in ("leaderTemplate", "workerTemplate"):
        inside = [path for path, node in nodes(at(f"{OWN}.{template}")) if path and "description" in node]
        assert inside == []


@EVERY_KIND
def test_the_schema_is_structural(kind: str) -> None:
    forbidden = {"$ref", "title", "allOf", "oneOf", "not", "nullable"}
    for path, node in nodes(schema(kind)):
        assert not forbidden & node.keys(), path
        assert ("anyOf" in node) == ("x-kubernetes-int-or-string" in node), path
        assert "type" in node or "x-kubernetes-int-or-string" in node, path
        is_opaque = path.endswith(".subRoles[]")
        assert ("x-kubernetes-preserve-unknown-fields" in node) == is_opaque, path
        assert not ("properties" in node and "additionalProperties" in node), path


@EVERY_KIND
def test_list_map_keys_are_required_or_have_a_default(kind: str) -> None:
    keyed = {path: node for path, node in nodes(schema(kind)) if node.get("x-kubernetes-list-type") == "map"}
    assert ".status.conditions" in keyed
    for path, node in keyed.items():
        item = node["items"]
        for key in node["x-kubernetes-list-map-keys"]:
            assert key in item.get("required", ()) or "default" in item["properties"][key], f"{path}: {key}"


def made_of(model: type[KubeModel]) -> ResourceKind:
    return ResourceKind("example.com", "v1", "Thing", "things", "thing", model)


class Nested(KubeModel):
    """What a nested object is."""

    texts: tuple[str, ...] = Field(default_factory=tuple)
    by_name: dict[str, int] = Field(default_factory=dict)


class Thing(KubeModel):
    """A thing."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    described: Nested | None = None
    """What this
    field is."""
    plain: Nested = Field(default_factory=Nested)
    template: PodTemplate | None = None
    """What the template is."""


def test_models_become_structural_schemas() -> None:
    schema = crdgen.schema_of(made_of(Thing))
    nested = {
        "type": "object",
        "properties": {
            "texts": {"type": "array", "items": {"type": "string"}},
            "byName": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
    template = schema["properties"].pop("template")
    assert schema == {
        "type": "object",
        "description": "A thing.",
        "properties": {
            "metadata": {"type": "object"},
            "described": {**nested, "description": "What this field is."},
            "plain": {**nested, "description": "What a nested object is."},
        },
    }
    assert template["description"] == "What the template is."
    assert set(template["properties"]) == {"metadata", "spec"}


def test_unsupported_constraints_are_an_error() -> None:
    class Odd(KubeModel):
        either: Annotated[int, Field(multiple_of=5)] = 5

    with pytest.raises(ValueError, match=r"Thing\.either: a structural schema has no multipleOf"):
        crdgen.schema_of(made_of(Odd))


def test_a_text_that_helm_would_expand_is_an_error() -> None:
    with pytest.raises(ValueError, match="Helm would take for a template"):
        crdgen.rendered({"description": "{{ .Values }}"})


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = crdgen.PACKAGE / "leaderworkersets.yaml"
    chart = crdgen.CHART / "leaderworkersets.yaml"
    written = [
        directory / f"{kind.plural}.yaml"
        for kind in crdgen.KINDS
        for directory in (crdgen.PACKAGE, crdgen.CHART)
    ]
    assert crdgen.main(["--check"], tmp_path) == 1
    complaint = capsys.readouterr().err
    assert f"{package} differs from the models in api/lws_api: run `python -m tools.crdgen`" in complaint
    assert not (tmp_path / package).exists()

    assert crdgen.main([], tmp_path) == 0
    assert capsys.readouterr().out == "".join(f"wrote {path}\n" for path in written)
    assert crdgen.main(["--check"], tmp_path) == 0
    assert capsys.readouterr() == ("", "")

    (tmp_path / chart).write_text("edited: by hand\n", encoding="utf-8")
    assert crdgen.main(["--check"], tmp_path) == 1
    assert str(chart) in capsys.readouterr().err
