"""Present the demo from start to end, drawn by rich in a terminal, and return an exit code."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tools.demo.check import Check
from tools.demo.exhibit import Example, run_example
from tools.demo.facts import READY, TERMINATING, Condition
from tools.demo.facts import Group as PodGroup
from tools.demo.mirror import NotInTime
from tools.demo.picture import EventLine, Picture, clock, short
from tools.demo.play import read_manifest
from tools.demo.scene import PLAIN, WITH_WORKLOADS, Scene, set_up
from tools.demo.show import Show
from tools.demo.tour import MANIFEST, run_tour
from tools.deployment import DeploymentError
from tools.localcluster import FAILURES, Progress

_BAR = 24
_MOST_DOTS = 16
_SHORT_BAR = 12
_FEWEST_EVENTS, _MOST_EVENTS = 2, 5
# Lines around the table of groups, including the checks that were verified last.
_OTHER_LINES = 20
_LEADER_STYLES = {READY: "green", TERMINATING: "red"}
_FRAMES_PER_SECOND = 8
# Errors whose message alone says what is wrong.
_EXPECTED = (*FAILURES, DeploymentError, NotInTime)


def draw_checks(checks: Iterable[Check]) -> RenderableType:
    """Draw a mark and the claim of each check, with what was expected and found if it did not hold."""
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
    """Draw a bar for the current build, which pulses while progress is unknown, and its time."""
    bar = _bar(build.fraction or 0.0, 1.0, _BAR, pulses=build.fraction is None)
    part = "" if build.fraction is None else f"{build.fraction:.0%}"
    table = Table.grid(padding=(0, 1))
    table.add_row(Text(build.step), bar, part, Text(clock(build.elapsed), style="dim"))
    return table


def draw_picture(picture: Picture, height: int) -> RenderableType:
    """Draw groups, conditions, bars, and as many of the newest Events as fit into `height` lines."""
    facts = picture.facts
    if facts is None:
        return Text("no LeaderWorkerSet here", style="dim")
    parts: list[RenderableType] = [_groups(picture), Text("")]
    parts.append(_conditions(facts.conditions))
    parts.append(_bars(picture))
    room = height - len(picture.groups) - _OTHER_LINES
    events = picture.events[: min(max(room, _FEWEST_EVENTS), _MOST_EVENTS)]
    if events:
        parts += [Text(""), _events(events)]
    return Group(*parts, Text(""))


def _groups(picture: Picture) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="dim")
    table.add_column("group", justify="right")
    table.add_column("revision", min_width=10)
    table.add_column("leader", min_width=11)
    table.add_column("workers", min_width=9)
    table.add_column("age", justify="right", min_width=6)
    for group in picture.groups:
        leader = group.leader
        state = leader.state if leader is not None else "none"
        age = short((picture.now - leader.created).total_seconds()) if leader is not None else ""
        cell = Text(state, style=_LEADER_STYLES.get(state, "yellow"))
        table.add_row(str(group.index), group.revision, cell, _workers(group), age)
    return table


def _workers(group: PodGroup) -> Text:
    ready, workers = group.ready_workers, group.size - 1
    counted = f"{ready}/{workers}"
    dots = f"{'●' * ready}{'○' * (workers - ready)} {counted}"
    return Text(dots if workers <= _MOST_DOTS else counted, style="green" if ready == workers else "yellow")


def _conditions(conditions: Sequence[Condition]) -> Text:
    line = Text("conditions  ", style="dim")
    for condition in conditions:
        line.append("● " if condition.is_true else "○ ", "green" if condition.is_true else "dim")
        line.append(f"{condition.type}  ", "default" if condition.is_true else "dim")
    true = [condition for condition in conditions if condition.is_true]
    line.append(true[0].reason if true else "none yet", "dim")
    return line


def _bars(picture: Picture) -> RenderableType:
    if picture.facts is None:
        return Text("")
    replicas = picture.facts.replicas
    counts = (
        ("ready", picture.groups_ready, replicas),
        ("up to date", picture.facts.updated, replicas),
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
    for event in events:
        reason = Text(event.reason, style="red" if event.is_warning else "cyan")
        often = f" (×{event.count})" if event.count > 1 else ""
        table.add_row(short(event.age), reason, Text(f"{event.note}{often}"))
    return table


def _bar(done: float, total: float, width: int, pulses: bool = False) -> ProgressBar:
    return ProgressBar(total=total, completed=done, width=width, pulse=pulses, finished_style="green")


class LiveShow(Show):
    """A display that draws with rich, from its creation to `close`."""

    def __init__(self, console: Console) -> None:
        super().__init__(console.file)
        self._console = console
        self._waiting, self._waiting_since = "", self._began
        self._building: Progress | None = None
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
        self._draw(Text(""), Text.assemble((f"{self._step}  ", "bold cyan"), (title, "bold")))

    def say(self, text: str) -> None:
        self._draw(Padding(Text(text, style="dim"), (0, 0, 0, 3)))

    def wait_for(self, text: str) -> None:
        self._waiting, self._waiting_since = text, time.monotonic()
        self._live.refresh()

    def verified(self, checks: Sequence[Check]) -> None:
        self._draw(Padding(draw_checks(checks), (0, 0, 0, 3)))

    def changed(self) -> None:
        """Do nothing, because a thread of rich redraws several times a second."""

    def tell(self, lines: Sequence[str]) -> None:
        for line in lines:
            # Lines are printed without wrapping and padding, so that they can be copied.
            self._console.print(escape(line), soft_wrap=True, highlight=False)

    def fail(self, text: str) -> None:
        self._draw(Text(text, style="red"))

    def close(self) -> None:
        self._live.stop()

    def _draw(self, *renderables: RenderableType) -> None:
        for renderable in renderables:
            self._console.print(renderable)

    def _render(self) -> RenderableType:
        now = time.monotonic()
        title = Text(f" {clock(now - self._began)} ", style="dim")
        parts: list[RenderableType] = [Text(""), Rule(title, align="right", style="dim")]
        if self._building is not None:
            parts.append(draw_build(self._building))
        if self._source is not None:
            parts.append(draw_picture(self._source(), self._console.size.height))
        if self._waiting:
            line = Table.grid(padding=(0, 1))
            elapsed = Text(clock(now - self._waiting_since), style="dim")
            line.add_row(self._spinner, Text(f"waiting for {self._waiting}"), elapsed)
            parts.append(line)
        return Group(*parts)


def present(once: bool, example: Example | None = None) -> int:
    """Play the example or the tour, stay unless `once`, and remove everything. Return 1 if a check failed."""
    show = choose_show()
    try:
        stage = WITH_WORKLOADS if example is not None and example.needs_workloads else PLAIN
        with set_up(show, stage) as scene:
            result = run_tour(scene, show) if example is None else run_example(scene, show, example)
            show.tell(["", *result.verdict])
            if not once:
                _stay(scene, show, example)
        return 0 if result.is_good else 1
    except BrokenPipeError:
        # The reader of stdout has gone. The interpreter would complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _EXPECTED as error:
        show.fail(f"error: {error}")
        return 1
    finally:
        show.close()


def invitation(kubeconfig: Path, programs: Path, example: Example | None = None) -> list[str]:
    """Explain how to use the cluster from another terminal, with each command on a line of its own."""
    exports = [f"export KUBECONFIG={kubeconfig}", f"export PATH={programs}:$PATH"]
    access = ["", "The cluster stays up. In another terminal:", "", *exports, ""]
    if example is not None:
        return [*access, *example.comment, ""]
    name = read_manifest(MANIFEST.read_text("utf-8")).name
    commands = [f"apply -f {os.path.relpath(MANIFEST)}", f"delete pod {name}-2-1", f"describe lws {name}"]
    heading = "Three things to try; watch here what they do:"
    return [*access, heading, "", *(f"kubectl {command}" for command in commands), ""]


def _stay(scene: Scene, show: Show, example: Example | None) -> None:
    """Wait for Ctrl-C, which ends the demo here and is not an interruption."""
    programs = scene.cluster.binary("kubectl").parent
    show.tell(invitation(scene.cluster.kubeconfig, programs, example))
    show.wait_for("Ctrl-C, which ends and removes everything")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return


def choose_show() -> Show:
    """Choose a display: terminals get control codes. Characters that stdout cannot encode are replaced."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveShow(Console())
    return Show(sys.stdout)
