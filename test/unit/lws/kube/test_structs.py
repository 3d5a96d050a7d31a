from __future__ import annotations

import json
from typing import Any

import pytest

from lws.kube.typed import Structs

TABLE = {
    "Outer": {
        "second": "s",
        "first": "*i",
        "always": "=Inner",
        "pointer": "*Inner",
        "list": "[Inner]",
        "required": "=[s]",
        "null": "?s",
        "map": "{q}",
        "time": "=t",
        "port": "=x",
        "enabled": "b",
    },
    "Inner": {"name": "=s", "divisor": "=q", "count": "i"},
}
STRUCTS = Structs(TABLE)
INNER = {"name": "", "divisor": "0"}
ZERO: dict[str, Any] = {"always": INNER, "required": None, "null": None, "time": None, "port": 0}


@pytest.mark.parametrize(
    ("value", "changed"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(dict.fromkeys(TABLE["Outer"]), {}, id="nulls"),
        pytest.param({"second": "", "enabled": False, "map": {}, "list": []}, {}, id="zero values"),
        pytest.param({"first": 0, "pointer": {}}, {"first": 0, "pointer": INNER}, id="pointers"),
        pytest.param({"unknown": 1, "always": {"unknown": 1}}, {}, id="unknown fields"),
        pytest.param({"required": []}, {"required": []}, id="an empty list"),
        pytest.param({"null": ""}, {"null": ""}, id="an empty text"),
        pytest.param({"first": 2**63 - 1}, {"first": 2**63 - 1}, id="large numbers"),
        pytest.param({"first": 2.0}, {"first": 2}, id="whole numbers"),
        pytest.param({"map": {"b": 1, "a": "1000m"}}, {"map": {"a": "1", "b": "1"}}, id="quantities"),
        pytest.param({"list": [None, {"count": 3}]}, {"list": [INNER, {**INNER, "count": 3}]}, id="lists"),
        pytest.param({"port": "http"}, {"port": "http"}, id="a name as port"),
        pytest.param({"time": "0001-01-01T00:00:00Z"}, {}, id="no time"),
        pytest.param(
            {"time": "2026-01-02T00:04:05.9+02:00"}, {"time": "2026-01-01T22:04:05Z"}, id="another zone"
        ),
        pytest.param({"time": "tomorrow"}, {"time": "tomorrow"}, id="no such time"),
    ],
)
def test_fields_written_by_a_struct(value: dict[str, Any], changed: dict[str, Any]) -> None:
    assert STRUCTS.write("Outer", value) == {**ZERO, **changed}


def test_fields_have_the_order_of_the_struct_and_maps_are_sorted() -> None:
    value = {"map": {"b": 0, "a": 0, "B": 0}, "always": {"count": 1, "name": "n"}, "first": 1, "second": "s"}
    assert json.dumps(STRUCTS.write("Outer", value), separators=(",", ":")) == (
        '{"second":"s","first":1,"always":{"name":"n","divisor":"0","count":1},"required":null,"null":null,'
        '"map":{"B":"0","a":"0","b":"0"},"time":null,"port":0}'
    )
