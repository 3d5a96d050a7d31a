"""The words in which kinds of workload and the queue speak of passes.

In: nothing. Out: types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from lws.actions import Object


class Key(NamedTuple):
    """What a pass is about. kind: of pass, unique among all kinds of workload; name: of an object."""

    kind: str
    namespace: str
    name: str


Wake = tuple[Key, float]
"""A pass that a change starts, and the seconds for which it can be put off."""

Route = Callable[[Object | None, Object | None], Iterable[Wake]]
"""(before, after) of one object, None where it was not there or is gone → the passes that this starts."""
