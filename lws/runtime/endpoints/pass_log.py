"""Attribute log lines to passes.

Formatters add these fields to each line that is written during a pass, also by tasks that the pass starts.
"""

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
    """Add the number of a pass since the process started, and `about`, to log lines within this context."""
    before = _CURRENT.set({"pass": next(_NUMBERS), **about})
    try:
        yield
    finally:
        _CURRENT.reset(before)


def add(fields: Fields) -> None:
    """Add fields to the current pass. Outside of a pass this has no effect."""
    if current := _CURRENT.get():
        _CURRENT.set({**current, **fields})


def fields() -> Fields:
    """Return the fields of the current pass; empty outside of a pass."""
    return _CURRENT.get()
