"""lws.cli.commands.plan: what kubectl apply would send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lws.cli.commands.plan import LAST_APPLIED_ANNOTATION, apply_patch, last_applied


def stored(spec: dict[str, Any], applied: Any = None) -> dict[str, Any]:
    annotations = {} if applied is None else {LAST_APPLIED_ANNOTATION: json.dumps({"spec": applied})}
    return {"metadata": {"name": "a", "annotations": annotations}, "spec": spec}


@pytest.mark.parametrize(
    ("applied", "wanted", "now", "patch"),
    [
        pytest.param({"a": 1}, {"a": 1}, {"a": 1, "b": 2}, {}, id="a default that others set stays"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 1, "b": 2}, {"a": 2}, id="changed"),
        pytest.param({"a": 1}, {"a": 1, "c": 3}, {"a": 1}, {"c": 3}, id="new"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2}, {"b": None}, id="no longer said"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {"a": 1}, {}, id="no longer said and gone already"),
        pytest.param({"a": 1}, {"a": 1, "b": None}, {"a": 1, "b": 2}, {"b": None}, id="null takes away"),
        pytest.param({"a": 1}, {"a": 1, "b": None}, {"a": 1}, {}, id="null of what is not there"),
        pytest.param(None, {"a": 1}, {"a": 1, "b": 2}, {}, id="applied by nobody yet"),
        pytest.param(
            {"t": {"x": 1, "y": 2}},
            {"t": {"x": 3}},
            {"t": {"x": 1, "y": 2, "z": 4}},
            {"t": {"x": 3, "y": None}},
            id="deeper",
        ),
        pytest.param(
            {"l": [{"name": "a"}]},
            {"l": [{"name": "a"}]},
            {"l": [{"name": "a", "d": 1}]},
            {"l": [{"name": "a"}]},
            id="lists are replaced as wholes, defaults in them too",
        ),
    ],
)
def test_three_way(applied: Any, wanted: Any, now: Any, patch: Any) -> None:
    found = apply_patch({"metadata": {"name": "a"}, "spec": wanted}, stored(now, applied))
    assert found == ({"spec": patch} if patch else {})


def test_labels_that_are_no_longer_said_go() -> None:
    before = {"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}, "annotations": {}}}
    annotations = {LAST_APPLIED_ANNOTATION: json.dumps(before)}
    now = {"metadata": {"name": "a", "uid": "u", "labels": {"x": "1", "y": "2"}, "annotations": annotations}}
    assert apply_patch({"metadata": {"name": "a", "labels": {"x": "1"}}}, now) == {
        "metadata": {"labels": {"y": None}}
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_what_is_no_manifest_counts_as_nothing(text: str) -> None:
    assert last_applied({"metadata": {"annotations": {LAST_APPLIED_ANNOTATION: text}}}) == {}
