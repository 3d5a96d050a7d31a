"""Send one request per item, several at a time, and raise the first error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_AT_ONCE = 16

Item = TypeVar("Item")


def for_each(items: Iterable[Item], call: Callable[[Item], object]) -> None:
    """Call `call` for each item, and return when every call has ended."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(call, items):
            pass
