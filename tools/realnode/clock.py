"""Answers: did a node fail because the clock of the machine was set?

In: the clock, and one that nobody sets. Out: an error that says so, in place of what came of it: certificates
that are not valid yet, Leases that have run out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tools.realnode.errors import NodeError

# More than a daemon that keeps the time moves it by in a day.
_JUMP_SECONDS = 5.0


class Clock:
    """Watched from the moment on when it is made."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._steady = wall, steady
        self._first = self._difference()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """What fails in the block fails with NodeError where the clock has jumped, and as it is otherwise."""
        try:
            yield
        except Exception as error:
            jump = self._difference() - self._first
            if abs(jump) <= _JUMP_SECONDS:
                raise
            raise NodeError(f"the clock jumped by {jump:.0f} s: start again") from error

    def _difference(self) -> float:
        return self._wall() - self._steady()
