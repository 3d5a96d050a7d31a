"""Detect silent streams for the liveness probe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from lws import timing
from lws.runtime.endpoints.health import Check


class Stream(Protocol):
    """A stream that reports for how many seconds it has received nothing."""

    @property
    def silent_for(self) -> float: ...


class Silence:
    """Creates checks. They pass before `begin`, because streams have not started yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None

    def begin(self) -> None:
        """Expect data on every stream from now on."""
        self._since = self._clock()

    def check(self, stream: Stream) -> Check:
        """A check that fails once the stream has been silent for longer than a healthy one can be."""

        def find() -> str | None:
            expected = 0.0 if self._since is None else self._clock() - self._since
            silence = min(stream.silent_for, expected)
            return f"nothing heard for {silence:.0f} s" if silence > timing.SILENT_STREAM_SECONDS else None

        return find
