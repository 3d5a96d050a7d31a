"""Wait for a state with a deadline, and show the last observed state on failure.

The deadlines are generous: they only catch a state that never comes, and a busy machine must not fail a test.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

SEEN = TypeVar("SEEN")

_POLL_SECONDS = 0.1


def eventually(
    description: str, see: Callable[[], SEEN], accept: Callable[[SEEN], object] = bool, seconds: float = 120.0
) -> SEEN:
    """Return the first accepted state, and fail after `seconds` with the last observed state."""
    began = time.monotonic()
    while True:
        seen = see()
        if accept(seen):
            return seen
        if time.monotonic() - began > seconds:
            pytest.fail(f"not within {seconds:g} s: {description}; last seen: {seen!r}")
        time.sleep(_POLL_SECONDS)


def stays(description: str, see: Callable[[], SEEN], seconds: float) -> None:
    """Fail as soon as the state changes within `seconds`."""
    first = see()
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(_POLL_SECONDS)
        seen = see()
        if seen != first:
            took = time.monotonic() - began
            pytest.fail(f"changed after {took:.1f} s: {description}; first {first!r}, then {seen!r}")
