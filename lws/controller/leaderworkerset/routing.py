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
from lws.controller.leaderworkerset import delays
from lws.controller.leaderworkerset.routes import ROUTED, keys_of
from lws.controller.triggers.coalescing import delay_of
from lws.controller.triggers.keys import Key, Route, Wake
from lws.kube.metadata import controller_of
from lws_api.leaderworkerset.v1 import KIND


class Routing:
    """leader_pods_of: the leader pods of a set. is_as_left: whether our last write left its status so."""

    def __init__(
        self,
        store: Store,
        leader_pods_of: Callable[[Object], Iterable[Object]],
        is_as_left: Callable[[Object], bool] = lambda lws: False,
    ) -> None:
        self._store = store
        self._is_as_left = is_as_left
        self._leader_pods_of = leader_pods_of

    @property
    def routes(self) -> dict[str, Route]:
        """By kind of the object that changes."""
        return {
            **dict.fromkeys(ROUTED, self._of_child),
            KIND: self._of_set,
            "StatefulSet": self._of_statefulset,
        }

    def _of_child(self, before: Object | None, after: Object | None) -> list[Wake]:
        keys: Iterable[Key] = keys_of(before, after)
        if all(_is_strangers(each) for each in (before, after) if each is not None):
            # It can only be in the way of what is there; most is in nobody's (Services and revisions of
            # DisaggregatedSets: 10 passes in a rollout of two roles).
            keys = filter(self._is_there, keys)
        return [(key, self._delay(key, before, after)) for key in keys]

    def _is_there(self, key: Key) -> bool:
        kind = KIND if key.kind == "set" else "Pod"
        return self._store.get(kind, key.namespace, key.name) is not None

    def _of_set(self, before: Object | None, after: Object | None) -> list[Wake]:
        if before is not None and after is not None and self._is_own_report(before, after):
            return []
        woken = self._of_child(before, after)
        if before is None or after is None:
            return [*woken, *self._of_groups(before or after or {})]
        return [*woken, *self._of_groups(after)] if wakes(before, after) is Wakes.ALL else woken

    def _is_own_report(self, before: Object, after: Object) -> bool:
        """What its own pass has said of a set tells it nothing; passes over groups write restarts."""
        if wakes(before, after) is not Wakes.SET or not self._is_as_left(after):
            return False
        one, two = (obj.get("status") or {} for obj in (before, after))
        return bool(one.get("restarts") == two.get("restarts"))

    def _of_statefulset(self, before: Object | None, after: Object | None) -> list[Wake]:
        """Pods of a StatefulSet that was unknown, or nobody's, were nobody's groups: none was looked at."""
        woken = self._of_child(before, after)
        owner = controller_of(after) if after is not None else None
        is_new = before is None or controller_of(before) is None
        if after is None or owner is None or owner["kind"] != KIND or not is_new:
            return woken
        metadata = {**after["metadata"], "name": owner["name"], "uid": owner["uid"]}
        return [*woken, *self._of_groups({"kind": KIND, "metadata": metadata})]

    def keys(self, scope: Scope) -> Iterator[Key]:
        """Every set and every group, of the namespaces that are meant."""
        for lws in self._store.of_kind(KIND):
            if scope(lws["metadata"]["namespace"]):
                yield Key("set", lws["metadata"]["namespace"], lws["metadata"]["name"])
                yield from (key for key, _ in self._of_groups(lws))

    def _delay(self, key: Key, before: Object | None, after: Object | None) -> float:
        # The StatefulSet of workers has the name of their leader.
        name = key.name if key.kind == "group" else (after or before or {})["metadata"]["name"]
        leader, workers = (self._store.get(kind, key.namespace, name) for kind in ("Pod", "StatefulSet"))
        if key.kind == "set":
            return delays.delay_of(before, after, leader, workers)
        return 0.0 if leader is None else delay_of(before, after, leader, workers)

    def _of_groups(self, lws: Object) -> Iterator[Wake]:
        # What a set asks for concerns its groups too: restart policy, startup policy.
        for pod in self._leader_pods_of(lws):
            yield Key("group", pod["metadata"]["namespace"], pod["metadata"]["name"]), 0.0


def _is_strangers(obj: Object) -> bool:
    """Something else than a set or what was made for one controls it."""
    owner = controller_of(obj)
    return owner is not None and owner["kind"] not in (KIND, "StatefulSet", "Pod")
