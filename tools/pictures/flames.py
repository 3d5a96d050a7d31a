"""How does a flame graph look?

In: folded stacks. Out: the text of an SVG. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tools.pictures.canvas import Canvas

_WIDTH = 760
_ROW, _THINNEST, _LETTER = 16, 1.5, 6.5
_SHADES = ("#f6c177", "#f2ab6b", "#eda063", "#f4b860")


def flames(stacks: Iterable[tuple[Sequence[str], int]], title: str) -> str:
    """A flame graph: callers below, width is CPU time. stacks: frames from the outside in, and samples."""
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
        wide = [each for each in self.callees.values() if each.samples >= fewest]
        return 1 + max((each.depth_above(fewest) for each in wide), default=0)


def _draw(canvas: Canvas, frame: _Frame, corner: tuple[float, float], scale: float) -> None:
    width, (left, top) = frame.samples * scale, corner
    if width < _THINNEST:
        return
    shade = _SHADES[sum(frame.name.encode()) % len(_SHADES)]
    bar = canvas.add("rect", "", x=left, y=top, width=width, height=_ROW - 1, fill=shade)
    canvas.hint(bar, f"{frame.name}: {frame.samples}")
    if width > 24:
        shown = frame.name[: int(width / _LETTER)]
        canvas.add("text", "", x=left + 2, y=top + 12, style="font-size:10px").text = shown
    for callee in sorted(frame.callees.values(), key=lambda each: each.name):
        _draw(canvas, callee, (left, top - _ROW), scale)
        left += callee.samples * scale
