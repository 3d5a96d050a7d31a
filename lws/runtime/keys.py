"""Types shared by kinds of workload and the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from lws.runtime.actions import Object


class Key(NamedTuple):
    """Identifies a pass. kind: of pass, unique among all kinds of workload. name: of an object."""

    kind: str
    namespace: str
    name: str


Wake = tuple[Key, float]
"""A pass that a change starts, and the seconds by which it may be delayed."""

Route = Callable[[Object | None, Object | None], Iterable[Wake]]
"""(before, after) of an object, None if it does not exist → the passes to start."""
