"""The liveness probe fails if a stream is dead, but not while its kind is not installed yet."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lws.runtime.endpoints.health import Silence


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Stream:
    seconds_silent: float


@pytest.mark.parametrize(
    ("silent_for", "running_for", "expected"),
    [
        pytest.param(0.0, 1000.0, None, id="active"),
        pytest.param(240.0, 1000.0, None, id="misses bookmarks"),
        pytest.param(241.0, 1000.0, "nothing received for 241 s", id="silent for too long"),
        pytest.param(1000.0, 10.0, None, id="just started"),
        pytest.param(1000.0, 300.0, "nothing received for 300 s", id="never active"),
    ],
)
def test_a_stream(silent_for: float, running_for: float, expected: str | None) -> None:
    clock = Clock()
    silence = Silence(clock)
    check = silence.check(Stream(silent_for))
    silence.begin()
    clock.now += running_for
    assert check() == expected


def test_streams_of_kinds_that_are_not_installed_are_not_dead() -> None:
    clock = Clock()
    check = Silence(clock).check(Stream(10_000.0))
    clock.now += 10_000.0
    assert check() is None
