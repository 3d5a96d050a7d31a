"""tools.pictures.dashboard: panels and their lines, drawn from recorded data."""

from __future__ import annotations

from typing import Any

import pytest

from tools.pictures.dashboard import drawn_dashboard


def recording(unit: str = "short", **lines: list[list[float]]) -> dict[str, Any]:
    return {"seconds": 60, "panels": {"Groups ready": {"unit": unit, "lines": lines}}}


def test_a_panel_has_its_title_its_lines_and_their_names() -> None:
    text = drawn_dashboard(recording(ready=[[0, 0], [30, 4]], desired=[[0, 4], [30, 4]]))
    assert ">Groups ready<" in text and ">ready<" in text and ">desired<" in text
    # The highest value is at the upper edge of the plot, 0 at the lower one.
    assert 'd="M74.0 186.0L218.0 74.0"' in text


def test_a_legend_counts_omitted_lines() -> None:
    names = {f"a rather long name of a line, number {number}": [[0.0, 1.0]] for number in range(6)}
    assert ">and 4 more<" in drawn_dashboard(recording(**names))


def test_the_highest_lines_come_first() -> None:
    flat = {f"none of kind {number}": [[0.0, 0.0]] for number in range(8)}
    text = drawn_dashboard(recording(**flat, many=[[0.0, 1.0], [30.0, 9.0]]))
    assert text.index(">many<") < text.index(">none of kind 0<")
    assert ">none of kind 7<" not in text


def test_a_name_that_is_wider_than_its_panel_is_clipped() -> None:
    text = drawn_dashboard(recording(**{"x" * 200: [[0.0, 1.0]]}))
    assert "x…<" in text and "x" * 60 not in text


@pytest.mark.parametrize(
    ("unit", "value", "label"),
    [
        ("bytes", 104_857_600.0, "100 MiB"),
        ("s", 864_000.0, "10 d"),
        ("s", 0.25, "250 ms"),
        ("s", 30.0, "30 s"),
        ("ops", 1234.0, "1,234"),
    ],
)
def test_the_axis_has_the_unit_of_the_panel(unit: str, value: float, label: str) -> None:
    assert f">{label}<" in drawn_dashboard(recording(unit, line=[[0.0, value]]))
