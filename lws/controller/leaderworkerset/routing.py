"""Which passes over sets and groups does a change start, and for how long can each be put off?

In: changes of the store, and the store. Out: keys with seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lws.actions import Object
from lws.cluster.cache.fields import Wakes
from lws.cluster.cache.store import Store
from lws.cluster.cache.tables import wakes
from lws.controller.election.election import Scope
from lws.controller.leaderworkerset.routes import keys_of
from lws.controller.triggers.coalescing import delay_of
from lws.controller.triggers.keys import Key, Wake
from lws.kube.metadata import controller_of
from lws_api.leaderworkerset.v1 import KIND


class Routing:
    """leader_pods_of: the leader pods of a set."""

    def __init__(self, store: Store, leader_pods_of: Callable[[Object], Iterable[Object]]) -> None:
        self._store = store
        self._leader_pods_of = leader_pods_of

    def of_change(self, before: Object | None, after: Object | None) -> list[Wake]:
        """The passes that a change concerns."""
        woken = [
            (key, self._delay(key, before, after) if key.kind == "group" else 0.0)
            for key in keys_of(before, after)
        ]
        obj = after if after is not None else before
        if obj is not None and obj["kind"] == KIND:
            if before is None or after is None or wakes(before, after) is Wakes.ALL:
                woken += self._of_groups(obj)
        elif after is not None and after["kind"] == "StatefulSet":
            woken += self._of_leaders(before, after)
        return woken

    def keys(self, scope: Scope) -> Iterator[Key]:
        """Every set and every group, of the namespaces that are meant."""
        for lws in self._store.of_kind(KIND):
            if scope(lws["metadata"]["namespace"]):
                yield Key("set", lws["metadata"]["namespace"], lws["metadata"]["name"])
                yield from (key for key, _ in self._of_groups(lws))

    def _delay(self, key: Key, before: Object | None, after: Object | None) -> float:
        leader = self._store.get("Pod", key.namespace, key.name)
        if leader is None:
            return 0.0
        return delay_of(before, after, leader, self._store.get("StatefulSet", key.namespace, key.name))

    def _of_leaders(self, before: Object | None, after: Object) -> Iterable[Wake]:
        """Pods of a StatefulSet that was unknown, or nobody's, were nobody's groups: none was looked at."""
        owner = controller_of(after)
        is_new = before is None or controller_of(before) is None
        if owner is None or owner["kind"] != KIND or not is_new:
            return ()
        metadata = {**after["metadata"], "name": owner["name"], "uid": owner["uid"]}
        return self._of_groups({"kind": KIND, "metadata": metadata})

    def _of_groups(self, lws: Object) -> Iterator[Wake]:
        # What a set asks for concerns its groups too: restart policy, startup policy.
        for pod in self._leader_pods_of(lws):
            yield Key("group", pod["metadata"]["namespace"], pod["metadata"]["name"]), 0.0
