"""How is one group or pod drawn, whose state is a letter of a golden story?

In: a canvas, and where. Out: a sign on it, or a line of the legend.
"""

from __future__ import annotations

from tools.pictures.canvas import Canvas

MISSING = "-"
NEW = "RuT"
_READY = "rR"
_RADIUS = 7
_LEGEND_ROW, _SIGN = 24, 22


def draw_sign(canvas: Canvas, x: float, y: float, letter: str) -> None:
    """A circle: filled if new, dashed if not ready, crossed out on its way out; a dot for none."""
    if letter == MISSING:
        canvas.add("circle", "f-old", cx=x, cy=y, r=2)
        return
    line = "s-new" if letter in NEW else "s-old"
    kind = f"f-new {line}" if letter == "R" else f"f-page {line} w{'' if letter in _READY else ' d'}"
    canvas.add("circle", kind, cx=x, cy=y, r=_RADIUS)
    if letter in "tT":
        canvas.add("path", f"n {line} w", d=f"M{x - 4} {y - 4}l8 8m0 -8l-8 8")


def draw_ring(canvas: Canvas, x: float, y: float) -> None:
    """What is done something to in this step."""
    canvas.add("circle", "n s-alert w", cx=x, cy=y, r=_RADIUS + 4)


def legend_place(number: int, columns: int, area: tuple[float, float, float]) -> tuple[float, float]:
    """The middle of a sign in the legend. area: left, top and width of the whole."""
    left, top, width = area
    row, column = divmod(number, columns)
    return left + _SIGN / 2 + column * width / columns, top + row * _LEGEND_ROW


def explain(canvas: Canvas, place: tuple[float, float], meaning: str) -> None:
    """The words beside a sign of the legend."""
    canvas.text(place[0] + 18, place[1] + 4.5, meaning, "f-muted")
