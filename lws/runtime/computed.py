"""What is computed once of each state of an object and looked up from then on.

In: objects, and how the answer is found. Out: answers. Only so many are kept: the oldest go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Computed(Generic[V]):
    """One answer for each object, by UID. most: how many are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[str, tuple[Hashable, V]] = OrderedDict()

    def of(self, uid: str, state: Hashable, compute: Callable[[], V]) -> V:
        """The answer for this state of the object; computed where it is not known."""
        known = self._known.get(uid)
        if known is not None and known[0] == state:
            return known[1]
        answer = compute()
        self._known[uid] = state, answer
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return answer

    def forget(self, uid: str) -> None:
        """There is no such object any more."""
        self._known.pop(uid, None)
