"""lws.kube.differences.patches: the smallest merge patch."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.differences.patches import merge_patch


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        pytest.param({}, {}, None, id="nothing"),
        pytest.param({"a": {"b": [1]}}, {"a": {"b": [1]}}, None, id="equal"),
        pytest.param({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}, id="changed"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {"b": None}, id="gone"),
        pytest.param({}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="new object"),
        pytest.param(
            {"a": {"b": 1, "c": 2, "d": 3}}, {"a": {"b": 1, "c": 4}}, {"a": {"c": 4, "d": None}}, id="nested"
        ),
        pytest.param({"a": [1, 2]}, {"a": [1]}, {"a": [1]}, id="lists as a whole"),
        pytest.param({"a": 0}, {"a": False}, None, id="as equal as Python finds them"),
        pytest.param({"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="another type"),
        pytest.param({"a": {"b": 1}}, {"a": 5}, {"a": 5}, id="no object any more"),
    ],
)
def test_the_smallest_patch(before: dict[str, Any], after: dict[str, Any], patch: Any) -> None:
    assert merge_patch(before, after) == patch
