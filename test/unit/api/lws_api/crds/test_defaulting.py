"""lws_api.crds.stored: pruning and defaulting by the rules of apiextensions.k8s.io/v1."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws_api.crds import stored

TEXT = {"type": "string"}
WITH_DEFAULT = {"type": "string", "default": "d"}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "unknown fields are pruned": (an_object(a=TEXT), {"a": "1", "b": "2"}, {"a": "1"}),
    "unknown fields of nested objects too": (an_object(o=an_object(a=TEXT)), {"o": {"b": 1}}, {"o": {}}),
    "objects without a schema are emptied": (an_object(o={"type": "object"}), {"o": {"b": 1}}, {"o": {}}),
    "objects that preserve unknown fields are not changed": (
        an_object(o={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        {"o": {"b": {"c": [1]}}},
        {"o": {"b": {"c": [1]}}},
    ),
    "maps keep every key": (
        an_object(m={"type": "object", "additionalProperties": TEXT}),
        {"m": {"x": "1", "y": "2"}},
        {"m": {"x": "1", "y": "2"}},
    ),
    "an absent field gets its default": (an_object(a=WITH_DEFAULT), {}, {"a": "d"}),
    "a null gets the default": (an_object(a=WITH_DEFAULT), {"a": None}, {"a": "d"}),
    "a null without default is removed": (an_object(a=TEXT), {"a": None}, {}),
    "an empty value is a value": (an_object(a=WITH_DEFAULT), {"a": ""}, {"a": ""}),
    "defaults of absent objects stay out": (an_object(o=an_object(a=WITH_DEFAULT)), {}, {}),
    "empty objects get their defaults": (
        an_object(o=an_object(a=WITH_DEFAULT)),
        {"o": {}},
        {"o": {"a": "d"}},
    ),
    "defaults are defaulted too": (
        an_object(o=an_object(a=WITH_DEFAULT) | {"default": {}}),
        {},
        {"o": {"a": "d"}},
    ),
    "defaults in list items": (
        an_object(l={"type": "array", "items": an_object(a=WITH_DEFAULT)}),
        {"l": [{}, {"a": "x", "b": 1}]},
        {"l": [{"a": "d"}, {"a": "x"}]},
    ),
    "nulls in lists stay": (
        an_object(l={"type": "array", "items": TEXT}),
        {"l": ["x", None]},
        {"l": ["x", None]},
    ),
    "nulls in maps go": (
        an_object(m={"type": "object", "additionalProperties": TEXT}),
        {"m": {"x": None, "y": "1"}},
        {"m": {"y": "1"}},
    ),
    "type and metadata are not defaulted": (
        an_object(apiVersion=TEXT, kind=TEXT, metadata={"type": "object"}),
        {"apiVersion": "v", "kind": "k", "metadata": {"name": "n", "labels": {"a": "b"}}},
        {"apiVersion": "v", "kind": "k", "metadata": {"name": "n", "labels": {"a": "b"}}},
    ),
    "a value of the wrong type is left to validation": (an_object(o=an_object(a=TEXT)), {"o": 1}, {"o": 1}),
}


@pytest.mark.parametrize(("schema", "raw", "expected"), CASES.values(), ids=CASES.keys())
def test_stored(schema: dict[str, Any], raw: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy((schema, raw))
    assert stored(raw, schema) == expected
    assert (schema, raw) == before


def test_defaults_are_copies() -> None:
    schema = an_object(o=an_object() | {"default": {}}, l={"type": "array", "items": {}, "default": []})
    first = stored({}, schema)
    first["l"].append(1)
    assert stored({}, schema) == {"o": {}, "l": []}


def test_metadata_is_a_copy() -> None:
    raw: dict[str, Any] = {"metadata": {"labels": {}}}
    stored(raw, an_object())["metadata"]["labels"]["a"] = "b"
    assert raw == {"metadata": {"labels": {}}}
