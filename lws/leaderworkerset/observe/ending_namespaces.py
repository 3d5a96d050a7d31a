"""Report whether a namespace is being deleted.

Kubernetes deletes the pods of a namespace first, and everything else when no pod is left: a set is not
deleted while a finalizer keeps its pods.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from lws import timing
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import NAMESPACES
from lws.runtime.errors import Forbidden


class EndingNamespaces:
    """Reads each namespace that is asked for, and again after a while."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read_at: dict[str, datetime] = {}

    async def is_ending(self, namespace: str, now: datetime) -> bool:
        """Whether the namespace has a deletion timestamp; False if it may not be read. now: of the pass.

        Raises ClusterError.
        """
        since = now - timedelta(seconds=timing.NAMESPACE_SECONDS)
        self._read_at = {name: read for name, read in self._read_at.items() if read > since}
        if namespace in self._read_at:
            return False
        query = {"fieldSelector": f"metadata.name={namespace}"}
        try:
            page = await self._cluster.list_page(NAMESPACES, query, metadata_only=True)
        except Forbidden:
            return False
        is_ending = any(item["metadata"].get("deletionTimestamp") for item in page.get("items") or ())
        if not is_ending:
            self._read_at[namespace] = now
        return is_ending
