"""lws.history: the newest revision, the next number, and pruning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.history.plan import plan_pruning
from lws.history.revision import Revision, age, find, newest, next_number
from lws.runtime.actions import Delete, Reference


class Nothing:
    """An empty record of a revision."""

    text = ""

    def key_at(self, probe: int) -> str:
        return f"key-{probe}"


def make_recorded(number: int, *, key: str = "", name: str = "", **fields: Any) -> Revision[Nothing]:
    """Return a revision whose fields mostly follow from its number."""
    name = name or f"demo-{number}"
    reference = Reference("apps/v1", "ControllerRevision", "default", name, f"uid-{number}")
    metadata = {"created": "2026-01-01T00:00:00Z", **fields}
    return Revision(
        reference=reference, number=number, key=key or f"key-{number}", record=Nothing(), **metadata
    )


def pruned(recorded: list[Revision[Nothing]], live: set[str], limit: int) -> list[int]:
    """Return the numbers of the pruned revisions, which are in their names."""
    actions = plan_pruning(recorded, live, limit)
    return [int(action.target.name.removeprefix("demo-")) for action in actions if isinstance(action, Delete)]


def test_equal_numbers_are_ordered_by_creation_and_name() -> None:
    first = make_recorded(1, name="c")
    later, last = (make_recorded(1, name=name, created="2026-01-02T00:00:00Z") for name in "ab")
    assert sorted((last, first, later), key=age) == [first, later, last]
    assert newest([later, last, first]) is last
    assert newest([]) is None


def test_next_number() -> None:
    assert next_number([]) == 1
    assert next_number([make_recorded(3), make_recorded(12), make_recorded(4)]) == 13


def test_find() -> None:
    old, new = make_recorded(1, key="k"), make_recorded(2, key="k")
    assert find([old, new, make_recorded(3)], "k") is new
    assert find([old, new], "other") is None
    assert find([old, new], "") is None


@pytest.mark.parametrize(
    ("live", "limit", "expected"),
    [
        pytest.param(set(), 0, [1, 2, 3, 5], id="none is kept"),
        pytest.param(set(), 10, [], id="all are kept"),
        pytest.param(set(), 2, [1, 2], id="the newest are kept"),
        pytest.param({"key-1", "key-3"}, 0, [2, 5], id="live ones are kept"),
        pytest.param({"key-1", "key-3"}, 1, [2], id="live ones do not count"),
        pytest.param({"key-1", "key-2", "key-3", "key-5"}, 0, [], id="all live"),
    ],
)
def test_prunable(live: set[str], limit: int, expected: list[int]) -> None:
    recorded = [make_recorded(number) for number in (6, 3, 1, 2, 5, 4)]
    assert pruned(recorded, {*live, "key-4"}, limit) == expected, (
        "never the current 4 nor the newest 6, oldest first"
    )


def test_broken_revisions_are_pruned_last_and_protect_no_key() -> None:
    recorded = [make_recorded(number) for number in range(1, 7)]
    recorded[1] = replace(recorded[1], broken="it is")
    recorded[3] = replace(recorded[3], broken="it is")
    by_limit = [pruned(recorded, {"key-4"}, limit) for limit in (4, 3, 2, 1, 0)]
    assert by_limit == [[1], [1, 3], [1, 3, 5], [1, 3, 5, 2], [1, 3, 5, 2, 4]]


def test_orphaned_and_terminating_revisions_are_not_pruned() -> None:
    recorded = [make_recorded(1, is_orphan=True), make_recorded(2, is_terminating=True), make_recorded(3)]
    assert pruned(recorded, set(), 0) == []
    assert pruned([], set(), 0) == []
