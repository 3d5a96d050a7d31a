"""Parse and render durations as Go writes them, such as `15s`, `5m` or `1m30s`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_MICROSECONDS = {
    "ns": 0.001,
    "us": 1.0,
    "µs": 1.0,  # U+00B5, the micro sign
    "μs": 1.0,  # U+03BC, the Greek letter
    "ms": 1e3,
    "s": 1e6,
    "m": 60e6,
    "h": 3600e6,
}
# One way only to match a number: texts without a unit would take quadratic time otherwise.
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"([-+]?)((?:{_PART.pattern})+)", re.ASCII)


def parse(text: Any) -> timedelta:
    """The duration that Go's time.ParseDuration reads, to the microsecond; raises ValueError with what to
    write.
    """
    if isinstance(text, timedelta):
        return text
    if text == "0":
        return timedelta()
    match = _WHOLE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"must be a duration such as 15s, 5m or 1m30s, not {text!r}")
    total = sum(float(number) * _MICROSECONDS[unit] for number, unit in _PART.findall(match[2]))
    try:
        duration = timedelta(microseconds=total)
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than any duration can be") from error
    return -duration if match[1] == "-" else duration


def render(duration: timedelta) -> str:
    """Text that `parse` reads back, in seconds: `90s`, `0.5s`."""
    seconds = duration.total_seconds()
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse),
    PlainSerializer(render, return_type=str),
    WithJsonSchema({"type": "string", "format": "duration"}),
]
"""A duration that files spell as Go does."""
