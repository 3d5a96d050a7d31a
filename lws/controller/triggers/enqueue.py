"""When does a pass start? On every change that concerns its key, and on all keys now and then.

In: changes of the store, and the routes of each kind of workload. Out: keys in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lws.actions import Object
from lws.controller.election.election import Scope, everywhere
from lws.controller.queue import Queue
from lws.controller.triggers.keys import Key, Route
from lws.kube.metadata import uid_of


class Triggers:
    """Puts keys into a queue. route_of: which passes a change of an object starts; None where it starts none.
    forget: told of each object that is not there any more.
    """

    def __init__(
        self,
        queue: Queue,
        route_of: Callable[[Object], Route | None],
        forget: Callable[[Object], None] = lambda obj: None,
    ) -> None:
        self._queue = queue
        self._route_of = route_of
        self._forget = forget
        self._keys: list[Callable[[Scope], Iterable[Key]]] = []

    def add(self, keys: Callable[[Scope], Iterable[Key]]) -> None:
        """keys: of all that there is in some namespaces."""
        self._keys.append(keys)

    def on_change(self, before: Object | None, after: Object | None) -> None:
        """An object changed."""
        obj = after if after is not None else before
        if obj is None:
            return
        if before is not None and (after is None or uid_of(after) != uid_of(before)):
            self._forget(before)
        route = self._route_of(obj)
        if route is not None:
            for key, within in route(before, after):
                self._queue.add(key, within)

    def everything(self, scope: Scope = everywhere) -> None:
        """Every key of the namespaces that are meant."""
        for keys in self._keys:
            for key in keys(scope):
                self._queue.add(key)
