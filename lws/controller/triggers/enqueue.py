"""When does a pass start? On every change that concerns its key, and on all keys now and then.

In: changes of the store. Out: keys in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lws.actions import Object
from lws.cluster.cache.fields import Wakes
from lws.cluster.cache.store import Store
from lws.cluster.cache.tables import wakes
from lws.controller.queue.queue import Queue
from lws.controller.triggers.coalescing import delay_of
from lws.controller.triggers.routes import Key, keys_of
from lws.kube.metadata import controller_of
from lws_api.leaderworkerset.v1 import KIND


class Wakeup:
    """Puts keys into a queue. leader_pods_of: the leader pods of a set; find: an object by kind, namespace
    and name. Both are set once the store can be asked.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.leader_pods_of: Callable[[Object], Iterable[Object]] = lambda lws: ()
        self.find: Callable[[str, str, str], Object | None] = lambda kind, namespace, name: None

    def on_change(self, before: Object | None, after: Object | None) -> None:
        """An object changed."""
        for key in keys_of(before, after):
            self._queue.add(key, self._delay(key, before, after))
        obj = after if after is not None else before
        if obj is not None and obj["kind"] == KIND:
            if before is None or after is None or wakes(before, after) is Wakes.ALL:
                self._groups_of(obj)
        elif after is not None and after["kind"] == "StatefulSet":
            self._on_leaders(before, after)

    def _delay(self, key: Key, before: Object | None, after: Object | None) -> float:
        leader = self.find("Pod", key.namespace, key.name) if key.kind == "group" else None
        if leader is None:
            return 0.0
        return delay_of(before, after, leader, self.find("StatefulSet", key.namespace, key.name))

    def everything(self, store: Store, is_meant: Callable[[str], bool] = lambda namespace: True) -> None:
        """Every set and every group, of the namespaces that are meant."""
        for lws in store.of_kind(KIND):
            if not is_meant(lws["metadata"]["namespace"]):
                continue
            self._queue.add(Key("set", lws["metadata"]["namespace"], lws["metadata"]["name"]))
            self._groups_of(lws)

    def _on_leaders(self, before: Object | None, after: Object) -> None:
        """Pods of a StatefulSet that was unknown, or nobody's, were nobody's groups: none was looked at."""
        owner = controller_of(after)
        is_new = before is None or controller_of(before) is None
        if owner is not None and owner["kind"] == KIND and is_new:
            metadata = {**after["metadata"], "name": owner["name"], "uid": owner["uid"]}
            self._groups_of({"kind": KIND, "metadata": metadata})

    def _groups_of(self, lws: Object) -> None:
        # What a set asks for concerns its groups too: restart policy, startup policy.
        for pod in self.leader_pods_of(lws):
            self._queue.add(Key("group", pod["metadata"]["namespace"], pod["metadata"]["name"]))
