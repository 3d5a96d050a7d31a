"""Checks for the liveness probe that find a stream which has fallen silent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from lws import timing
from lws.controller.endpoints.health import Check


class Stream(Protocol):
    """Whatever says for how many seconds it has heard nothing."""

    @property
    def silent_for(self) -> float: ...


class Silence:
    """Makes checks, which find nothing wrong before `begin`: a stream that was not started says nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None

    def begin(self) -> None:
        """From now on every stream should be heard."""
        self._since = self._clock()

    def check(self, stream: Stream) -> Check:
        """What is wrong once the stream has been silent for longer than a living one can be."""

        def find() -> str | None:
            expected = 0.0 if self._since is None else self._clock() - self._since
            silence = min(stream.silent_for, expected)
            return f"nothing heard for {silence:.0f} s" if silence > timing.SILENT_STREAM_SECONDS else None

        return find
