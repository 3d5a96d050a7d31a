"""lws.cli.views.diff: how two revisions differ, in words and side by side."""

from __future__ import annotations

from lws.cli.blocks import SideBySide
from lws.cli.views.diff import compared, diff_data, difference_lines, headline, side_by_side
from lws.cli.views.screen import yaml_text
from lws.leaderworkerset.revisions.history import describe
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.builders import make_set
from test.unit.lws.cli.histories import past, sets

A, B = sets("app:1", "app:2")
B["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["labels"] = {"new": "yes"}
B["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["args"] = ["--x"]


def test_lines_have_the_colour_of_what_happened() -> None:
    found = past(A, B)
    old, new = found.recorded
    there = {(line.text, line.style) for line in difference_lines(describe(old, new))}
    assert there == {
        ("worker template container main args added", "green"),
        ("worker template container main image: app:1 → app:2", "yellow"),
        ("worker template label new added: yes", "green"),
    }
    back = {(line.text, line.style) for line in difference_lines(describe(new, old))}
    assert ("worker template container main args removed", "red") in back
    assert ("worker template label new removed, was yes", "red") in back


def test_headline() -> None:
    old, new = past(A, B).recorded
    assert headline(old, new).text == f"revision 1 ({old.key}) → revision 2 ({new.key})"


def test_side_by_side_shows_what_differs_and_a_little_around_it() -> None:
    left = "\n".join(["a: 1", *(f"same{i}: x" for i in range(10)), "z: 1"])
    right = "\n".join(["a: 2", *(f"same{i}: x" for i in range(10)), "z: 1", "new: 3"])
    block = side_by_side(("old", "new"), (left, right))
    assert isinstance(block, SideBySide)
    texts = [(one.text if one else None, two.text if two else None) for one, two in block.rows]
    assert texts == [
        ("a: 1", "a: 2"),
        ("same0: x", "same0: x"),
        ("same1: x", "same1: x"),
        ("⋮", "⋮"),
        ("same9: x", "same9: x"),
        ("z: 1", "z: 1"),
        (None, "new: 3"),
    ]
    first, last = block.rows[0], block.rows[-1]
    assert [each.style for each in first if each] == ["red", "green"]
    assert last[1] is not None
    assert last[1].style == "green"


def test_another_spelling_is_no_difference() -> None:
    spelled = make_set(image="app:1", template={"leaderTemplate": None})
    spelled["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["resources"] = {}
    one, two = past(A, spelled).recorded
    assert yaml_text(compared(one)) == yaml_text(compared(two))
    assert list(difference_lines(describe(one, two))) == []


def test_annotations_that_pods_depend_on_are_compared() -> None:
    placed = make_set(image="app:1", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})
    (revision,) = past(placed).recorded
    assert compared(revision)["metadata"] == {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}}


def test_data() -> None:
    old, new = past(A, B).recorded
    data = diff_data("demo", old, new, describe(old, new))
    assert data["name"] == "demo"
    assert data["from"] == {"revision": 1, "key": old.key, "name": old.name}
    assert data["to"] == {"revision": 2, "key": new.key, "name": new.name}
    assert data["changes"] == [line.text for line in difference_lines(describe(old, new))]
    assert diff_data("demo", new, new, describe(new, new))["changes"] == []
