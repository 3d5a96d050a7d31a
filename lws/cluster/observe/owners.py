"""Do the owners of strangers still live?

In: objects that have a name we need, and the store. Out: whose controllers live, as far as that can be known
without asking; what is not watched is taken to live.
"""

from __future__ import annotations

from lws.actions import Object
from lws.cluster.cache.store import Store
from lws.kube.metadata import controller_of, labels_of
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL

# Kinds of owners that we watch: whether one of them still lives is known without asking.
_WATCHED_OWNERS = frozenset({KIND, "StatefulSet", "Pod"})


class Owners:
    """Looks for owners in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def alive(self, *objects: Object | None) -> frozenset[str]:
        """UIDs of the controllers that live."""
        return frozenset(
            owner["uid"]
            for obj in objects
            if obj is not None and (owner := controller_of(obj)) is not None and self._is_alive(obj, owner)
        )

    def _is_alive(self, obj: Object, owner: Object) -> bool:
        if owner["kind"] not in _WATCHED_OWNERS:
            return True
        known = self._store.get(owner["kind"], obj["metadata"]["namespace"], owner["name"])
        if known is not None:
            return bool(known["metadata"]["uid"] == owner["uid"])
        # Sets and their pods are all watched; any other pod or StatefulSet may live without our seeing it.
        return owner["kind"] != KIND and NAME_LABEL not in labels_of(obj)
