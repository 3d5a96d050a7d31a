"""Send one request per item, several at a time; the first error is raised."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_AT_ONCE = 16

Item = TypeVar("Item")


def for_each(items: Iterable[Item], call: Callable[[Item], object]) -> None:
    """Return when every call has ended."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(call, items):
            pass
