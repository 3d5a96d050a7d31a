"""Read a large collection page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import Resource

_PAGE = "500"


async def pages(
    cluster: Cluster,
    resource: Resource,
    query: Mapping[str, str],
    *,
    namespace: str = "",
    metadata_only: bool = False,
) -> AsyncIterator[dict[str, Any]]:
    """Pages of a collection, of all namespaces or of one, one after the other; see `Cluster.list_page`.

    Raises ClusterError; a Gone where reading took longer than the server keeps what the first page was of.
    """
    narrowed = {**query, "limit": _PAGE}
    while True:
        page = await cluster.list_page(resource, narrowed, metadata_only=metadata_only, namespace=namespace)
        yield page
        token = (page.get("metadata") or {}).get("continue")
        if not token:
            return
        narrowed["continue"] = token
