"""Print the progress of a measurement."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


def clocked() -> Callable[[str], None]:
    """Return a function that prints a line to standard error, preceded by the seconds since now."""
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:6.0f} s] {line}", file=sys.stderr, flush=True)

    return say
