"""lws_api.config.duration: durations in the notation of Go."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from lws_api.config.duration import parse, render

VALID = {
    "15s": 15,
    "5m": 300,
    "1m30s": 90,
    "1h": 3600,
    "1h2m3s4ms": 3723.004,
    "1.5s": 1.5,
    ".5s": 0.5,
    "1.s": 1,
    "500ms": 0.5,
    "7us": 7e-6,
    "7µs": 7e-6,
    "7μs": 7e-6,
    "2000ns": 2e-6,
    "0": 0,
    "0s": 0,
    "-2s": -2,
    "+2s": 2,
    "30s1m": 90,
}


@pytest.mark.parametrize(("text", "seconds"), VALID.items(), ids=VALID.keys())
def test_go_durations(text: str, seconds: float) -> None:
    assert parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "15", "s", "15 s", "1d", "15S", "1m 30s", "s15", "1..5s", "PT15S", "١s", 15, 1.5, None]
)
def test_invalid_durations_are_rejected(text: object) -> None:
    with pytest.raises(ValueError, match="must be a duration such as 15s, 5m or 1m30s"):
        parse(text)


def test_durations_longer_than_the_maximum_are_rejected() -> None:
    with pytest.raises(ValueError, match="longer than any duration"):
        parse("9" * 30 + "h")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (15, "15s"), (100, "100s"), (90.5, "90.5s"), (-2, "-2s"), (86400, "86400s")],
)
def test_durations_are_rendered_as_go_does(seconds: float, text: str) -> None:
    assert render(timedelta(seconds=seconds)) == text
    assert parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["1" * 200_000, "1m" * 100_000 + "x", "." * 200_000])
def test_a_long_text_that_is_no_duration_is_rejected_in_linear_time(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="must be a duration"):
        parse(text)
    # Quadratic matching took minutes.
    assert time.process_time() - began < 5.0
