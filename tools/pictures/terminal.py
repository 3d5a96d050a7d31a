"""Draw a terminal at one moment, from the output of a program. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.pictures.canvas import Canvas

_CELL, _LINE = 7.2, 17
_MARGIN, _BAR = 16, 34
_STYLED = re.compile(r"\x1b\[([0-9;]*)m")
_WORDS = re.compile(r"\S+(?: \S+)*")
_COLOURS = {31: "alert", 32: "third", 33: "amber", 34: "new", 35: "fourth", 36: "new", 90: "old", 91: "alert"}
_BOLD, _FAINT = 1, 2


def drawn_terminal(text: str, title: str) -> str:
    """Draw a window with these lines; `title` describes it for readers who cannot see it."""
    plain = _STYLED.sub("", text)
    lines = text.splitlines()
    columns = max(map(len, plain.splitlines()))
    width = round(2 * _MARGIN + columns * _CELL)
    canvas = Canvas(width, title, " / ".join(line.strip() for line in plain.splitlines() if line.strip()))
    for number, colour in enumerate(("alert", "amber", "third")):
        canvas.add("circle", f"f-{colour}", cx=_MARGIN + 5 + number * 18, cy=18, r=5)
    canvas.add("path", "n s-rule", d=f"M1 {_BAR}H{width - 1}")
    for row, line in enumerate(lines):
        for column, words, kind in _runs(line):
            shape = canvas.add("text", kind, x=_MARGIN + column * _CELL, y=_BAR + 22 + row * _LINE)
            shape.set("textLength", f"{len(words) * _CELL:.1f}")
            shape.text = words
    return canvas.render(_BAR + 22 + len(lines) * _LINE)


def _runs(line: str) -> Iterator[tuple[int, str, str]]:
    """Yield words of one style that stand together, with their column and their classes."""
    column = 0
    codes: tuple[int, ...] = ()
    for number, part in enumerate(_STYLED.split(line)):
        if number % 2:
            codes = tuple(int(code or 0) for code in part.split(";"))
            continue
        for match in _WORDS.finditer(part):
            yield column + match.start(), match[0], _kind(codes)
        column += len(part)


def _kind(codes: tuple[int, ...]) -> str:
    """Return the classes of a style. rich ends each style before the next, so one sequence says it all."""
    colour = next((_COLOURS[code] for code in codes if code in _COLOURS), "text")
    if _FAINT in codes and colour == "text":
        colour = "muted"
    return f"m f-{colour}{' b' if _BOLD in codes else ''}"
