"""Report the progress of steps that take minutes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class Progress:
    """The progress of one step: seconds since it began, and the fraction done, 0 to 1 or None if unknown."""

    step: str
    elapsed: float
    fraction: float | None
    finished: bool = False


Report = Callable[[Progress], None]


class Step:
    """Times one step and reports its progress."""

    def __init__(self, name: str, report: Report) -> None:
        self.name = name
        self._report = report
        self._began = time.monotonic()
        self.fraction: float | None = None

    def __enter__(self) -> Step:
        self.tell()
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None:
            self._report(Progress(self.name, time.monotonic() - self._began, 1.0, finished=True))

    def tell(self) -> None:
        self._report(Progress(self.name, time.monotonic() - self._began, self.fraction))


class LinePrinter:
    """A `Report` that prints a line when a step begins, every `interval` seconds, and when the step ends."""

    def __init__(self, stream: IO[str] | None = None, interval: float = 15.0) -> None:
        self._stream = stream or sys.stderr
        self._interval = interval
        self._step = ""
        self._printed = 0.0

    def __call__(self, progress: Progress) -> None:
        begins = progress.step != self._step
        due = progress.elapsed - self._printed >= self._interval
        if begins or due or progress.finished:
            print(render(progress), file=self._stream, flush=True)
            self._step, self._printed = progress.step, progress.elapsed


def render(progress: Progress) -> str:
    """Return one line, for example `compile kubernetes   42%  1:05`."""
    minutes, seconds = divmod(int(progress.elapsed), 60)
    done = "done" if progress.finished else "" if progress.fraction is None else f"{progress.fraction:.0%}"
    return f"{progress.step:<32} {done:>5}  {minutes}:{seconds:02d}"


def silent(progress: Progress) -> None:
    """Report nothing."""
