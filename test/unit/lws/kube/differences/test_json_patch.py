"""Patches do what they were made for, and no more than that; other code applies them than makes them."""

from __future__ import annotations

import copy
import random
from typing import Any

import jsonpatch
import pytest

from lws.kube.differences.json_patch import operations


def _patched(before: Any, after: Any) -> Any:
    made = copy.deepcopy(list(operations(before, after)))
    return jsonpatch.apply_patch(copy.deepcopy(before), made)


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
        pytest.param([1, 2, 3], [3], [("remove", "/0", None)] * 2, id="gone-in-front"),
        pytest.param([1, 2], [1, 3], [("replace", "/1", 3)], id="one-for-one"),
        pytest.param({"a": [1, 2]}, {"a": [3, 4, 5]}, [("replace", "/a", [3, 4, 5])], id="all-others"),
    ],
)
def test_operations(before: Any, after: Any, expected: list[tuple[str, str, Any]]) -> None:
    made = list(operations(before, after))
    assert [(each["op"], each["path"], each.get("value")) for each in made] == expected
    assert _patched(before, after) == after


def test_any_document_becomes_any_other() -> None:
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
