"""Find the object with a name regardless of its owner, in the store or on the API server."""

from __future__ import annotations

from lws.kube.metadata import is_controlled_by, labels_of
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import NotFound
from lws.runtime.store import Store


class Lookup:
    """Finds objects in the store, by the label of watches, or live if another owner's object may exist."""

    def __init__(self, cluster: Cluster, store: Store, label: str) -> None:
        self._cluster = cluster
        self._store = store
        self._label = label

    async def named(
        self, kind: str, namespace: str, name: str, owner_uid: str, look_when_absent: bool = False
    ) -> Object | None:
        """Return the object with this name; None if there is none.

        Our own objects come from the store. Any other object is read live, also if the store has none and
        `look_when_absent` is set: watches select by label and may not show objects of other owners.
        """
        stored = self._store.get(kind, namespace, name)
        if stored is None and not look_when_absent:
            return None
        if stored is not None and is_controlled_by(stored, owner_uid) and self._label in labels_of(stored):
            return stored
        try:
            live = await self._cluster.get(kind, namespace, name)
        except NotFound:
            if stored is not None:
                self._store.drop(stored)
            return None
        self._store.put(live)
        return self._store.get(kind, namespace, name)

    async def reread(self, obj: Object) -> Object | None:
        """Read an object live and update the store. Return None if the object no longer exists."""
        metadata = obj["metadata"]
        try:
            live = await self._cluster.get(obj["kind"], metadata["namespace"], metadata["name"])
        except NotFound:
            live = None
        if live is None or live["metadata"]["uid"] != metadata["uid"]:
            self._store.drop(obj)
            return None
        self._store.put(live)
        return live

    async def node_of(self, pod: Object) -> Object | None:
        """Read the node of a pod live; None if the pod has no node or the node is gone."""
        name = pod["spec"].get("nodeName")
        try:
            return await self._cluster.get("Node", "", name) if name else None
        except NotFound:
            return None
