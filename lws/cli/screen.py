"""Show lines, tables and bars, in colour on a terminal and as plain text elsewhere."""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from lws.kube.conditions import moment_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_GAP = 3
# Categories of Unicode: control characters, invisible ones that change the direction of text, line breaks.
_UNSAFE = frozenset({"Cc", "Cf", "Zl", "Zp"})
# JSON escapes the other control characters itself.
_DELETE_AND_C1 = re.compile("[\x7f-\x9f]")


def printable(text: str, kept: str = "") -> str:
    """Return the text with escapes such as `\\x1b` for what a terminal would obey, except `kept` characters.

    Names, images and messages come from the cluster, and a pod's message may contain anything.
    """
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if character not in kept and unicodedata.category(character) in _UNSAFE
        else character
        for character in text
    )


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text. style: how a coloured terminal shows it, such as "bold red"."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with headings in capitals, as in kubectl. is_even: whether columns divide a terminal evenly."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    is_even: bool = False

    def lines(self) -> Iterator[str]:
        """Yield plain text: columns as wide as their widest cell, nothing cut, no trailing spaces."""
        rows = [self.columns, *(tuple(printable(cell.text) for cell in row) for row in self.rows)]
        widths = [max(map(len, column)) + _GAP for column in zip(*rows, strict=True)]
        for row in rows:
            yield "".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar that shows how much of a total is done. what: the subject of the numbers."""

    done: int
    total: int
    what: str


Block = Text | Table | Bar


def row(*cells: str | Text) -> tuple[Text, ...]:
    return tuple(cell if isinstance(cell, Text) else Text(cell) for cell in cells)


def plain(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the blocks as lines of plain text, which may have any length."""
    for block in blocks:
        match block:
            case Text():
                yield printable(block.text)
            case Table():
                yield from block.lines()
            case Bar():
                yield f"{printable(block.what)}: {block.done} of {block.total}"


def described(facts: Mapping[str, str], sections: Mapping[str, Iterable[str]]) -> Iterator[Text]:
    """Yield a line for each fact, then each section below its heading, as `kubectl describe` does."""
    for name, value in facts.items():
        yield Text(f"{name + ':':<14}{value}")
    for heading, lines in sections.items():
        yield Text(f"{heading}:", "bold")
        yield from (Text(f"  {line}") for line in lines)


_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def age(since: str | None, now: datetime) -> str:
    """Return the time since `since` (RFC 3339); `<unknown>` if it is missing or invalid."""
    moment = moment_of(since)
    return short(int((now - moment).total_seconds())) if moment is not None else "<unknown>"


def short(seconds: int) -> str:
    """Format a duration, in two units if it matters. Negative ones count as 0, because clocks differ."""
    seconds = max(0, seconds)
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    return f"{seconds // _DAY}d"


def _two(seconds: int, unit: int, name: str, small_unit: int, small_name: str) -> str:
    large, remainder = divmod(seconds, unit)
    small = remainder // small_unit
    return f"{large}{name}{small}{small_name}" if small else f"{large}{name}"


_WIDE = 120
_BAR = 40


def is_terminal() -> bool:
    return sys.stdout.isatty()


def is_coloured() -> bool:
    """Return whether the terminal supports colours, and they are not disabled (https://no-color.org)."""
    return is_terminal() and _wants_colours()


def is_wide() -> bool:
    """Return whether the terminal has room for two texts side by side."""
    return is_coloured() and _console().width >= _WIDE


def room_for(lines: int) -> int | None:
    """Return how many lines the terminal has in addition to `lines`, at least 5; None without a terminal."""
    return max(5, _console().height - lines) if is_terminal() else None


def show(blocks: Iterable[Block]) -> None:
    """Print the blocks below each other."""
    if not is_coloured():
        for line in plain(blocks):
            click.echo(line)
        return
    console = _console()
    for block in blocks:
        console.print(_drawn(block))


def warn(message: str) -> None:
    """Print a warning. The command continues."""
    text = f"Warning: {printable(message)}"
    click.echo(click.style(text, fg="yellow") if sys.stderr.isatty() and _wants_colours() else text, err=True)


def dump(value: Any, form: str) -> None:
    """Print data. form: `yaml` or `json`."""
    if form == "json":
        text = json.dumps(value, indent=2, ensure_ascii=False)
        click.echo(_DELETE_AND_C1.sub(lambda match: f"\\u{ord(match[0]):04x}", text))
    else:
        click.echo(yaml_text(value), nl=False)


def yaml_text(value: Any) -> str:
    """Return data as YAML, with its keys in their original order."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    return text


@contextmanager
def live() -> Iterator[Callable[[Sequence[Block]], None]]:
    """Yield a function that draws each picture over the last; without a terminal, it prints changed ones."""
    if not is_terminal():
        printed: list[str] = []

        def print_news(blocks: Sequence[Block]) -> None:
            lines = list(plain(blocks))
            if lines != printed:
                printed[:] = lines
                click.echo("\n".join(lines))

        yield print_news
        return
    from rich.console import Group
    from rich.live import Live

    with Live(console=_console(), refresh_per_second=4, transient=False) as picture:
        yield lambda blocks: picture.update(Group(*map(_drawn, blocks)), refresh=True)


def _wants_colours() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _drawn(block: Block) -> RenderableType:
    from rich.table import Table as Grid
    from rich.text import Text as Styled

    match block:
        case Text():
            return Styled(printable(block.text), style=block.style)
        case Bar(done, total, what):
            filled = _BAR if total == 0 else round(_BAR * done / total)
            bar = ("━" * filled, "green" if done == total else "yellow")
            empty = ("━" * (_BAR - filled), "bright_black")
            return Styled.assemble(f"{printable(what)}  ", bar, empty, f"  {done} of {total}")
        case Table():
            grid = Grid(
                box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", expand=block.is_even
            )
            for column in block.columns:
                grid.add_column(column, overflow="fold", ratio=1 if block.is_even else None)
            for cells in block.rows:
                grid.add_row(*(Styled(printable(cell.text), style=cell.style) for cell in cells))
            return grid
