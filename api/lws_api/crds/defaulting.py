"""Prune and default an object of a custom kind as the API server stores it, by apiextensions.k8s.io/v1."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")


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
