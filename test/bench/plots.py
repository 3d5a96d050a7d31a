"""Draw figures of the benchmark: bars, lines and flame graphs. The functions are pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tools.pictures.canvas import LINE_HEIGHT, Canvas, text_width

_WIDTH, _MARGIN = 760, 16
_NUMBERS = 100
_BAR, _GAP = 15, 10
_COLOURS = ("new", "old", "third", "fourth")
_TALL, _AXIS, _STEPS = 340, 56, 4
_SWATCH = 12
_ROW, _THINNEST, _LETTER = 16, 1.5, 6.5
_SHADES = ("#f6c177", "#f2ab6b", "#eda063", "#f4b860")


@dataclass(frozen=True)
class Bars:
    """A group of bars per label.

    values: for each label, one number for each series, or None. limits: for each label, the position of its
    target.
    """

    title: str
    unit: str
    series: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    limits: Mapping[str, float] = field(default_factory=dict)


def bars(chart: Bars) -> str:
    """Return horizontal bars, each with its number."""
    numbers = [value for row in chart.values.values() for value in row if value is not None]
    longest = max([*numbers, *chart.limits.values()], default=1.0) or 1.0
    left = 2 * _MARGIN + max((text_width(label) for label in chart.values), default=0.0)
    scale = (_WIDTH - left - _NUMBERS) / longest
    canvas = Canvas(_WIDTH, chart.title, _described(chart))
    canvas.text(_MARGIN, 26, chart.title, "f-text b")
    top = _legend(canvas, chart.series if len(chart.series) > 1 else (), bool(chart.limits))
    for label, row in chart.values.items():
        height, limit = _BAR * len(row), chart.limits.get(label, 0.0)
        canvas.text(left - 8, top + height / 2 + 4, label, "f-text", "end")
        for number, value in enumerate(row):
            if value is not None:
                at = top + number * _BAR
                width, kind = max(value * scale, 1), f"f-{_COLOURS[number]}"
                canvas.add("rect", kind, x=left, y=at, width=width, height=_BAR - 3)
                end = left + max(value, limit) * scale
                canvas.text(end + 7, at + 11, _with_unit(value, chart.unit), "f-muted")
        if limit:
            mark = f"M{left + limit * scale:.1f} {top - 3}v{height + 3}"
            canvas.add("path", "n s-page", d=mark, stroke_width=6)
            canvas.add("path", "n s-alert w", d=mark)
        top += height + _GAP
    return canvas.render(top + 4)


@dataclass(frozen=True)
class Lines:
    """A line per series through its points (x, y), sorted by x. unit: of all y."""

    title: str
    x: str
    unit: str
    series: Mapping[str, Sequence[tuple[float, float]]]


def lines(chart: Lines) -> str:
    """Return each line with its last value, and a dashed line for growth in proportion to x."""
    points = [point for row in chart.series.values() for point in row]
    right, highest = (max(point[axis] for point in points) or 1.0 for axis in (0, 1))
    ends = [f"{name} {row[0][1]:.3g} to {row[-1][1]:.3g} {chart.unit}" for name, row in chart.series.items()]
    canvas = Canvas(_WIDTH, chart.title, "; ".join(ends))
    canvas.text(_MARGIN, 26, chart.title, "f-text b")
    top = _legend(canvas, list(chart.series), False)
    canvas.text(_WIDTH - _MARGIN, 26, "dashed: in proportion to the smallest", "f-muted", "end")
    across, up = (_WIDTH - _AXIS - _NUMBERS) / right, (_TALL - top - 34) / highest

    def place(x: float, y: float) -> tuple[float, float]:
        return round(_AXIS + x * across, 1), round(_TALL - 34 - min(y, highest) * up, 1)

    for step in range(_STEPS + 1):
        level = place(0, highest * step / _STEPS)[1]
        canvas.add("path", "n s-rule", d=f"M{_AXIS} {level}H{_WIDTH - _NUMBERS}")
        canvas.text(_AXIS - 8, level + 4, f"{highest * step / _STEPS:.3g}", "f-muted", "end")
    for x in sorted({point[0] for point in points}):
        canvas.text(place(x, 0)[0], _TALL - 12, f"{x:g} {chart.x}", "f-muted", "middle")
    for row, colour in zip(chart.series.values(), _COLOURS, strict=False):
        (x, y), last = row[0], row[-1]
        course = "L".join("{} {}".format(*place(*point)) for point in row)
        # The proportional line ends at the edge of the plot.
        end = min(last[0], highest / y * x) if y else last[0]
        straight = "{} {}L{} {}".format(*place(x, y), *place(end, y * end / x))
        canvas.add("path", f"n s-{colour} w", d=f"M{course}")
        canvas.add("path", f"n s-{colour} d", d=f"M{straight}")
    _ends(canvas, [(place(*row[-1]), f"{row[-1][1]:.3g} {chart.unit}") for row in chart.series.values()])
    return canvas.render(_TALL)


def _ends(canvas: Canvas, ends: Sequence[tuple[tuple[float, float], str]]) -> None:
    """Write the last value of each line next to its end, without overlaps."""
    lowest = float(_TALL)
    for ((x, y), words), colour in sorted(
        zip(ends, _COLOURS, strict=False), reverse=True, key=lambda pair: pair[0][0][1]
    ):
        lowest = min(y + 4, lowest - LINE_HEIGHT + 2)
        canvas.text(x + 8, lowest, words, f"f-{colour}")


def _legend(canvas: Canvas, series: Sequence[str], has_limits: bool) -> float:
    """Draw the legend, and return where the plot may begin."""
    left, top = float(_MARGIN), 40
    for name, colour in zip(series, _COLOURS, strict=False):
        canvas.add("rect", f"f-{colour}", x=left, y=top, width=_SWATCH, height=_SWATCH)
        canvas.text(left + _SWATCH + 6, top + 11, name, "f-muted")
        left += _SWATCH + 26 + text_width(name)
    if has_limits:
        canvas.add("path", "n s-alert w", d=f"M{left + 4:.1f} {top - 1}v{_SWATCH + 2}")
        canvas.text(left + 12, top + 11, "to reach", "f-muted")
    return top + _SWATCH + 16 if series or has_limits else top + 4


def _described(chart: Bars) -> str:
    rows = (
        f"{label}: {', '.join(_with_unit(value, chart.unit) for value in row if value is not None)}"
        for label, row in chart.values.items()
    )
    return f"{', '.join(chart.series)}. {'; '.join(rows)}"


def _with_unit(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}".rstrip() if value >= 1000 else f"{value:.3g} {unit}".rstrip()


def flames(stacks: Iterable[tuple[Sequence[str], int]], title: str) -> str:
    """Return a flame graph: callers below, width is CPU time.

    stacks: frames, outermost first, and the number of samples.
    """
    root: _Frame = _Frame("all", {})
    for frames, samples in stacks:
        root.add(frames, samples)
    depth = root.depth_above(_THINNEST * root.samples / _WIDTH)
    height = 40 + _ROW * depth
    canvas = Canvas(_WIDTH, title, f"{root.samples} samples, in stacks of up to {depth} frames")
    canvas.text(8, 20, f"{title} ({root.samples} samples)", "f-text b")
    _draw(canvas, root, (0.0, height - _ROW), _WIDTH / max(1, root.samples))
    return canvas.render(height)


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
        wide = [callee for callee in self.callees.values() if callee.samples >= fewest]
        return 1 + max((callee.depth_above(fewest) for callee in wide), default=0)


def _draw(canvas: Canvas, frame: _Frame, corner: tuple[float, float], scale: float) -> None:
    width, (left, top) = frame.samples * scale, corner
    if width < _THINNEST:
        return
    shade = _SHADES[sum(frame.name.encode()) % len(_SHADES)]
    bar = canvas.add("rect", "", x=left, y=top, width=width, height=_ROW - 1, fill=shade)
    canvas.hint(bar, f"{frame.name}: {frame.samples}")
    if width > 24:
        label = frame.name[: int(width / _LETTER)]
        canvas.add("text", "", x=left + 2, y=top + 12, style="font-size:10px").text = label
    for callee in sorted(frame.callees.values(), key=lambda callee: callee.name):
        _draw(canvas, callee, (left, top - _ROW), scale)
        left += callee.samples * scale
