"""Validate a JSON value against a structural schema as the API server does, without CEL rules.

Only the keywords that this project's CRDs use are supported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "object": (dict,),
    "string": (str,),
}
_BOUNDS = {"int32": 2**31, "int64": 2**63}


def is_valid(value: Any, schema: Schema) -> bool:
    """Report whether a pruned and defaulted value matches its schema."""
    if schema.get("x-kubernetes-int-or-string"):
        is_amount = isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
        return is_amount and _matches(str(value), schema)
    if not isinstance(value, _TYPES[schema["type"]]) or (
        isinstance(value, bool) and schema["type"] != "boolean"
    ):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str):
        return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9) and _matches(
            value, schema
        )
    if isinstance(value, list):
        return _is_valid_list(value, schema)
    if isinstance(value, dict):
        return _is_valid_object(value, schema)
    bound = _BOUNDS.get(schema.get("format", ""), 2**63)
    return -bound <= value < bound and schema.get("minimum", value) <= value <= schema.get("maximum", value)


def _matches(text: str, schema: Schema) -> bool:
    return re.search(schema.get("pattern", ""), text) is not None


def _is_valid_list(value: list[Any], schema: Schema) -> bool:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**9):
        return False
    if not all(is_valid(item, schema["items"]) for item in value):
        return False
    keys = schema.get("x-kubernetes-list-map-keys", ())
    names = [tuple(item.get(key) for key in keys) for item in value] if keys else []
    return len(set(names)) == len(names)


def _is_valid_object(value: dict[str, Any], schema: Schema) -> bool:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    others = schema.get("additionalProperties")
    if not set(schema.get("required", ())) <= value.keys():
        return False
    return all(
        is_valid(item, properties.get(key, others))
        for key, item in value.items()
        if key in properties or others
    )
