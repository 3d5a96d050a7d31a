"""lws.kube.patches: a patch makes exactly the intended changes, checked with an independent library."""

from __future__ import annotations

import copy
import random
from typing import Any

import jsonpatch
import pytest

from lws.kube.patches import is_merged_into, json_patch, merge_patch, with_merged


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        pytest.param({}, {}, None, id="nothing"),
        pytest.param({"a": {"b": [1]}}, {"a": {"b": [1]}}, None, id="equal"),
        pytest.param({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}, id="changed"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {"b": None}, id="removed"),
        pytest.param({}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="new object"),
        pytest.param(
            {"a": {"b": 1, "c": 2, "d": 3}}, {"a": {"b": 1, "c": 4}}, {"a": {"c": 4, "d": None}}, id="nested"
        ),
        pytest.param({"a": [1, 2]}, {"a": [1]}, {"a": [1]}, id="lists are replaced completely"),
        pytest.param({"a": 0}, {"a": False}, None, id="as equal as Python finds them"),
        pytest.param({"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="another type"),
        pytest.param({"a": {"b": 1}}, {"a": 5}, {"a": 5}, id="replaced object"),
    ],
)
def test_a_patch_is_minimal(before: dict[str, Any], after: dict[str, Any], patch: Any) -> None:
    assert merge_patch(before, after) == patch
    assert with_merged(before, patch or {}) == after


@pytest.mark.parametrize(
    ("before", "patch", "after", "expected"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}, True, id="as intended"),
        pytest.param({"a": 1, "b": 2}, {"b": 3}, {"b": 3}, False, id="removed field"),
        pytest.param({"a": 1, "b": 2}, {"b": 3}, {"a": 2, "b": 3}, False, id="another object"),
        pytest.param({"b": 2}, {"b": 3}, {"a": 1, "b": 3}, False, id="something came"),
        pytest.param({"a": 1}, {"b": 3}, {"a": 1}, True, id="pruned field"),
        pytest.param({"a": 1}, {"b": "03"}, {"a": 1, "b": "3"}, True, id="normalised value"),
        pytest.param({"a": 1, "b": 2}, {"b": None}, {"a": 1, "b": 0}, True, id="default value"),
        pytest.param(
            {"a": {"x": 1, "y": 2}}, {"a": {"x": 3}}, {"a": {"x": 3}}, False, id="removed nested field"
        ),
        pytest.param({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1}}, True, id="pruned within"),
        pytest.param({"a": {"x": 1}}, {"a": {"y": 2}}, {}, False, id="all fields removed"),
        pytest.param({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}, True, id="another kind of value"),
        pytest.param({"a": None, "b": 2}, {"b": 3}, {"a": 7, "b": 3}, True, id="unreadable value"),
        pytest.param({}, {"b": 3}, {"b": 3}, True, id="the first"),
    ],
)
def test_the_result_of_a_merge_patch_is_recognised(
    before: Any, patch: Any, after: Any, expected: bool
) -> None:
    assert is_merged_into(before, patch, after) == expected


def test_the_result_of_a_merge() -> None:
    """Examples of RFC 7386 that our patches never produce."""
    assert with_merged({"a": None, "b": 1}, {"b": None}) == {"a": None}
    assert with_merged({}, {"a": {"b": {"c": None}}}) == {"a": {"b": {}}}
    assert with_merged(["a"], {"b": 1}) == {"b": 1}
    assert with_merged({"a": 1}, ["c"]) == ["c"]


def _patched(before: Any, after: Any) -> Any:
    patch = copy.deepcopy(list(json_patch(before, after)))
    return jsonpatch.apply_patch(copy.deepcopy(before), patch)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="equal"),
        pytest.param({}, {"a": {"b": 1}}, [("add", "/a", {"b": 1})], id="added"),
        pytest.param({"a": 1, "b": 2}, {"b": 2}, [("remove", "/a", None)], id="removed"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, [("replace", "/a/b", 2)], id="below"),
        pytest.param({"a": 1}, {"a": True}, [("replace", "/a", True)], id="a-truth-is-no-number"),
        pytest.param({"a": None}, {"a": {}}, [("replace", "/a", {})], id="null"),
        pytest.param({}, {"x/y~z": 1}, [("add", "/x~1y~0z", 1)], id="escaped"),
        pytest.param([1, 2], [0, 1, 2], [("add", "/0", 0)], id="in-front"),
        pytest.param([1, 2], [1, 2, 3, 4], [("add", "/2", 3), ("add", "/3", 4)], id="behind"),
        pytest.param([1, 2], [1, 9, 2], [("add", "/1", 9)], id="between"),
        pytest.param([1, 1], [1, 1, 1], [("add", "/2", 1)], id="the-same-again"),
        pytest.param([1, 2, 3], [3], [("remove", "/0", None)] * 2, id="first-element-removed"),
        pytest.param([1, 2], [1, 3], [("replace", "/1", 3)], id="element-replaced"),
        pytest.param(
            {"a": [1, 2]}, {"a": [3, 4, 5]}, [("replace", "/a", [3, 4, 5])], id="all-elements-replaced"
        ),
    ],
)
def test_json_patch(before: Any, after: Any, expected: list[tuple[str, str, Any]]) -> None:
    patch = list(json_patch(before, after))
    assert [(operation["op"], operation["path"], operation.get("value")) for operation in patch] == expected
    assert _patched(before, after) == after


def test_a_patch_turns_any_document_into_any_other() -> None:
    draw = random.Random(7)

    def document(depth: int) -> Any:
        kind = draw.randrange(3 if depth else 1)
        if kind == 1:
            return {draw.choice("ab/~"): document(depth - 1) for _ in range(draw.randrange(4))}
        if kind == 2:
            return [document(depth - 1) for _ in range(draw.randrange(4))]
        return draw.choice([0, 1, "x", None])

    for _ in range(500):
        before, after = {"root": document(3)}, {"root": document(3)}
        assert _patched(before, after) == after
