"""lws.runtime.stored_fields: tables of kinds that are stored in part or as a whole."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.runtime.actions import Object
from lws.runtime.stored_fields import ALL, LATER, NONE, SET, Rule, StoredField, StoredFields, Wakes


def _first(value: Any, obj: Any) -> Any:
    return value[:1] or None


def _rising(before: Object, after: Object) -> Wakes:
    return SET if before["spec"]["count"] < after["spec"]["count"] else ALL


ROWS = (
    StoredField("metadata.uid"),
    StoredField("metadata.resourceVersion", NONE),
    StoredField("spec.count", _rising, default=0),
    StoredField("spec.names", excerpt=_first),
    StoredField("status.phase", LATER),
    StoredField("data", default={}),
)
PART = StoredFields("Thing", ROWS, is_undisturbed=lambda obj: obj.get("data") != "lost")
WHOLE = StoredFields(
    "Thing",
    (
        StoredField("metadata.resourceVersion", NONE),
        StoredField("metadata.managedFields", NONE, lambda value, obj: None),
        StoredField("status", SET),
    ),
    others=ALL,
    variant=(lambda obj: "part" in obj["metadata"], PART),
)


def _thing(**changes: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"uid": "u", "resourceVersion": "1", "labels": {"a": "b"}, "managedFields": [{}]},
        "spec": {"count": 1, "names": ["one", "two"], "color": "red"},
        "status": {"phase": "Fine", "message": "x"},
        "data": "text",
    }
    for path, value in changes.items():
        *sections, name = path.split("__")
        part = obj
        for section in sections:
            part = part[section]
        if value is None:
            del part[name]
        else:
            part[name] = value
    return obj


def test_listed_fields_of_a_trimmed_kind_are_kept() -> None:
    thing = _thing()
    before = copy.deepcopy(thing)
    assert PART.trim(thing) == {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"uid": "u", "resourceVersion": "1"},
        "spec": {"count": 1, "names": ["one"]},
        "status": {"phase": "Fine"},
        "data": "text",
    }
    assert thing == before
    assert PART.trim(PART.trim(thing)) == PART.trim(thing)


def test_absent_fields_have_their_default() -> None:
    bare = _thing(spec=None, status=None, data=None)
    assert PART.trim(bare)["spec"] == {"count": 0}
    assert (PART.trim(bare)["status"], PART.trim(bare)["data"]) == ({}, {})


def test_all_fields_of_an_untrimmed_kind_are_kept_except_removed_ones() -> None:
    assert WHOLE.trim(_thing()) == _thing(metadata__managedFields=None)


@pytest.mark.parametrize(
    ("table", "after", "woken"),
    [
        pytest.param(PART, _thing(metadata__resourceVersion="2"), NONE, id="a field without a row"),
        pytest.param(PART, _thing(metadata__uid="v"), ALL, id="a row"),
        pytest.param(PART, _thing(data="other"), ALL, id="a row at the top"),
        pytest.param(PART, _thing(spec__count=2), SET, id="a rule"),
        pytest.param(PART, _thing(spec__count=0), ALL, id="a reversed rule"),
        pytest.param(PART, _thing(status__phase="Ill"), LATER, id="a row that can wait"),
        pytest.param(PART, _thing(status__phase="Ill", spec__count=2), LATER, id="the most urgent of two"),
        pytest.param(PART, _thing(status=None), LATER, id="a removed section"),
        pytest.param(WHOLE, _thing(metadata__resourceVersion="2"), NONE, id="whole: an ignored field"),
        pytest.param(WHOLE, _thing(metadata__managedFields=[]), NONE, id="whole: a removed field"),
        pytest.param(WHOLE, _thing(status__phase="Ill"), SET, id="whole: a row"),
        pytest.param(WHOLE, _thing(spec__color="blue"), ALL, id="whole: a field without a row"),
        pytest.param(WHOLE, _thing(metadata__labels={}), ALL, id="whole: a metadata field without a row"),
    ],
)
def test_passes_triggered_by_a_change(table: StoredFields, after: dict[str, Any], woken: Wakes) -> None:
    assert table.wakes(_thing(), after) is woken
    assert table.is_same(_thing(), after) is (woken is NONE)


def test_rules_see_no_mutated_objects() -> None:
    lost = _thing(data="lost")
    assert PART.wakes(lost, {**lost, "spec": {**lost["spec"], "count": 2}}) is ALL


def test_some_objects_of_a_kind_have_a_separate_table() -> None:
    assert WHOLE.of(_thing()) is WHOLE
    assert WHOLE.of(_thing(metadata__part=True)) is PART


def test_rules_run_only_if_their_fields_have_changed() -> None:
    def never(before: Object, after: Object) -> Wakes:
        raise AssertionError

    rule: Rule = never
    table = StoredFields("Thing", (StoredField("spec.count", rule), StoredField("spec.color", SET)))
    assert table.wakes(_thing(), _thing(spec__color="blue")) is SET
