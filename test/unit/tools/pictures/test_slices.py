"""tools.pictures.steps: one line for each row, with the groups of each role."""

from __future__ import annotations

from xml.etree import ElementTree

from tools.pictures.steps import drawn_slice
from tools.simulation import Row

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [
    Row({"old": {"a": 2, "b": 1}}, {"a": 0, "b": 0}),
    Row({"old": {"a": 2, "b": 1}}, {"a": 1, "b": 1}),
    Row({"old": {"a": 1}, "older": {"b": 1}}, {"a": 1, "b": 1}),
    Row({}, {"a": 2, "b": 1}),
]


def test_each_step_describes_its_change() -> None:
    root = ElementTree.fromstring(drawn_slice("a title", ROWS))
    assert root.findtext(f"{SVG}title") == "a title"
    assert root.findtext(f"{SVG}desc") == "new: a 1, b 1. old: a 1. new: a 2; old: a 0, b 0"
    words = [element.text for element in root.iter(f"{SVG}text")]
    steps = ["before the rollout", "new: a 1, b 1", "old: a 1", "new: a 2; old: a 0, b 0"]
    assert [word for word in words if word in steps] == steps
    assert {"a", "b"} <= set(words)
