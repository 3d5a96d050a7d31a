"""How what a command shows gets onto the terminal: in colour where there is one, as plain text elsewhere.

In: blocks. Out: stdout; warnings on stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lws.cli.blocks import Bar, Block, SideBySide, Table, Text, plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_WIDE = 120
_BAR = 40


def is_terminal() -> bool:
    """Somebody is looking."""
    return sys.stdout.isatty()


def is_coloured() -> bool:
    """The terminal takes colours, and nobody has switched them off (https://no-color.org)."""
    return is_terminal() and _wants_colours()


def is_wide() -> bool:
    """There is room for two texts side by side."""
    return is_coloured() and _console().width >= _WIDE


def room_for(lines: int) -> int | None:
    """How many lines the terminal has beside these, at least a few; None without one: there is no end."""
    return max(5, _console().height - lines) if is_terminal() else None


def show(blocks: Iterable[Block]) -> None:
    """Print the blocks, one below the other."""
    if not is_coloured():
        for line in plain(blocks):
            click.echo(line)
        return
    console = _console()
    for block in blocks:
        console.print(_drawn(block))


def warn(message: str) -> None:
    """Something the user should know although the command goes on."""
    text = f"Warning: {message}"
    click.echo(click.style(text, fg="yellow") if sys.stderr.isatty() and _wants_colours() else text, err=True)


def dump(value: Any, form: str) -> None:
    """Print data as `yaml` or `json`."""
    if form == "json":
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml_text(value), nl=False)


def yaml_text(value: Any) -> str:
    """Data as YAML, in the order that it has."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    return text


@contextmanager
def live() -> Iterator[Callable[[Sequence[Block]], None]]:
    """A picture that is drawn over the last one. Without a terminal only lines that are new are printed."""
    if not is_terminal():
        yield _print_news()
        return
    from rich.console import Group
    from rich.live import Live

    with Live(console=_console(), refresh_per_second=4, transient=False) as picture:
        yield lambda blocks: picture.update(Group(*map(_drawn, blocks)), refresh=True)


def _print_news() -> Callable[[Sequence[Block]], None]:
    printed: list[str] = []

    def draw(blocks: Sequence[Block]) -> None:
        lines = list(plain(blocks))
        if lines != printed:
            printed[:] = lines
            click.echo("\n".join(lines))

    return draw


def _wants_colours() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _drawn(block: Block) -> RenderableType:
    from rich.text import Text as Styled

    match block:
        case Text():
            return Styled(block.text, style=block.style)
        case Bar():
            return _drawn_bar(block)
        case Table():
            return _drawn_table(block.columns, block.rows)
        case SideBySide():
            rows = [(one or Text(""), two or Text("")) for one, two in block.rows]
            return _drawn_table(block.headings, rows, halves=True)


def _drawn_table(
    columns: Sequence[str], rows: Iterable[Sequence[Text]], halves: bool = False
) -> RenderableType:
    from rich.table import Table as Grid
    from rich.text import Text as Styled

    grid = Grid(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", expand=halves)
    for column in columns:
        grid.add_column(column, overflow="fold", ratio=1 if halves else None)
    for cells in rows:
        grid.add_row(*(Styled(cell.text, style=cell.style) for cell in cells))
    return grid


def _drawn_bar(bar: Bar) -> RenderableType:
    from rich.text import Text as Styled

    filled = _BAR if bar.total == 0 else round(_BAR * bar.done / bar.total)
    colour = "green" if bar.done == bar.total else "yellow"
    return Styled.assemble(
        f"{bar.what}  ",
        ("━" * filled, colour),
        ("━" * (_BAR - filled), "bright_black"),
        f"  {bar.done} of {bar.total}",
    )
