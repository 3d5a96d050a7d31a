"""Draw the panels of the chart's dashboard. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.pictures.canvas import Canvas, text_width

_BOARD, _BETWEEN, _COLUMNS = 1140, 14, 3
_PANEL, _HEIGHT, _PLOT, _LEGEND = 362, 214, 112, 3
_COLOURS = ("new", "third", "fourth", "alert", "amber", "old")
_TITLE = "The dashboard of the chart, while sets are created, rolled and recovered"
_PanelLines = Mapping[str, Sequence[tuple[float, float]]]

RECORDING = Path(__file__).parent / "recordings" / "dashboard.json"


def drawn_dashboard(recording: Mapping[str, Any]) -> str:
    """Draw the panels in rows of three, in the order of the dashboard."""
    panels: Mapping[str, Mapping[str, Any]] = recording["panels"]
    canvas = Canvas(_BOARD, _TITLE, "; ".join(panels))
    canvas.text(_BETWEEN, 26, _TITLE, "f-text b")
    seconds = f"{recording['seconds']} s, scraped once a second by a real Prometheus"
    canvas.text(_BOARD - _BETWEEN, 26, seconds, "f-muted", "end")
    for number, (title, panel) in enumerate(panels.items()):
        left = _BETWEEN + number % _COLUMNS * (_PANEL + _BETWEEN)
        top = 40 + number // _COLUMNS * (_HEIGHT + _BETWEEN)
        _panel(canvas, left, top, title, panel, recording["seconds"])
    rows = -(-len(panels) // _COLUMNS)
    return canvas.render(40 + rows * (_HEIGHT + _BETWEEN))


def _panel(
    canvas: Canvas, left: float, top: float, title: str, panel: Mapping[str, Any], seconds: float
) -> None:
    # The lines with the highest values come first, because there are colours for six lines and names for
    # fewer.
    lines: _PanelLines = dict(sorted(panel["lines"].items(), key=lambda line: -max(y for _, y in line[1])))
    canvas.add("rect", "n s-rule", x=left, y=top, width=_PANEL, height=_HEIGHT, rx=4)
    canvas.text(left + 10, top + 19, title, "f-text b")
    values = [value for row in lines.values() for _, value in row]
    highest, lowest = max([*values, 0.0]) or 1.0, min([*values, 0.0])
    floor, right = top + 34 + _PLOT, left + 60
    across = (_PANEL - 74) / max(seconds, 1.0)
    for share in (0.0, 0.5, 1.0):
        at = floor - share * _PLOT
        canvas.add("path", "n s-rule", d=f"M{right} {at:.1f}H{left + _PANEL - 14}")
        canvas.text(
            right - 6, at + 4, _quantity(lowest + share * (highest - lowest), panel["unit"]), "f-muted", "end"
        )
    for row, colour in zip(lines.values(), _COLOURS, strict=False):
        points = [
            f"{right + x * across:.1f} {floor - (y - lowest) / (highest - lowest) * _PLOT:.1f}"
            for x, y in row
        ]
        canvas.add("path", f"n s-{colour} w", d=f"M{'L'.join(points)}")
    _panel_legend(canvas, left + 12, floor + 20, list(lines))


def _panel_legend(canvas: Canvas, left: float, top: float, names: Sequence[str]) -> None:
    """Draw as many names as there is room for, and the number of further names."""
    at, line = left, 0
    for number, (full, colour) in enumerate(zip(names, _COLOURS, strict=False)):
        name = _clipped(full)
        width = 26 + text_width(name)
        if at > left and at + width > left + _PANEL - 24:
            at, line = left, line + 1
        if line == _LEGEND - 1 and number < len(names) - 1:
            canvas.text(at, top + line * 18, f"and {len(names) - number} more", "f-muted")
            return
        canvas.add("rect", f"f-{colour}", x=at, y=top + line * 18 - 9, width=10, height=10)
        canvas.text(at + 14, top + line * 18, name, "f-muted")
        at += width


def _clipped(name: str) -> str:
    length = len(name)
    while text_width(name[:length]) > _PANEL - 60:
        length -= 1
    return name if length == len(name) else f"{name[: length - 1]}…"


def _quantity(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1024**2:.0f} MiB"
    if unit == "s" and value >= 86_400:
        return f"{value / 86_400:.0f} d"
    if unit == "s" and 0 < value < 1:
        return f"{value * 1000:.3g} ms"
    words = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{words} s" if unit == "s" else words
