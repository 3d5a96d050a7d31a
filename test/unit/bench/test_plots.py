"""test.bench.plots: figures as SVG."""

from __future__ import annotations

from xml.etree import ElementTree

from test.bench.plots import Bars, Lines, bars, flames, lines


def _shapes(text: str, tag: str) -> list[ElementTree.Element]:
    return [element for element in ElementTree.fromstring(text).iter() if element.tag.endswith(f"}}{tag}")]


def _position(text: str, words: str, axis: str) -> float:
    return next(float(element.get(axis, "")) for element in _shapes(text, "text") if element.text == words)


def test_bars_are_proportional_to_their_numbers() -> None:
    text = bars(Bars("Time", "s", ("one", "two"), {"a": (2.0, 1.0), "b <c>": (1234.0, None)}))
    widths = [
        float(element.get("width", "")) for element in _shapes(text, "rect") if element.get("height") == "12"
    ]
    drawn = sorted(widths)[-1]
    assert len(widths) == 5, "two bars in the legend and none without a number"
    assert drawn > 400 and min(widths) >= 1
    assert {"2 s", "1,234 s", "b <c>", "one"} <= {element.text for element in _shapes(text, "text")}


def test_a_goal_is_marked_without_covering_a_number() -> None:
    text = bars(Bars("Writes", "", ("one",), {"a": (1.0,), "b": (4.0,)}, {"a": 2.0}))
    marks = [
        element.get("d", "") for element in _shapes(text, "path") if element.get("class") == "n s-alert w"
    ]
    assert len(marks) == 2, "one in the legend"
    assert _position(text, "1", "x") > float(marks[1].split()[0][1:])


def test_long_labels_fit() -> None:
    label = "a label that is rather long"
    text = bars(Bars("Shares", "%", ("one",), {label: (1.0,)}))
    assert _position(text, label, "x") > 7 * len(label)


def test_last_values_of_lines_do_not_overlap() -> None:
    series = {"create": [(100.0, 5.0), (400.0, 20.0)], "cpu": [(100.0, 1.0), (400.0, 20.5)]}
    text = lines(Lines("Growth", "groups", "s", series))
    assert abs(_position(text, "20 s", "y") - _position(text, "20.5 s", "y")) >= 15
    assert {"100 groups", "400 groups"} <= {element.text for element in _shapes(text, "text")}
    assert len([element for element in _shapes(text, "path") if " d" in element.get("class", "")]) == 2


def test_flames_are_proportional_to_their_samples() -> None:
    text = flames([(("main", "<run>"), 60), (("main", "wait"), 30)], "CPU")
    hints = [element.text for element in _shapes(text, "title")]
    assert {"all: 90", "<run>: 60", "wait: 30"} <= set(hints)
