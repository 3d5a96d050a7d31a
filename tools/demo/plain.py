"""Answers: how does the tour look where there is no terminal?

In: what the tour tells. Out: lines of text without any control code.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from tools.demo.check import Check
from tools.demo.picture import EventLine, Picture, clock, summary
from tools.localcluster import Progress
from tools.localcluster.progress import LinePrinter


class PlainShow:
    """A `Show` that prints lines, each with the time since the start."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._printer = LinePrinter(stream)
        # Streams of several kinds report changes side by side.
        self._lock = threading.Lock()
        self._source: Callable[[], Picture] | None = None
        self._summary = ""
        self._told: set[tuple[str, str, int]] = set()
        self._step = 0

    def build(self, progress: Progress) -> None:
        self._printer(progress)

    def begin(self, title: str) -> None:
        self._step += 1
        self._print(f"== {self._step}. {title}")

    def say(self, text: str) -> None:
        self._print(text)

    def wait_for(self, text: str) -> None:
        if text:
            self._print(f"waiting for {text}")

    def verified(self, checks: Sequence[Check]) -> None:
        for check in checks:
            self._print(f"ok      {check.claim}" if check.held else f"FAILED  {check.claim}")
            if not check.held:
                self._print(f"          expected: {check.expected}")
                self._print(f"          found:    {check.actual}")

    def watch(self, source: Callable[[], Picture]) -> None:
        self._source = source

    def changed(self) -> None:
        if self._source is None:
            return
        with self._lock:
            picture = self._source()
            for event in reversed(picture.events):
                self._tell_event(event)
            line = summary(picture)
            if line != self._summary:
                self._summary = line
                self._print(f"  {line}")

    def tell(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._write(line)

    def fail(self, text: str) -> None:
        self._print(text)

    def close(self) -> None:
        self._source = None

    def _tell_event(self, event: EventLine) -> None:
        identity = (event.reason, event.note, event.count)
        if identity not in self._told:
            self._told.add(identity)
            self._print(f"  {'warning' if event.is_warning else 'event'} {event.reason}: {event.note}")

    def _print(self, text: str) -> None:
        self._write(f"{clock(time.monotonic() - self._began):>5}  {text}")

    def _write(self, line: str) -> None:
        # In one piece: the lines of several threads must not run into each other.
        self._stream.write(f"{line}\n")
        self._stream.flush()
