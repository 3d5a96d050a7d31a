"""Extract the types that our CRDs embed from the OpenAPI document of Kubernetes, and build structural
schemas.

The extract is committed: one type per line, without descriptions and enums. To refresh it from a running API
server of the pinned version:

    kubectl get --raw /openapi/v3/apis/apps/v1 | python -m tools.openapi.extract
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KUBERNETES = "1.37.2"
"""The release from which the extract was taken."""

PATH = Path(__file__).with_name(f"kubernetes-{KUBERNETES}.json")

EMBEDDED = ("io.k8s.api.core.v1.PodTemplateSpec", "io.k8s.api.core.v1.PersistentVolumeClaim")

_LEFT_OUT = frozenset({"description", "enum"})
"""Keywords that are left out. Enums in a CRD would reject values that only a later API server knows."""

Schemas = dict[str, dict[str, Any]]
"""Type name → its OpenAPI schema."""
Schema = dict[str, Any]
_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
_INT_OR_STRING: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_STRING: Schema = {"type": "string"}
_SPECIAL: Mapping[str, Schema] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {**_INT_OR_STRING, "pattern": _QUANTITY},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
    # The fields of embedded metadata that have a meaning in a template. The API server prunes all others.
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
        "type": "object",
        "properties": {
            "annotations": {"type": "object", "additionalProperties": _STRING},
            "finalizers": {"type": "array", "items": _STRING},
            "labels": {"type": "object", "additionalProperties": _STRING},
            "name": _STRING,
            "namespace": _STRING,
        },
    },
}
_KEPT = (
    "format",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
)
_ENDS = ("EnvSource", "Projection")
_DEFAULT_BY_CONSTANT = {
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", "cachingMode"),
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", "kind"),
}
"""Defaults that the Go types state by reference to a constant. The original CRD does not have them, so ours
must not have them either, or the same manifest would result in another revision.
"""
_CONTAIN_A_REFERENCE = frozenset(
    f"io.k8s.api.core.v1.{name}"
    for name in ("ConfigMapVolumeSource", *(f"{of}{end}" for of in ("ConfigMap", "Secret") for end in _ENDS))
)
"""Types that inline the fields of a LocalObjectReference. The Go types make a reference atomic, and the
original CRD applies that to types that inline its fields. The document omits it there.
"""


def read(path: Path = PATH) -> Schemas:
    """Read the committed extract."""
    schemas: Schemas = json.loads(path.read_text(encoding="utf-8"))
    return schemas


def extract(document: Mapping[str, Any]) -> Schemas:
    """Return the embedded types and all that they refer to. Raises KeyError if the document lacks one."""
    schemas = document["components"]["schemas"]
    extracted: Schemas = {}
    missing = list(EMBEDDED)
    while missing:
        name = missing.pop()
        if name not in extracted:
            extracted[name] = _shortened(schemas[name])
            missing.extend(_references(extracted[name]))
    return extracted


def rendered(schemas: Schemas) -> str:
    """Return the text of the extract: sorted, with one type per line, so that differences are readable."""
    lines = (
        f"{json.dumps(name)}:{json.dumps(schema, sort_keys=True, separators=(',', ':'))}"
        for name, schema in sorted(schemas.items())
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def target(reference: str) -> str:
    """Return the type name to which a `$ref` refers."""
    return reference.rpartition("/")[2]


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "$ref":
                yield target(value)
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _shortened(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_shortened(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        # The keys under `properties` are names of fields, one of which may be called "description".
        key: {field: _shortened(value) for field, value in node.items()}
        if key == "properties"
        else _shortened(node)
        for key, node in schema.items()
        if key not in _LEFT_OUT
    }


def main() -> None:
    """Write the extract of the document that is read from standard input."""
    PATH.write_text(rendered(extract(json.load(sys.stdin))), encoding="utf-8")
    print(f"wrote {PATH.name}; now run `python -m tools.crdgen`")


def structural(name: str, schemas: Schemas) -> Schema:
    """Return the structural schema of the type `name`. Raises KeyError if the extract lacks it."""
    if name in _SPECIAL:
        return dict(_SPECIAL[name])
    source = schemas[name]
    schema = _kept(source)
    if name in _CONTAIN_A_REFERENCE:
        schema["x-kubernetes-map-type"] = "atomic"
    properties = source.get("properties", {})
    required = set(source.get("required", ()))
    if properties:
        schema["properties"] = {
            field: _property(value, schemas, keeps_default=_is_stated(name, field, required))
            for field, value in properties.items()
        }
    return schema


def _is_stated(name: str, field: str, required: set[str]) -> bool:
    # The document gives each required field its zero value as a default. A CRD with these defaults would make
    # the fields optional.
    return field not in required and (name, field) not in _DEFAULT_BY_CONSTANT


def _property(source: Mapping[str, Any], schemas: Schemas, keeps_default: bool) -> Schema:
    schema = _node(source, schemas)
    # `default: {}` is the zero value of a nested struct, which JSON does not need.
    if keeps_default and source.get("default", {}) != {}:
        schema["default"] = source["default"]
    return schema


def _node(source: Mapping[str, Any], schemas: Schemas) -> Schema:
    reference = source.get("$ref") or next((part["$ref"] for part in source.get("allOf", ())), None)
    if reference is not None:
        return structural(target(reference), schemas)
    schema = _kept(source)
    for key in ("items", "additionalProperties"):
        if key in source:
            schema[key] = _node(source[key], schemas)
    return schema


def _kept(source: Mapping[str, Any]) -> Schema:
    return {key: source[key] for key in _KEPT if key in source}


if __name__ == "__main__":
    main()
