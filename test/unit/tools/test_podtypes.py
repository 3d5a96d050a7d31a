"""tools.podtypes: the table of pod fields from Go sources, and its agreement with the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from lws.kube.typed import POD_TYPES
from tools import podtypes
from tools.openapi import extract

GO = """
package v1

// Outer has one field of each sort.
type Outer struct {
	Inlined `json:",inline" protobuf:"bytes,1,opt,name=inlined"`
	*Unnamed `json:"" protobuf:"bytes,2,opt,name=unnamed"`
	// A comment with `json:"not,omitempty"` in it
	// and Words that look like Fields.
	Plain string `json:"plain,omitempty" protobuf:"bytes,2,opt,name=plain"`
	Always string `json:"always"`
	Pointer *string `json:"pointer,omitempty"`
	AlwaysPointer *string `json:"alwaysPointer"`
	Named Word `json:"named,omitempty"`
	Flag bool `json:"flag,omitempty"`
	Number *int64 `json:"number,omitempty"`
	Bytes []byte `json:"bytes,omitempty"`
	Struct Inner `json:"struct,omitempty"`
	StructPointer *Inner `json:"structPointer,omitempty"`
	List []Inner `json:"list,omitempty" patchStrategy:"merge"`
	AlwaysList []Word `json:"alwaysList"`
	Map map[string]string `json:"map,omitempty"`
	Quantities Amounts `json:"quantities,omitempty"`
	Quantity resource.Quantity `json:"quantity,omitempty"`
	QuantityPointer *resource.Quantity `json:"quantityPointer,omitempty"`
	Port intstr.IntOrString `json:"port"`
	Time metav1.Time `json:"time,omitempty,omitzero"`
	TimePointer *metav1.Time `json:"timePointer,omitempty"`
	Hidden string `json:"-"`
}

type Inlined struct {
	FromInside string `json:"fromInside,omitempty"`
}

type Unnamed struct {
	AsWell string `json:"asWell,omitempty"`
}

type Inner struct {
	Deep *Deep `json:"deep,omitempty"`
}

type Deep struct {
	UID types.UID `json:"uid,omitempty"`
}

// +enum
type Word string

type Amounts map[Word]resource.Quantity

type Unreachable struct {
	Text string `json:"text"`
}
"""


def test_table_of_go_sources() -> None:
    assert podtypes.table_of([GO], ["Outer"]) == {
        "Deep": {"uid": "s"},
        "Inner": {"deep": "*Deep"},
        "Outer": {
            "always": "=s",
            "alwaysList": "=[s]",
            "alwaysPointer": "?s",
            "asWell": "s",
            "bytes": "s",
            "flag": "b",
            "fromInside": "s",
            "list": "[Inner]",
            "map": "{s}",
            "named": "s",
            "number": "*l",
            "plain": "s",
            "pointer": "*s",
            "port": "=x",
            "quantities": "{q}",
            "quantity": "=q",
            "quantityPointer": "*q",
            "struct": "=Inner",
            "structPointer": "*Inner",
            "time": "t",
            "timePointer": "*t",
        },
    }


def test_fields_have_the_order_of_the_struct() -> None:
    table = podtypes.table_of([GO], ["Outer"])
    assert list(table) == ["Deep", "Inner", "Outer"]
    assert list(table["Outer"])[:4] == ["fromInside", "asWell", "plain", "always"]
    assert list(table["Outer"])[-2:] == ["time", "timePointer"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "type Outer: no struct of the Go sources; add its file to SOURCES"),
        (
            'type Outer struct {\n\tField chan int `json:"field"`\n}\n',
            "type Outer: no rule reads the line Field chan int",
        ),
        (
            'type Outer struct {\n\tField string `json:",omitempty"`\n}\n',
            "type Outer: no rule reads the line Field string",
        ),
        (
            'type Outer struct {\n\tField *any `json:"field"`\n}\n',
            "type Outer, field field: no rule for the Go type any",
        ),
        (
            'type Outer struct {\n\tField other.Thing `json:"field"`\n}\n',
            "type Outer, field field: no rule for the Go type other.Thing",
        ),
    ],
    ids=["missing type", "unknown line", "field named by Go", "unknown kind", "unknown package"],
)
def test_unreadable_declarations_are_reported(source: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        podtypes.table_of([source], ["Outer"])


def differences(table: Mapping[str, Mapping[str, str]], schemas: Mapping[str, Any]) -> list[str]:
    """Describe differences between the table and the `components.schemas` of an OpenAPI document.

    For each type of the table, its fields and their shapes are compared, as far as OpenAPI describes shapes.
    """
    by_kind = {name.rsplit(".", 1)[1]: schema for name, schema in schemas.items() if _is_ours(name)}
    result = []
    for name, fields in table.items():
        properties = by_kind.get(name, {}).get("properties")
        if properties is None:
            result.append(f"{name}: not in the OpenAPI document")
            continue
        for key in sorted(fields.keys() | properties.keys()):
            expected = fields[key].lstrip("*=?") if key in fields else "nothing"
            seen = _openapi_shape(properties[key]) if key in properties else "nothing"
            if expected != seen:
                result.append(f"{name}.{key}: {expected} in the table, {seen} in the OpenAPI document")
    return result


def _is_ours(schema_name: str) -> bool:
    return ".api.core.v1." in schema_name or ".api.apps.v1." in schema_name or ".meta.v1." in schema_name


def _openapi_shape(schema: Mapping[str, Any]) -> str:
    references = [part["$ref"] for part in (schema, *schema.get("allOf", ())) if "$ref" in part]
    if references:
        kind = str(references[0]).rsplit(".", 1)[1]
        return {"Quantity": "q", "IntOrString": "x", "Time": "t", "FieldsV1": "j"}.get(kind, kind)
    if schema.get("type") == "array":
        return f"[{_openapi_shape(schema['items'])}]"
    if "additionalProperties" in schema:
        return f"{{{_openapi_shape(schema['additionalProperties'])}}}"
    if schema.get("format") == "int64":
        return "l"
    return {"string": "s", "boolean": "b", "integer": "i"}.get(str(schema.get("type")), "j")


def test_the_committed_table_agrees_with_the_openapi_document_of_the_api_server() -> None:
    actual = differences(POD_TYPES, extract.read())
    assert actual == [
        # No pod template or PVC template contains it, so it is not in the extract either.
        "StatefulSetPersistentVolumeClaimRetentionPolicy: not in the OpenAPI document"
    ]


def _schema(**properties: Any) -> dict[str, Any]:
    return {"io.k8s.api.core.v1.Thing": {"properties": properties}}


@pytest.mark.parametrize(
    ("fields", "properties", "expected"),
    [
        ({"a": "*s"}, {"a": {"type": "string"}}, []),
        ({"a": "=[i]"}, {"a": {"type": "array", "items": {"type": "integer"}}}, []),
        ({"a": "*l"}, {"a": {"type": "integer", "format": "int64"}}, []),
        ({}, {"a": {"type": "boolean"}}, ["Thing.a: nothing in the table, b in the OpenAPI document"]),
        ({"a": "s"}, {}, ["Thing.a: s in the table, nothing in the OpenAPI document"]),
        (
            {"a": "s"},
            {"a": {"type": "object", "additionalProperties": {"type": "string"}}},
            ["Thing.a: s in the table, {s} in the OpenAPI document"],
        ),
        (
            {"a": "*Other"},
            {
                "a": {
                    "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}]
                }
            },
            ["Thing.a: Other in the table, q in the OpenAPI document"],
        ),
    ],
    ids=["equal", "equal list", "64 bits", "new field", "field removed", "map", "quantity"],
)
def test_differences(fields: dict[str, str], properties: dict[str, Any], expected: list[str]) -> None:
    assert differences({"Thing": fields}, _schema(**properties)) == expected


def test_the_committed_file_is_up_to_date_and_small() -> None:
    text = podtypes.TABLE.read_text(encoding="utf-8")
    assert podtypes.rendered(json.loads(text)["types"]) == text
    assert len(text.encode()) < 40_000
