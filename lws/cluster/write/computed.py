"""What was computed once and is looked up from then on?

In: keys, and how the answer is found. Out: answers. Only so many are kept: the oldest go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Computed(Generic[K, V]):
    """Answers by key. most: how many are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[K, V] = OrderedDict()

    def of(self, key: K, compute: Callable[[], V]) -> V:
        """The answer; computed where it is not known."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = compute()
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return found
