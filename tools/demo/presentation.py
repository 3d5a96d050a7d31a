"""Answers: what does somebody who starts the demo get to see, from the first line to the last?

In: an example or the tour, and whether to end after it. Out: an exit code, and nothing left behind.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

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
from tools.demo.example import Example
from tools.demo.exhibit import run_example
from tools.demo.manifest import read_manifest
from tools.demo.mirror import NotInTime
from tools.demo.picture import Picture, clock
from tools.demo.plain import PlainShow
from tools.demo.scene import Scene, set_up
from tools.demo.show import Show
from tools.demo.tour import MANIFEST, Result, run_tour
from tools.deployment import DeploymentError
from tools.localcluster import (
    ApiError,
    BuildError,
    CommandError,
    ComponentError,
    NoGoError,
    Progress,
    UnknownVersionError,
)

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


# What tells by its message alone what is wrong.
_EXPECTED = (
    ApiError,
    BuildError,
    CommandError,
    ComponentError,
    DeploymentError,
    NoGoError,
    NotInTime,
    OSError,
    UnknownVersionError,
)


def present(once: bool, example: Example | None = None) -> int:
    """Play the example or the tour, stay unless `once`, take all down: 0 if every check held, else 1."""
    show = choose_show()
    try:
        with set_up(show) as scene:
            result = run_tour(scene, show) if example is None else run_example(scene, show, example)
            show.tell(["", *verdict(result)])
            if not once:
                _stay(scene, show, example)
        return 0 if result.is_good else 1
    except BrokenPipeError:
        # Nobody reads any more; the interpreter would complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _EXPECTED as error:
        show.fail(f"error: {error}")
        return 1
    finally:
        show.close()


def verdict(result: Result) -> list[str]:
    """The tour in one line, and the claims that did not hold."""
    if result.is_good:
        return [f"All {result.checks} checks held."]
    return [f"{len(result.failed)} of {result.checks} checks did not hold:", *result.failed]


def invitation(kubeconfig: Path, programs: Path, example: Example | None = None) -> list[str]:
    """How to use the cluster from another terminal, each command on a line of its own."""
    access = [
        "",
        "The cluster stays up. In another terminal:",
        "",
        f"export KUBECONFIG={kubeconfig}",
        f"export PATH={programs}:$PATH",
        "",
    ]
    if example is not None:
        return [*access, *example.comment, ""]
    name = read_manifest(MANIFEST.read_text("utf-8")).name
    return [
        *access,
        "Three things to try; watch here what they do:",
        "",
        f"kubectl apply -f {os.path.relpath(MANIFEST)}",
        f"kubectl delete pod {name}-2-1",
        f"kubectl describe lws {name}",
        "",
    ]


def _stay(scene: Scene, show: Show, example: Example | None) -> None:
    """Here Ctrl-C is the way to end, not a way to break off."""
    programs = scene.cluster.binary("kubectl").parent
    show.tell(invitation(scene.cluster.kubeconfig, programs, example))
    show.wait_for("Ctrl-C, which ends and removes everything")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return


def choose_show() -> Show:
    """Control codes are for terminals only; what a stream cannot encode must not end the demo."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveShow(Console())
    return PlainShow(sys.stdout)
