"""Find the object of a name regardless of its owner, in the store or on the API server."""

from __future__ import annotations

from lws.kube.metadata import is_controlled_by, labels_of
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import NotFound
from lws.runtime.store import Store


class Lookup:
    """Reads from the store, and live where an object of another owner may exist. label: selector of the
    streams.
    """

    def __init__(self, cluster: Cluster, store: Store, label: str) -> None:
        self._cluster = cluster
        self._store = store
        self._label = label

    async def named(
        self, kind: str, namespace: str, name: str, owner_uid: str, look_when_absent: bool = False
    ) -> Object | None:
        """The object of this name. Ours come from the store; what may be a stranger is read live, because
        the streams are narrowed by label and do not show strangers.
        """
        known = self._store.get(kind, namespace, name)
        if known is None and not look_when_absent:
            return None
        if known is not None and is_controlled_by(known, owner_uid) and self._label in labels_of(known):
            return known
        try:
            live = await self._cluster.get(kind, namespace, name)
        except NotFound:
            if known is not None:
                self._store.drop(known)
            return None
        self._store.put(live)
        return self._store.get(kind, namespace, name)

    async def reread(self, obj: Object) -> Object | None:
        """The object as it is now, read live; None if it is gone. The store is updated."""
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
        """The node that a pod was placed on."""
        name = pod["spec"].get("nodeName")
        try:
            return await self._cluster.get("Node", "", name) if name else None
        except NotFound:
            return None
