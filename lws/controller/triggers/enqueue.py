"""When does a pass start? On every change that concerns its key, and on all keys now and then.

In: changes of the store, and the routes of each kind of workload. Out: keys in the queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from lws.actions import Object
from lws.controller.election.election import Scope, everywhere
from lws.controller.queue import Queue
from lws.controller.triggers.keys import Key, Route


class Triggers:
    """Puts keys into a queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._routes: defaultdict[str, list[Route]] = defaultdict(list)
        self._keys: list[Callable[[Scope], Iterable[Key]]] = []

    def add(self, routes: Mapping[str, Route], keys: Callable[[Scope], Iterable[Key]]) -> None:
        """From now on changes take these routes too. routes: by kind of the object; keys: of all that there
        is in some namespaces.
        """
        for kind, route in routes.items():
            self._routes[kind].append(route)
        self._keys.append(keys)

    def on_change(self, before: Object | None, after: Object | None) -> None:
        """An object changed."""
        obj = after if after is not None else before
        if obj is None:
            return
        for route in self._routes[obj["kind"]]:
            for key, within in route(before, after):
                self._queue.add(key, within)

    def everything(self, scope: Scope = everywhere) -> None:
        """Every key of the namespaces that are meant."""
        for keys in self._keys:
            for key in keys(scope):
                self._queue.add(key)
