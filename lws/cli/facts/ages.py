"""How long ago, in the short form of kubectl: 5s, 3m20s, 2h5m, 4d.

In: a creation timestamp and now. Out: text.
"""

from __future__ import annotations

from datetime import datetime

from lws.kube.conditions import moment_of

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def age(since: str | None, now: datetime) -> str:
    """since: RFC 3339 as in metadata; `<unknown>` where there is none that can be read."""
    moment = moment_of(since)
    return short(int((now - moment).total_seconds())) if moment is not None else "<unknown>"


def short(seconds: int) -> str:
    """A duration with two units where the second one still says something; never negative (clocks differ)."""
    seconds = max(0, seconds)
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    return f"{seconds // _DAY}d"


def _two(seconds: int, unit: int, name: str, small_unit: int, small_name: str) -> str:
    whole, rest = divmod(seconds, unit)
    small = rest // small_unit
    return f"{whole}{name}{small}{small_name}" if small else f"{whole}{name}"
