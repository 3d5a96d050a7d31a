"""Tests of lws.leaderworkerset.fields: paths and defaults, compared with the definition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lws.leaderworkerset import fields
from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.fields import Field, value_at
from lws_api.crds import definitions
from lws_api.leaderworkerset.v1 import KIND

FIELDS: dict[str, Field] = {
    name: field for name, field in vars(fields).items() if isinstance(field, Field) and field != fields.SPEC
}
DEFAULTS = {field: field.stored_default for field in FIELDS.values() if field.default is not None}
WRITTEN = (
    fields.REPLICAS,
    fields.GROUP_IDENTITY,
    fields.GROUP_REPLACEMENT_POLICY,
    fields.RESTART_POLICY,
    fields.ROLLOUT_STRATEGY_TYPE,
    fields.PARTITION,
    fields.MAX_UNAVAILABLE,
    fields.MAX_SURGE,
    fields.SUBDOMAIN_POLICY,
)


def schema() -> Mapping[str, Any]:
    (version,) = definitions()[KIND]["spec"]["versions"]
    result: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    return result


def defaults_in(part: Mapping[str, Any], within: Field = fields.SPEC) -> Iterator[tuple[str, Any]]:
    """Yield the defaults of scalars. An object with a default repeats the defaults of its fields."""
    for name, property_schema in part.get("properties", {}).items():
        if "default" in property_schema and property_schema.get("type") != "object":
            yield str(within.child(name)), property_schema["default"]
        yield from defaults_in(property_schema, within.child(name))


@pytest.mark.parametrize(("constant", "field"), FIELDS.items(), ids=FIELDS)
def test_a_constant_has_the_name_of_its_field(constant: str, field: Field) -> None:
    """The parent's name may come first: two parents may have fields of the same name."""
    parent, name = (re.sub("([A-Z])", r"_\1", part).upper() for part in field.path[-2:])
    assert constant in (name, f"{parent}_{name}")


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_every_path_is_in_the_crd(field: Field) -> None:
    part = schema()
    for name in field.path:
        assert name in part["properties"]
        part = part["properties"][name]


def test_defaults_match_the_crd() -> None:
    written = dict(defaults_in(schema()["properties"]["spec"]))
    assert {str(field): default for field, default in DEFAULTS.items() if str(field) in written} == written


@pytest.mark.parametrize("field", [field for field in DEFAULTS if type(field.default) is int], ids=str)
def test_a_default_that_the_schema_does_not_set_is_described(field: Field) -> None:
    """Clients compare whole specs, so fields that upstream lacks stay absent."""
    part = schema()
    for name in field.path:
        part = part["properties"][name]
    assert "default" in part or f"(default {field.default})" in part["description"]


def test_the_webhook_sets_the_same_defaults() -> None:
    raw: dict[str, Any] = {"spec": {"leaderWorkerTemplate": {}}}
    default(raw)
    written = {field: field.stored_in(raw) for field in DEFAULTS}
    assert {field: value for field, value in written.items() if value is not None} == {
        field: DEFAULTS[field] for field in WRITTEN
    }


def test_a_field_reads_as_its_path() -> None:
    assert str(fields.SIZE) == "spec.leaderWorkerTemplate.size"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({"a": {"b": 1}}, 1, id="present"),
        pytest.param({"a": {}}, None, id="leaf missing"),
        pytest.param({"a": None}, None, id="null on the way"),
        pytest.param({"a": [1]}, None, id="list on the way"),
        pytest.param({"a": "b"}, None, id="text on the way"),
    ],
)
def test_value_at(raw: dict[str, Any], expected: Any) -> None:
    assert value_at(raw, ("a", "b")) == expected
