"""Answers: how are checks, builds and pictures drawn?

In: values. Out: things that rich can print. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tools.demo.check import Check
from tools.demo.facts import READY, TERMINATING, Condition
from tools.demo.picture import EventLine, Picture, Row, clock, short
from tools.localcluster import Progress

_BAR = 24
_MOST_DOTS = 16
_SHORT_BAR = 12
_FEWEST_EVENTS, _MOST_EVENTS = 2, 5
# What stands around the table of groups, and what was verified last.
_OTHER_LINES = 20
_LEADER_STYLES = {READY: "green", TERMINATING: "red"}


def draw_checks(checks: Iterable[Check]) -> RenderableType:
    """A mark and a claim each; what was expected and what was found where it did not hold."""
    table = Table.grid(padding=(0, 1))
    for check in checks:
        if check.held:
            table.add_row(Text("✓", style="bold green"), Text(check.claim))
        else:
            table.add_row(Text("✗", style="bold red"), Text(check.claim, style="bold red"))
            table.add_row("", Text(f"expected: {check.expected}", style="red"))
            table.add_row("", Text(f"found:    {check.actual}", style="red"))
    return table


def draw_build(build: Progress) -> RenderableType:
    """A bar for what is being built, and the time it has taken; it pulses while its length is unknown."""
    bar = _bar(build.fraction or 0.0, 1.0, _BAR, pulses=build.fraction is None)
    part = "" if build.fraction is None else f"{build.fraction:.0%}"
    table = Table.grid(padding=(0, 1))
    table.add_row(Text(build.step), bar, part, Text(clock(build.elapsed), style="dim"))
    return table


def draw_picture(picture: Picture, height: int) -> RenderableType:
    """Table of groups, conditions, bars and as many of the newest Events as `height` lines leave room for."""
    facts = picture.facts
    if facts is None:
        return Text("no LeaderWorkerSet here", style="dim")
    parts: list[RenderableType] = [_groups(picture.rows), Text("")]
    parts.append(_conditions(facts.conditions))
    parts.append(_bars(picture))
    room = height - len(picture.rows) - _OTHER_LINES
    shown = picture.events[: min(max(room, _FEWEST_EVENTS), _MOST_EVENTS)]
    if shown:
        parts += [Text(""), _events(shown)]
    return Group(*parts, Text(""))


def _groups(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="dim")
    table.add_column("group", justify="right")
    table.add_column("revision", min_width=10)
    table.add_column("leader", min_width=11)
    table.add_column("workers", min_width=9)
    table.add_column("age", justify="right", min_width=6)
    for row in rows:
        table.add_row(
            str(row.index),
            row.revision,
            Text(row.leader, style=_LEADER_STYLES.get(row.leader, "yellow")),
            _workers(row),
            "" if row.age is None else short(row.age),
        )
    return table


def _workers(row: Row) -> Text:
    dots = "●" * row.ready_workers + "○" * (row.workers - row.ready_workers)
    style = "green" if row.ready_workers == row.workers else "yellow"
    counted = f"{row.ready_workers}/{row.workers}"
    return Text(f"{dots} {counted}" if row.workers <= _MOST_DOTS else counted, style=style)


def _conditions(conditions: Sequence[Condition]) -> Text:
    line = Text("conditions  ", style="dim")
    for each in conditions:
        line.append("● " if each.is_true else "○ ", "green" if each.is_true else "dim")
        line.append(f"{each.type}  ", "default" if each.is_true else "dim")
    true = [each for each in conditions if each.is_true]
    line.append(true[0].reason if true else "none yet", "dim")
    return line


def _bars(picture: Picture) -> RenderableType:
    if picture.facts is None:
        return Text("")
    wanted = picture.facts.replicas
    counts = (
        ("ready", picture.groups_ready, wanted),
        ("up to date", picture.facts.updated, wanted),
        ("pods ready", picture.pods_ready, picture.facts.pods),
    )
    cells: list[RenderableType] = []
    for name, count, total in counts:
        cells += [Text(name, style="dim"), _bar(count, total, _SHORT_BAR), f"{count}/{total} "]
    table = Table.grid(padding=(0, 1))
    table.add_row(*cells)
    return table


def _events(events: Iterable[EventLine]) -> RenderableType:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(justify="right", style="dim", min_width=5, no_wrap=True)
    table.add_column(no_wrap=True, min_width=17)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for each in events:
        reason = Text(each.reason, style="red" if each.is_warning else "cyan")
        often = f" (×{each.count})" if each.count > 1 else ""
        table.add_row(short(each.age), reason, Text(f"{each.note}{often}"))
    return table


def _bar(done: float, total: float, width: int, pulses: bool = False) -> ProgressBar:
    return ProgressBar(total=total, completed=done, width=width, pulse=pulses, finished_style="green")
