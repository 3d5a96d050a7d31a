"""Write SVG that is legible on light and dark pages and accessible to screen readers."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from xml.etree import ElementTree as ET

FONT_SIZE = 13
MARGIN = 16
LINE_HEIGHT = 18
_LETTER = 0.56
"""The average width of a letter of running text divided by its height, in the widest of the usual fonts."""

_COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "text": ("#1f2328", "#e6edf3"),
    "muted": ("#59636e", "#9198a1"),
    "rule": ("#d1d9e0", "#3d444d"),
    "old": ("#818b98", "#9198a1"),
    "new": ("#0969da", "#4493f8"),
    "wash": ("#ddf4ff", "#15233a"),
    "alert": ("#bc4c00", "#f0883e"),
    "amber": ("#9a6700", "#d29922"),
    "third": ("#1a7f37", "#3fb950"),
    "fourth": ("#8250df", "#ab7df8"),
}
_FONT = "font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"
_MONOSPACE = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px"
MISSING = "-"
NEW = "RuT"
_READY = "rR"
_RADIUS = 7
_LEGEND_ROW, _SIGN = 24, 22


class Canvas:
    """A picture of a fixed width, whose height is set when it is rendered."""

    def __init__(self, width: int, title: str, description: str) -> None:
        self.width = width
        self._root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img"})
        self._root.set("aria-labelledby", "title description")
        ET.SubElement(self._root, "title", {"id": "title"}).text = title
        ET.SubElement(self._root, "desc", {"id": "description"}).text = description
        ET.SubElement(self._root, "style").text = _style()
        self._page = self.add("rect", "f-page s-rule", x=0.5, y=0.5, rx=6)

    def add(self, shape: str, kind: str, **attributes: float | str) -> ET.Element:
        """Add a shape; `kind` is its classes, `f-COLOUR` for the fill and `s-COLOUR` for the line."""
        values = {name.replace("_", "-"): _number(value) for name, value in attributes.items()}
        return ET.SubElement(self._root, shape, {"class": kind, **values})

    def text(self, x: float, y: float, words: str, kind: str = "f-text", anchor: str = "start") -> None:
        """Add a line of text with base line y; `anchor` is the end of the text that is at x."""
        extra = {} if anchor == "start" else {"text-anchor": anchor}
        self.add("text", kind, x=x, y=y, **extra).text = words

    def words(self, x: float, y: float, words: str, width: float) -> int:
        """Add lines of text no wider than `width`, from the base line y on, and return their number."""
        lines = wrapped(words, width)
        for number, line in enumerate(lines):
            self.text(x, y + number * LINE_HEIGHT, line)
        return len(lines)

    def hint(self, shape: ET.Element, words: str) -> None:
        """Set the text that a browser shows when the pointer rests on a shape."""
        ET.SubElement(shape, "title").text = words

    def render(self, height: float) -> str:
        """Return the whole SVG."""
        size = {"width": str(self.width), "height": _number(round(height))}
        self._root.attrib |= {**size, "viewBox": f"0 0 {size['width']} {size['height']}"}
        self._page.attrib |= {"width": str(self.width - 1), "height": _number(round(height) - 1)}
        ET.indent(self._root, " ")
        return ET.tostring(self._root, encoding="unicode") + "\n"


def text_width(words: str) -> float:
    """Return the maximum width of a line, in pixels."""
    return len(words) * FONT_SIZE * _LETTER


def wrapped(words: str, width: float) -> list[str]:
    """Split a text into lines that are no wider than this number of pixels."""
    return wrap(words, max(10, int(width / (FONT_SIZE * _LETTER))))


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):g}"


def _style() -> str:
    def rules(shade: int) -> str:
        return "".join(
            f".f-{name}{{fill:{shades[shade]}}}.s-{name}{{stroke:{shades[shade]}}}"
            for name, shades in _COLOURS.items()
        )

    base = (
        f"text{{{_FONT};font-size:{FONT_SIZE}px}}.b{{font-weight:600}}.n{{fill:none}}"
        f".w{{stroke-width:2}}.d{{stroke-dasharray:3 3}}.m{{{_MONOSPACE}}}"
    )
    return f"{base}{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}"


def draw_sign(canvas: Canvas, x: float, y: float, letter: str) -> None:
    """Draw a circle: filled if new, dashed if not ready, crossed if terminating; a dot if it is missing."""
    if letter == MISSING:
        canvas.add("circle", "f-old", cx=x, cy=y, r=2)
        return
    line = "s-new" if letter in NEW else "s-old"
    kind = f"f-new {line}" if letter == "R" else f"f-page {line} w{'' if letter in _READY else ' d'}"
    canvas.add("circle", kind, cx=x, cy=y, r=_RADIUS)
    if letter in "tT":
        canvas.add("path", f"n {line} w", d=f"M{x - 4} {y - 4}l8 8m0 -8l-8 8")


def draw_ring(canvas: Canvas, x: float, y: float) -> None:
    """Draw a ring around a sign on which this step acts."""
    canvas.add("circle", "n s-alert w", cx=x, cy=y, r=_RADIUS + 4)


def draw_legend(
    canvas: Canvas, top: float, meanings: Mapping[str, str], columns: int, further: int = 0
) -> list[tuple[float, float]]:
    """Draw a line across, and below it signs with their meanings. Return the positions of further signs."""
    across = canvas.width - 2 * MARGIN
    canvas.add("path", "n s-rule", d=f"M{MARGIN} {top}H{canvas.width - MARGIN}")
    positions = [
        (MARGIN + _SIGN / 2 + column * across / columns, top + 20 + row * _LEGEND_ROW)
        for row, column in (divmod(number, columns) for number in range(len(meanings) + further))
    ]
    for position, (letter, meaning) in zip(positions, meanings.items(), strict=False):
        draw_sign(canvas, *position, letter)
        explain(canvas, position, meaning)
    return positions[len(meanings) :]


def explain(canvas: Canvas, position: tuple[float, float], meaning: str) -> None:
    """Write the words beside a sign of the legend."""
    canvas.text(position[0] + 18, position[1] + 4.5, meaning, "f-muted")
