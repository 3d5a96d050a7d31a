"""lws.kube.typed: serialization as by a typed client, from a table of types."""

from __future__ import annotations

import copy
import json
from types import MappingProxyType
from typing import Any

import pytest

from lws.kube.typed import POD_TYPES, Fields, Normaliser, types_of
from lws_api.disaggregatedset.v1 import DisaggregatedSetStatus
from lws_api.leaderworkerset.v1 import LeaderWorkerSetSpec

TABLE = {
    "Outer": {
        "always": "=s",
        "alwaysFlag": "=b",
        "alwaysList": "=[s]",
        "alwaysNull": "?s",
        "alwaysNumber": "=i",
        "alwaysPort": "=x",
        "alwaysQuantity": "=q",
        "flag": "b",
        "list": "[Inner]",
        "map": "{s}",
        "maybe": "*Inner",
        "maybeFlag": "*b",
        "maybeNumber": "*i",
        "maybeText": "*s",
        "number": "i",
        "numbers": "[i]",
        "quantities": "{q}",
        "quantity": "*q",
        "text": "s",
        "time": "t",
        "value": "=Inner",
    },
    "Inner": {"deep": "=Deep", "name": "=s", "text": "s"},
    "Deep": {"text": "s"},
}
EMPTY: dict[str, Any] = {
    "always": "",
    "alwaysFlag": False,
    "alwaysList": None,
    "alwaysNull": None,
    "alwaysNumber": 0,
    "alwaysPort": 0,
    "alwaysQuantity": "0",
    "value": {"deep": {}, "name": ""},
}


@pytest.fixture(scope="module")
def normaliser() -> Normaliser:
    return Normaliser(TABLE)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({key: None for key in TABLE["Outer"]}, {}, id="null is absent"),
        pytest.param({"text": "", "flag": False, "number": 0, "time": ""}, {}, id="zero values"),
        pytest.param({"list": [], "map": {}, "quantities": {}, "numbers": []}, {}, id="empty collections"),
        pytest.param({"maybeText": ""}, {"maybeText": ""}, id="pointer to an empty string"),
        pytest.param({"maybeFlag": False}, {"maybeFlag": False}, id="pointer to false"),
        pytest.param({"maybeNumber": 0}, {"maybeNumber": 0}, id="pointer to zero"),
        pytest.param({"maybe": {}}, {"maybe": {"deep": {}, "name": ""}}, id="pointer to an empty struct"),
        pytest.param(
            {"map": {"a": "", "b": "x"}}, {"map": {"a": "", "b": "x"}}, id="empty values of a map stay"
        ),
        pytest.param({"list": [{}]}, {"list": [{"deep": {}, "name": ""}]}, id="elements of a list stay"),
        pytest.param({"alwaysList": []}, {"alwaysList": []}, id="a list that is always written may be empty"),
        pytest.param({"alwaysNull": ""}, {"alwaysNull": ""}, id="null by default"),
        pytest.param({"value": {"text": ""}}, {}, id="zero value in a struct"),
        pytest.param({"flag": True, "number": 1}, {"flag": True, "number": 1}, id="plain values"),
        pytest.param({"quantity": 1}, {"quantity": "1"}, id="quantity from a number"),
        pytest.param({"quantity": 0}, {"quantity": "0"}, id="pointer to a zero quantity"),
        pytest.param(
            {"quantities": {"cpu": "1.5"}}, {"quantities": {"cpu": "1500m"}}, id="quantities in a map"
        ),
        pytest.param({"alwaysPort": "http"}, {"alwaysPort": "http"}, id="int-or-string as string"),
        pytest.param({"alwaysPort": "80"}, {"alwaysPort": "80"}, id="int-or-string stays a string"),
        pytest.param({"number": 30.0}, {"number": 30}, id="a whole float is an integer"),
        pytest.param({"number": 2**53}, {"number": 2**53}, id="the largest exact integer"),
        pytest.param({"number": 2**53 + 1}, {"number": 2**53}, id="beyond it through a double"),
        pytest.param({"numbers": [2**63 - 1]}, {"numbers": [9223372036854776000]}, id="the largest integer"),
        pytest.param({"number": -(2**63)}, {"number": -9223372036854776000}, id="the smallest integer"),
        pytest.param(
            {"unknown": {"a": None, "b": []}}, {"unknown": {"a": None, "b": []}}, id="unknown field is kept"
        ),
        pytest.param({"unknown": None}, {}, id="unknown null"),
        pytest.param({"maybe": "text"}, {"maybe": "text"}, id="another shape stays: struct"),
        pytest.param({"list": {"a": 1}}, {"list": {"a": 1}}, id="another shape stays: list"),
        pytest.param({"quantities": ["1"]}, {"quantities": ["1"]}, id="another shape stays: map"),
        pytest.param({"quantity": "much"}, {"quantity": "much"}, id="another shape stays: quantity"),
        pytest.param({"quantity": True}, {"quantity": True}, id="true is no quantity"),
        pytest.param({"number": True}, {"number": True}, id="true is no number"),
    ],
)
def test_write(normaliser: Normaliser, value: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy(value)
    written = normaliser.write("Outer", value)
    # Compared as text, because True == 1 in Python.
    assert json.dumps(written, sort_keys=True) == json.dumps({**EMPTY, **expected}, sort_keys=True)
    assert normaliser.write("Outer", written) == written, "writing twice changes nothing"
    assert value == before, "the input is never changed"


def test_a_read_only_mapping_is_written_like_a_dict(normaliser: Normaliser) -> None:
    value = MappingProxyType({"maybe": MappingProxyType({"text": ""})})
    assert normaliser.write("Outer", value)["maybe"] == {"deep": {}, "name": ""}


def test_finish_is_called_for_inner_structs_first() -> None:
    order = []

    def note(fields: Fields) -> None:
        order.append(sorted(fields))
        fields["seen"] = True

    written = Normaliser(TABLE, {"Deep": note, "Inner": note}).write("Outer", {"maybe": {"name": "a"}})
    assert written["maybe"] == {"name": "a", "deep": {"seen": True}, "seen": True}
    assert order == [[], ["deep", "name"], [], ["deep", "name"]]


def test_every_referenced_type_is_in_the_table() -> None:
    scalars = set("sbilqxtj")
    named = {code.strip("*=?[]{}") for fields in POD_TYPES.values() for code in fields.values()}
    assert named - scalars <= POD_TYPES.keys()


@pytest.mark.parametrize(
    ("name", "field", "code"),
    [
        pytest.param("LeaderWorkerSetSpec", "replicas", "i", id="integer"),
        pytest.param("LeaderWorkerSetSpec", "startupPolicy", "s", id="enum"),
        pytest.param("LeaderWorkerSetSpec", "leaderService", "LeaderService", id="optional struct"),
        pytest.param("RolloutStrategy", "paused", "b", id="bool"),
        pytest.param("RollingUpdateConfiguration", "maxSurge", "x", id="number or percentage"),
        pytest.param("LeaderWorkerTemplate", "workerTemplate", "PodTemplateSpec", id="type of Kubernetes"),
        pytest.param("LeaderWorkerTemplate", "volumeClaimTemplates", "[PersistentVolumeClaim]", id="list"),
        pytest.param("DisaggregatedSetStatus", "lastProgressTime", "t", id="time"),
        pytest.param("DisaggregatedSetStatus", "rollouts", "{SliceRollout}", id="map of structs"),
    ],
)
def test_types_of_models(name: str, field: str, code: str) -> None:
    assert (types_of(LeaderWorkerSetSpec) | types_of(DisaggregatedSetStatus))[name][field] == code
