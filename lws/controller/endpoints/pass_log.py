"""Add the fields of the current pass to each log line, also in tasks that the pass starts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

Fields = Mapping[str, str | int]

NOTHING: Fields = MappingProxyType({})

_CURRENT: ContextVar[Fields] = ContextVar("pass", default=NOTHING)
_NUMBERS = itertools.count(1)


@contextmanager
def numbered(about: Fields) -> Iterator[None]:
    """A pass: until its end all lines say its number, counted from the start of the process, and `about`."""
    before = _CURRENT.set({"pass": next(_NUMBERS), **about})
    try:
        yield
    finally:
        _CURRENT.reset(before)


def add(fields: Fields) -> None:
    """What the pass has learned about itself; nothing outside of a pass."""
    if current := _CURRENT.get():
        _CURRENT.set({**current, **fields})


def fields() -> Fields:
    """Of the pass in which this is called; empty outside of one."""
    return _CURRENT.get()
