"""What is the structural schema of a type of Kubernetes, as it may stand inside a CustomResourceDefinition?

In: the committed extract of the OpenAPI document. Out: schemas without references, which accept and default
the same objects as those that the original CRD carries; it was generated from the Go types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.openapi.extract import Schemas, target

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
    # The fields of embedded metadata that a template can mean; the API server prunes the others.
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

_DEFAULT_BY_CONSTANT = {
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", "cachingMode"),
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", "kind"),
}
"""Defaults that the Go types state by reference to a constant: the original CRD does not have them, so ours
must not either, or the same manifest would come to another revision.
"""

_CONTAIN_A_REFERENCE = frozenset(
    f"io.k8s.api.core.v1.{name}"
    for name in (
        "ConfigMapEnvSource",
        "ConfigMapProjection",
        "ConfigMapVolumeSource",
        "SecretEnvSource",
        "SecretProjection",
    )
)
"""Types that have the fields of a LocalObjectReference among their own. The Go types make a reference atomic,
and in the original CRD that holds for what contains its fields; the document forgets it there.
"""


def structural(name: str, schemas: Schemas) -> Schema:
    """The structural schema of the type `name`; raises KeyError if the extract lacks it."""
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
    # The document gives each required field its zero value as a default; a CRD with those would make it
    # optional.
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
