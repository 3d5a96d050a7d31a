"""The CustomResourceDefinitions of this API, and pruning and defaulting of objects by their schemas.

The YAML files in this directory are generated.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")
# The loader written in C, where PyYAML has it, reads these thousands of lines in 50 ms instead of a second.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def definitions() -> Mapping[str, Mapping[str, Any]]:
    """Kind → its CustomResourceDefinition (apiextensions.k8s.io/v1). Shared by all callers: not to be
    changed.
    """
    by_kind = {}
    for entry in resources.files(__name__).iterdir():
        if entry.name.endswith(".yaml"):
            definition = yaml.load(entry.read_text(encoding="utf-8"), Loader=_LOADER)
            by_kind[definition["spec"]["names"]["kind"]] = definition
    return by_kind


def defaulted(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `raw` as the API server would store it: unknown fields and nulls gone, the defaults of the
    schema in.

    Raises ValueError if it is of no kind that this API serves. It is not validated, and no webhook is played.
    """
    kind, version = str(raw.get("kind", "")), str(raw.get("apiVersion", ""))
    spec: Mapping[str, Any] = definitions().get(kind, {}).get("spec", {})
    for served in spec.get("versions", ()):
        if version == f"{spec['group']}/{served['name']}":
            return stored(raw, served["schema"]["openAPIV3Schema"])
    raise ValueError(f"{version or 'no apiVersion'}, kind {kind or 'missing'}: this API serves {_served()}")


def _served() -> str:
    return ", ".join(
        f"{kind} of {definition['spec']['group']}/{version['name']}"
        for kind, definition in sorted(definitions().items())
        for version in definition["spec"]["versions"]
    )


def stored(raw: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """A whole object as it is stored; its own metadata is left as it is."""
    properties = schema.get("properties", {})
    # What is no schema's business passes, as it does for the API server: type and metadata of the object
    # itself.
    own = {key: copy.deepcopy(value) for key, value in raw.items() if key in _OBJECT_FIELDS}
    remaining = {key: value for key, value in raw.items() if key not in _OBJECT_FIELDS}
    return own | _object(
        remaining, {"properties": {k: v for k, v in properties.items() if k not in _OBJECT_FIELDS}}
    )


def _value(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return _object(value, schema)
    if isinstance(value, list):
        item = schema.get("items", {})
        return [_value(_default_for_null(element, item), item) for element in value]
    return value


def _object(value: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    additional: Mapping[str, Any] | None = schema.get("additionalProperties")
    if schema.get("x-kubernetes-preserve-unknown-fields") and not properties:
        return copy.deepcopy(dict(value))
    result: dict[str, Any] = {}
    for key, element in value.items():
        field = properties.get(key, additional)
        if field is None:
            continue  # Pruned: the schema does not know it.
        if element is None and "default" not in field:
            continue  # A null where the schema allows none is as good as absent.
        result[key] = _value(_default_for_null(element, field), field)
    for key, field in properties.items():
        if key not in result and "default" in field:
            result[key] = _value(copy.deepcopy(field["default"]), field)
    return result


def _default_for_null(value: Any, schema: Mapping[str, Any]) -> Any:
    return copy.deepcopy(schema.get("default")) if value is None else value
