"""Answers: how does the tour look in a terminal?

In: what the tour tells. Out: finished steps that scroll away and, below them, a picture that is kept current.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.rule import Rule
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tools.demo.check import Check
from tools.demo.drawing import draw_build, draw_checks, draw_picture
from tools.demo.picture import Picture, clock
from tools.localcluster import Progress

_FRAMES_PER_SECOND = 8


class LiveShow:
    """A `Show` that draws with rich, from `__init__` to `close`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = self._waiting_since = time.monotonic()
        self._building: Progress | None = None
        self._source: Callable[[], Picture] | None = None
        self._step = 0
        self._waiting = ""
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=_FRAMES_PER_SECOND,
            transient=True,
        )
        self._live.start()

    def build(self, progress: Progress) -> None:
        self._building = None if progress.finished else progress
        if progress.finished:
            self.say(f"{progress.step}: done in {clock(progress.elapsed)}")

    def begin(self, title: str) -> None:
        self._step += 1
        self._print(Text(""), Text.assemble((f"{self._step}  ", "bold cyan"), (title, "bold")))

    def say(self, text: str) -> None:
        self._print(Padding(Text(text, style="dim"), (0, 0, 0, 3)))

    def wait_for(self, text: str) -> None:
        self._waiting, self._waiting_since = text, time.monotonic()
        self._live.refresh()

    def verified(self, checks: Sequence[Check]) -> None:
        self._print(Padding(draw_checks(checks), (0, 0, 0, 3)))

    def watch(self, source: Callable[[], Picture]) -> None:
        self._source = source

    def changed(self) -> None:
        """Nothing to do: a thread of rich looks several times a second."""

    def tell(self, lines: Sequence[str]) -> None:
        for line in lines:
            # As it is, so that it can be copied: neither wrapped nor filled up.
            self._console.print(escape(line), soft_wrap=True, highlight=False)

    def fail(self, text: str) -> None:
        self._print(Text(text, style="red"))

    def close(self) -> None:
        self._live.stop()

    def _print(self, *renderables: RenderableType) -> None:
        for each in renderables:
            self._console.print(each)

    def _render(self) -> RenderableType:
        now = time.monotonic()
        title = Text(f" {clock(now - self._began)} ", style="dim")
        parts: list[RenderableType] = [Text(""), Rule(title, align="right", style="dim")]
        if self._building is not None:
            parts.append(draw_build(self._building))
        if self._source is not None:
            parts.append(draw_picture(self._source(), self._console.size.height))
        if self._waiting:
            parts.append(self._draw_waiting(now))
        return Group(*parts)

    def _draw_waiting(self, now: float) -> RenderableType:
        line = Table.grid(padding=(0, 1))
        elapsed = Text(clock(now - self._waiting_since), style="dim")
        line.add_row(self._spinner, Text(f"waiting for {self._waiting}"), elapsed)
        return line
