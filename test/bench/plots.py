"""How do results look as pictures? Plain SVG, which a browser and a code host show as they are.

In: numbers with their names; folded stacks. Out: the text of one SVG each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _LEFT, _RIGHT, _BAR, _GAP = 760, 190, 90, 16, 10
_COLOURS = ("#3b6ea5", "#c8963e", "#6b8f5a", "#9c5b5b")
_STYLE = "font-family:sans-serif;font-size:12px"
_TALL = 320
_FLAME_ROW, _THINNEST = 16, 1.5


@dataclass(frozen=True)
class Bars:
    """A group of bars per label. values: label → one number for each series, None where there is none.

    limit: label → where a mark stands, such as a figure to reach.
    """

    title: str
    unit: str
    series: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    limit: Mapping[str, float]


def bars(chart: Bars) -> str:
    """Horizontal bars, each with its number."""
    numbers = [each for row in chart.values.values() for each in row if each is not None]
    longest = max([*numbers, *chart.limit.values()], default=1.0) or 1.0
    scale = (_WIDTH - _LEFT - _RIGHT) / longest
    parts, top = [_text(8, 20, chart.title, "font-weight:bold"), *_legend(chart)], 48
    for label, row in chart.values.items():
        height = _BAR * len(row)
        parts.append(_text(_LEFT - 8, top + height / 2 + 4, label, "text-anchor:end"))
        for number, value in enumerate(row):
            if value is not None:
                parts.append(_bar(top + number * _BAR, value * scale, _COLOURS[number]))
                shown = f"{value:.3g} {chart.unit}"
                parts.append(_text(_LEFT + value * scale + 4, top + number * _BAR + 12, shown))
        if label in chart.limit:
            at = _LEFT + chart.limit[label] * scale
            parts.append(f'<path d="M{at:.1f} {top - 3}V{top + height + 1}" stroke="#c00" stroke-width="2"/>')
        top += height + _GAP
    return _svg(top, parts)


@dataclass(frozen=True)
class Lines:
    """A line per series through its points (x, y), which come in order of x."""

    title: str
    x: str
    series: Mapping[str, Sequence[tuple[float, float]]]


def lines(chart: Lines) -> str:
    """Each line with its last value, and dashed what it would be if it grew in proportion to x."""
    points = [each for row in chart.series.values() for each in row]
    right, top = (max(each[axis] for each in points) or 1.0 for axis in (0, 1))
    across, up = (_WIDTH - 60 - _LEFT) / right, (_TALL - 70) / top

    def place(x: float, y: float) -> str:
        return f"{40 + x * across:.1f} {_TALL - 30 - min(y, top * 1.05) * up:.1f}"

    parts = [_text(8, 20, chart.title, "font-weight:bold")]
    parts.append(f'<path d="M{place(0, 0)}L{place(right, 0)}M{place(0, 0)}L{place(0, top)}" stroke="#888"/>')
    for x in sorted({each[0] for each in points}):
        at = 40 + x * across
        parts.append(_text(at, _TALL - 12, f"{x:g} {chart.x}", "text-anchor:middle"))
    for number, (name, row) in enumerate(chart.series.items()):
        colour = f'fill="none" stroke="{_COLOURS[number % len(_COLOURS)]}"'
        first, last = row[0], row[-1]
        course = "L".join(place(*each) for each in row)
        straight = min(last[0] * first[1] / first[0], top * 1.05)
        parts.append(f'<path d="M{course}" {colour} stroke-width="2"/>')
        parts.append(
            f'<path d="M{place(*first)}L{place(last[0], straight)}" {colour} stroke-dasharray="3 4"/>'
        )
        label = 44 + last[0] * across, 44 + number * 18
        parts.append(_text(*label, f"{name}: {last[1]:.3g}", f"fill:{_COLOURS[number % len(_COLOURS)]}"))
    return _svg(_TALL, parts)


def flames(stacks: Iterable[tuple[Sequence[str], int]], title: str) -> str:
    """A flame graph: callers below, width is CPU time. stacks: frames from the outside in, and samples."""
    root: _Frame = _Frame("all", {})
    for frames, samples in stacks:
        root.add(frames, samples)
    depth = root.depth_above(_THINNEST * root.samples / _WIDTH)
    height = 40 + _FLAME_ROW * depth
    parts = [_text(8, 20, f"{title} ({root.samples} samples)", "font-weight:bold")]
    _draw(root, 0.0, _WIDTH / max(1, root.samples), height - _FLAME_ROW, parts)
    return _svg(height, parts)


@dataclass
class _Frame:
    name: str
    callees: dict[str, _Frame]
    samples: int = 0

    def add(self, frames: Sequence[str], samples: int) -> None:
        at = self
        at.samples += samples
        for name in frames:
            at = at.callees.setdefault(name, _Frame(name, {}))
            at.samples += samples

    def depth_above(self, fewest: float) -> int:
        wide = [each for each in self.callees.values() if each.samples >= fewest]
        return 1 + max((each.depth_above(fewest) for each in wide), default=0)


def _draw(frame: _Frame, left: float, scale: float, top: float, parts: list[str]) -> None:
    width = frame.samples * scale
    if width < _THINNEST:
        return
    hue = 20 + sum(frame.name.encode()) % 35
    name = escape(frame.name)
    shown = escape(frame.name[: int(width / 6.5)]) if width > 24 else ""
    parts.append(
        f'<g><title>{name}: {frame.samples}</title><rect x="{left:.1f}" y="{top:.0f}" width="{width:.1f}" '
        f'height="{_FLAME_ROW - 1}" fill="hsl({hue},75%,68%)"/><text x="{left + 2:.1f}" y="{top + 12:.0f}" '
        f'style="font-size:10px">{shown}</text></g>'
    )
    for callee in sorted(frame.callees.values(), key=lambda each: each.name):
        _draw(callee, left, scale, top - _FLAME_ROW, parts)
        left += callee.samples * scale


def _legend(chart: Bars) -> Iterable[str]:
    left = 8.0
    for number, name in enumerate(chart.series):
        yield f'<rect x="{left:.0f}" y="28" width="10" height="10" fill="{_COLOURS[number]}"/>'
        yield _text(left + 14, 37, name)
        left += 30 + 7.0 * len(name)
    if chart.limit:
        yield f'<path d="M{left + 4:.0f} 27V39" stroke="#c00" stroke-width="2"/>'
        yield _text(left + 10, 37, "to reach")


def _bar(top: float, width: float, colour: str) -> str:
    return f'<rect x="{_LEFT}" y="{top:.0f}" width="{width:.1f}" height="{_BAR - 2}" fill="{colour}"/>'


def _text(left: float, top: float, text: str, style: str = "") -> str:
    return f'<text x="{left:.0f}" y="{top:.0f}" style="{style}">{escape(text)}</text>'


def _svg(height: float, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" '
        f'style="{_STYLE}">\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )
