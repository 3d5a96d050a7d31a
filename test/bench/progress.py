"""Print the progress of a measurement."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


def clocked() -> Callable[[str], None]:
    """What prints a line to standard error, with the seconds since now before it."""
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:6.0f} s] {line}", file=sys.stderr, flush=True)

    return say
