"""lws.kube.shapes: validation against a table of types, and values that valid JSON cannot contain."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.shapes import ListLimits, Numbers, Shapes, has_more_values, is_deep, json_fault
from lws.kube.typed import POD_TYPES, most_items_of, types_of
from lws_api.disaggregatedset.v1 import DisaggregatedSetSpec

SHAPES = Shapes(
    {
        "Thing": {
            "amount": "q",
            "count": "*i",
            "each": "[Part]",
            "is": "b",
            "labels": "{s}",
            "name": "=s",
            "part": "*Part",
            "port": "x",
            "since": "t",
            "what": "j",
        },
        "Part": {"name": "s"},
    },
    {"Part": ("name",)},
)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"name": "a", "count": 3, "is": True, "port": "http", "amount": "1.5Gi", "since": "now"},
        {"port": 80, "amount": 2, "what": [{}], "each": [{"name": "a"}], "labels": {"a": ""}},
        {"name": None, "count": None, "is": None, "each": None, "labels": None, "part": None, "amount": None},
        {"unknown": [object]},
    ],
    ids=["empty", "whole", "whole too", "nulls", "unknown field"],
)
def test_valid_values_have_no_fault(value: Any) -> None:
    assert SHAPES.fault("Thing", value, "it") == ""


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ([], "it is a list, not an object"),
        ("text", "it is 'text', not an object"),
        ({"name": 1}, "it.name is 1, not text"),
        ({"count": "two"}, "it.count is 'two', not a whole number"),
        ({"count": True}, "it.count is true, not a whole number"),
        ({"count": 2.0}, "it.count is 2.0, not a whole number"),
        ({"is": 1}, "it.is is 1, not true or false"),
        ({"amount": "much"}, "it.amount is 'much', not a quantity"),
        ({"amount": False}, "it.amount is false, not a quantity"),
        ({"port": 1.5}, "it.port is 1.5, not a whole number or text"),
        ({"since": 3}, "it.since is 3, not a time"),
        ({"each": {}}, "it.each is an object, not a list"),
        ({"each": [{"name": "a"}, None]}, "it.each[1] is missing"),
        ({"each": [{}]}, "it.each[0].name is missing"),
        ({"part": {"name": None}}, "it.part.name is missing"),
        ({"labels": {"a": 1}}, "it.labels.a is 1, not text"),
        ({"labels": {"a": None}}, "it.labels.a is missing"),
        ({"name": ["x" * 100]}, "it.name is a list, not text"),
        ({"count": "x" * 100}, f"it.count is '{'x' * 38}…, not a whole number"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_invalid_values_are_reported(value: Any, fault: str) -> None:
    assert SHAPES.fault("Thing", value, "it") == fault


def test_the_table_of_pod_types_is_parsed() -> None:
    shapes = Shapes(POD_TYPES, {})
    for name, fields in POD_TYPES.items():
        for field in fields:
            assert isinstance(shapes.fault(name, {field: "text"}, name), str)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"a": [1, "ü", 2**63 - 1, 1e300, None, True]}, ""),
        ({"a": [float("inf")]}, "it.a[0] is inf, not a finite number"),
        ({"a": 2**63}, "it.a is a number of more than 64 bits, not a number of 64 bits"),
        ({"a": "\ud800"}, "it.a is '\\ud800', not Unicode text"),
        ({"\ud800": 1}, "it is '\\ud800', not Unicode text"),
    ],
    ids=["fine", "infinite", "huge", "surrogate", "surrogate as key"],
)
def test_values_that_cannot_be_serialized(value: Any, fault: str) -> None:
    assert json_fault(value, "it") == fault


def test_recursive_structures() -> None:
    deep: Any = "leaf"
    for _ in range(64):
        deep = [deep]
    assert not is_deep(deep) and json_fault(deep, "it") == ""
    assert is_deep({"a": deep}) and json_fault({"a": deep}, "it") == "it has more than 64 levels"


NUMBERS = Numbers(POD_TYPES)
NO_QUANTITY = "quantities must match the regular expression"


def template(container: dict[str, Any], **pod: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "a"}, {"name": "b", **container}], **pod}}


@pytest.mark.parametrize(
    ("value", "path", "fault"),
    [
        pytest.param(template({}), "", "", id="none"),
        pytest.param(template({"ports": [{"containerPort": 2**31 - 1}]}), "", "", id="the largest"),
        pytest.param(
            template({"ports": [{"containerPort": 2**31}]}),
            "t.spec.containers[1].ports[0].containerPort",
            "json: cannot unmarshal number 2147483648 into Go value of type int32",
            id="a port",
        ),
        pytest.param(
            template({"readinessProbe": {"httpGet": {"port": -(2**31) - 1}}}),
            "t.spec.containers[1].readinessProbe.httpGet.port",
            "json: cannot unmarshal number -2147483649 into Go value of type int32",
            id="a port by number or name",
        ),
        pytest.param(template({}, securityContext={"runAsUser": 2**62}), "", "", id="64 bits"),
        pytest.param(
            template({}, securityContext={"supplementalGroups": [1, 2**63]}),
            "t.spec.securityContext.supplementalGroups[1]",
            "json: cannot unmarshal number 9223372036854775808 into Go value of type int64",
            id="more than 64 bits",
        ),
        pytest.param(
            template({"resources": {"limits": {"cpu": "1", "memory": "1e1.5"}}}),
            "t.spec.containers[1].resources.limits[memory]",
            NO_QUANTITY,
            id="a quantity",
        ),
        pytest.param(
            template({}, volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1KiB"}}]),
            "t.spec.volumes[0].emptyDir.sizeLimit",
            NO_QUANTITY,
            id="a limit",
        ),
        pytest.param(template({"env": [{"name": "e", "value": "99999999999"}]}), "", "", id="text"),
        pytest.param(
            {"spec": {"containers": "none", "volumes": [3], "nodeSelector": 2**40}}, "", "", id="wrong"
        ),
    ],
)
def test_numbers_that_typed_clients_cannot_read(value: Any, path: str, fault: str) -> None:
    faults = list(NUMBERS.faults("PodTemplateSpec", value, "t"))
    assert [found_fault[0] for found_fault in faults] == ([path] if path else [])
    assert all(found_fault[2].startswith(fault) for found_fault in faults)


def _role(**scheduling: Any) -> dict[str, Any]:
    return {"name": "a", "spec": {"scheduling": scheduling}}


_RACK = {"topology": [{"key": "rack"}]}
_AT_ROLE = "spec.roles[0].spec.scheduling"


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        pytest.param(None, [], id="null"),
        pytest.param({"roles": "x"}, [], id="another type"),
        pytest.param({"roles": [_role()] * 10}, [], id="most"),
        pytest.param({"roles": [_role()] * 11}, [("spec.roles", 11, 10)], id="roles"),
        pytest.param({"roles": [{}] * 10**6}, [("spec.roles", 10**6, 10)], id="a million"),
        pytest.param({"roles": [_role(schedulingConstraints=_RACK)]}, [], id="one topology"),
        pytest.param(
            {"roles": [_role(schedulingConstraints={"topology": [{}, {}]})]},
            [(f"{_AT_ROLE}.schedulingConstraints.topology", 2, 1)],
            id="below a list",
        ),
        pytest.param(
            {"roles": [_role(replica={"worker": {"resourceClaims": [{}] * 5}}), 1]},
            [(f"{_AT_ROLE}.replica.worker.resourceClaims", 5, 4)],
            id="deeper",
        ),
    ],
)
def test_lists_with_more_items_than_their_definition_allows(spec: Any, faults: list[Any]) -> None:
    counts = ListLimits(types_of(DisaggregatedSetSpec), most_items_of(DisaggregatedSetSpec))
    assert [*counts.faults("DisaggregatedSetSpec", spec, "spec")] == faults


def test_counting_values_stops_at_the_limit() -> None:
    value = {"a": [1, 2, {"b": "c"}], "d": "e"}
    assert has_more_values(value, 5) and not has_more_values(value, 6)
    assert has_more_values([value] * 10**6, 100) and not has_more_values("text", 0)
