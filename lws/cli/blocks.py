"""What a command has to show, before anything is known about the terminal: lines, tables, a bar.

In: texts. Out: frozen blocks that `lws.cli.views.screen` draws, as plain text or in colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_GAP = 3


@dataclass(frozen=True, slots=True)
class Text:
    """A text and how it looks where there is colour: a style such as "bold red"."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns under headings in capitals, as kubectl has them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]

    def lines(self) -> Iterator[str]:
        """Plain: columns as wide as their widest text, nothing cut, no spaces at the end."""
        rows = [self.columns, *(tuple(cell.text for cell in row) for row in self.rows)]
        widths = [max(map(len, column)) + _GAP for column in zip(*rows, strict=True)]
        for row in rows:
            yield "".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


@dataclass(frozen=True, slots=True)
class Bar:
    """done of total, with what it is about."""

    done: int
    total: int
    what: str


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two texts, line by line; a gap is None. The styles say where they differ."""

    headings: tuple[str, str]
    rows: tuple[tuple[Text | None, Text | None], ...]


Block = Text | Table | Bar | SideBySide


def row(*cells: str | Text) -> tuple[Text, ...]:
    """A row of a table."""
    return tuple(cell if isinstance(cell, Text) else Text(cell) for cell in cells)


def plain(blocks: Iterable[Block]) -> Iterator[str]:
    """Lines of plain text, whatever their length."""
    for block in blocks:
        match block:
            case Text():
                yield block.text
            case Table():
                yield from block.lines()
            case Bar():
                yield f"{block.what}: {block.done} of {block.total}"
            case SideBySide():
                yield from _columns(block)


def _columns(block: SideBySide) -> Iterator[str]:
    left = [block.headings[0], *(one.text if one else "" for one, _ in block.rows)]
    right = [block.headings[1], *(two.text if two else "" for _, two in block.rows)]
    width = max(map(len, left)) + _GAP
    for one, two in zip(left, right, strict=True):
        yield f"{one.ljust(width)}{two}".rstrip()


def described(facts: Mapping[str, str], sections: Mapping[str, Iterable[str]]) -> Iterator[Text]:
    """A line for each fact, then each section with its heading, as `kubectl describe` shows them."""
    for name, value in facts.items():
        yield Text(f"{name + ':':<14}{value}")
    for heading, lines in sections.items():
        yield Text(f"{heading}:", "bold")
        yield from (Text(f"  {line}") for line in lines)
