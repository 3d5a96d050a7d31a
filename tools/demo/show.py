"""Define what a display of the tour can show, and the one for streams that are no terminal: text."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import IO

from tools.demo.check import Check
from tools.demo.picture import Picture, clock, summary
from tools.localcluster import Progress
from tools.localcluster.progress import LinePrinter


class Show:
    """A display that prints lines, each with the time since the start. Other displays override its methods.

    `changed` may be called from any thread, all other methods from the main thread only.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._printer = LinePrinter(stream)
        # Streams of several kinds report changes concurrently.
        self._lock = threading.Lock()
        self._source: Callable[[], Picture] | None = None
        self._summary = ""
        self._told: set[tuple[str, str, int]] = set()
        self._step = 0

    def build(self, progress: Progress) -> None:
        """Show the progress of a build that may take minutes."""
        self._printer(progress)

    def begin(self, title: str) -> None:
        """Show that the next step begins."""
        self._step += 1
        self._print(f"== {self._step}. {title}")

    def say(self, text: str) -> None:
        """Show what was done just now, such as the command that a user would type."""
        self._print(text)

    def wait_for(self, text: str) -> None:
        """Show what is awaited from now on; empty for nothing."""
        if text:
            self._print(f"waiting for {text}")

    def verified(self, checks: Sequence[Check]) -> None:
        """Show what was verified at the end of a step."""
        for check in checks:
            self._print(f"ok      {check.claim}" if check.held else f"FAILED  {check.claim}")
            if not check.held:
                self._print(f"          expected: {check.expected}")
                self._print(f"          found:    {check.actual}")

    def watch(self, source: Callable[[], Picture]) -> None:
        """Set the source of the pictures to show from now on."""
        self._source = source

    def changed(self) -> None:
        """Show that the picture has changed."""
        if self._source is None:
            return
        with self._lock:
            picture = self._source()
            for event in reversed(picture.events):
                identity = (event.reason, event.note, event.count)
                if identity not in self._told:
                    self._told.add(identity)
                    self._print(
                        f"  {'warning' if event.is_warning else 'event'} {event.reason}: {event.note}"
                    )
            line = summary(picture)
            if line != self._summary:
                self._summary = line
                self._print(f"  {line}")

    def tell(self, lines: Sequence[str]) -> None:
        """Show lines unchanged, to read and copy."""
        for line in lines:
            self._write(line)

    def fail(self, text: str) -> None:
        """Show that something has failed."""
        self._print(text)

    def close(self) -> None:
        """Stop showing anything."""
        self._source = None

    def _print(self, text: str) -> None:
        self._write(f"{clock(time.monotonic() - self._began):>5}  {text}")

    def _write(self, line: str) -> None:
        # The line is written in one piece, so that lines of several threads are not mixed.
        self._stream.write(f"{line}\n")
        self._stream.flush()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tour.

    failed: the claims that did not hold.
    """

    checks: int
    failed: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        return not self.failed and self.checks > 0

    @property
    def verdict(self) -> list[str]:
        """The result in one line, followed by the claims that did not hold."""
        if self.is_good:
            return [f"All {self.checks} checks held."]
        return [f"{len(self.failed)} of {self.checks} checks did not hold:", *self.failed]


def play_steps(show: Show, steps: Iterable[tuple[str, Callable[[], list[Check]]]]) -> Result:
    """Play steps, given by title, and stop after the first step with a failed check."""
    total = 0
    for title, act in steps:
        show.begin(title)
        began = time.monotonic()
        checks = act()
        show.verified(checks)
        total += len(checks)
        failed = tuple(check.claim for check in checks if not check.held)
        held = len(checks) - len(failed)
        show.say(f"{held} of {len(checks)} facts hold, {time.monotonic() - began:.1f} s")
        if failed:
            return Result(total, failed)
    return Result(total)
