"""values.yaml, its schema and the templates name the same values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from lws_api.config.v1alpha1 import API_VERSION, KIND, Configuration
from test.unit.chart.templates import CHART, all_text
from tools import chartvalues

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def closed(schema: dict[str, Any]) -> bool:
    """Report whether the schema lists every key of an object that this chart reads."""
    # Other charts have keys of their own in `global`.
    return schema.get("additionalProperties") is False or schema is SCHEMA["properties"]["global"]


def properties(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every property with its dotted path."""
    for key, subschema in schema.get("properties", {}).items():
        yield prefix + key, subschema
        yield from properties(subschema, f"{prefix}{key}.")


def known(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths that a values file may set."""
    for path, subschema in properties(schema, prefix):
        if not closed(subschema):
            yield path


def leaves(values: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths that values.yaml sets; an object with an open schema counts as one value."""
    for key, value in values.items():
        inner = schema.get("properties", {}).get(key, {})
        if closed(inner) and value:
            yield from leaves(value, inner, f"{prefix}{key}.")
        else:
            yield prefix + key


def test_the_schema_is_closed_and_described() -> None:
    assert closed(SCHEMA)
    for path, subschema in properties(SCHEMA):
        assert subschema.get("description") or subschema.get("$ref", "").startswith("#/definitions/"), path
        assert closed(subschema) or "properties" not in subschema, path


def test_every_value_has_a_default_and_a_schema() -> None:
    optional = {path for path in known(SCHEMA) if path.startswith("configuration.")}
    assert set(leaves(VALUES, SCHEMA)) - {"configuration"} == set(known(SCHEMA)) - optional


def test_groups_of_values_are_required() -> None:
    """An upgrade that reuses only the values of an older chart lacks them, and templates would fail."""
    objects = {"": (SCHEMA, VALUES)}
    objects |= {
        path: (subschema, VALUES) for path, subschema in properties(SCHEMA) if subschema.get("properties")
    }
    for path, (schema, defaults) in objects.items():
        for key in filter(None, path.split(".")):
            defaults = defaults.get(key, {})
        groups = {
            key for key, subschema in schema["properties"].items() if defaults.get(key) and closed(subschema)
        }
        # Helm itself always adds `global`.
        assert set(schema.get("required", ())) == groups - {"global"}, path


def test_every_value_is_read_by_a_template_and_every_value_read_exists() -> None:
    read = set(re.findall(r"\.Values\.([A-Za-z.]+[A-Za-z])", all_text()))
    settable = set(leaves(VALUES, SCHEMA))
    assert {path for path in settable if path not in read} == set()
    groups = {path.rpartition(".")[0] for path in settable}
    assert read - settable - groups == set()


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("replicaCount", 2),
        ("image.manager.pullPolicy", "IfNotPresent"),
        ("webhooks.failurePolicy", "Fail"),
        ("enableDisaggregatedSet", True),
        ("enableCertManager", False),
        ("enablePrometheus", False),
        ("podSecurityContext.runAsNonRoot", True),
        ("podSecurityContext.seccompProfile", {"type": "RuntimeDefault"}),
        ("securityContext.readOnlyRootFilesystem", True),
        ("securityContext.capabilities", {"drop": ["ALL"]}),
    ],
)
def test_defaults_that_other_tools_rely_on(path: str, default: object) -> None:
    value = VALUES
    for key in path.split("."):
        value = value[key]
    assert value == default


def test_further_configuration_has_keys_of_the_configuration_file() -> None:
    # A section without a default exists only if it is configured.
    configuration = {"apiVersion": API_VERSION, "kind": KIND, "sharding": {"shards": 1}}
    defaults = Configuration.model_validate(configuration).model_dump(by_alias=True)
    for section, schema in SCHEMA["properties"]["configuration"]["properties"].items():
        assert schema["properties"].keys() <= defaults[section].keys(), section


def test_the_chart_accepts_every_configuration_key_that_it_does_not_set() -> None:
    keys = {
        f"{section}.{key}" for section, part in chartvalues.sections().items() for key in part["properties"]
    }
    settable = SCHEMA["properties"]["configuration"]["properties"].items()
    settable_keys = {f"{section}.{key}" for section, part in settable for key in part["properties"]}
    own = {key for key in keys if not chartvalues.OF_THE_CHART.isdisjoint((key, key.partition(".")[0]))}
    assert keys - own == settable_keys
    sections = {key.partition(".")[0] for key in keys}
    assert keys | sections | {"apiVersion", "kind"} >= chartvalues.OF_THE_CHART


def test_the_longest_generated_name_belongs_to_a_service() -> None:
    names = re.findall(r'^  name: {{ include "lws.fullname" [.$] }}(\S+)', all_text(), re.MULTILINE)
    longest = max(map(len, names))
    limit = f"at most {63 - longest} characters, because the metrics Service appends {longest}"
    assert limit in SCHEMA["properties"]["fullnameOverride"]["description"]


def test_the_readme_lists_every_value() -> None:
    listed = [value.path for value in chartvalues.values(SCHEMA, VALUES)]
    assert sorted(listed) == sorted(known(SCHEMA))


def test_generated_files_are_up_to_date() -> None:
    assert chartvalues.main(["--check"]) == 0
