"""Skew Python's wall clock by the seconds in the file $SKEWED_CLOCK; loaded through PYTHONPATH.

Administrators and NTP can make a wall clock jump, but not the monotonic clock. Only Python's view of the wall
clock is skewed: OpenSSL still checks certificates with the real time.
"""

from __future__ import annotations

import datetime as _datetime
import os
import time as _time
from pathlib import Path

_FILE = Path(os.environ["SKEWED_CLOCK"])
_real_time = _time.time
_RealDatetime = _datetime.datetime


def _skew() -> float:
    return float(_FILE.read_text() or 0)


class _EveryDatetime(type):
    """Makes datetimes that were created elsewhere instances of this class too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _RealDatetime)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _RealDatetime)


class _Datetime(_RealDatetime, metaclass=_EveryDatetime):
    @classmethod
    def now(cls, tz: _datetime.tzinfo | None = None) -> _Datetime:
        return cls.fromtimestamp(_real_time() + _skew(), tz)

    @classmethod
    def utcnow(cls) -> _Datetime:
        return cls.now(_datetime.UTC).replace(tzinfo=None)


_time.time = lambda: _real_time() + _skew()
_time.time_ns = lambda: int(_time.time() * 1_000_000_000)
_datetime.datetime = _Datetime  # type: ignore[misc]
