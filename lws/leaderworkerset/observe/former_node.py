"""Find the node that a recreated pod returns to: from the store, and read live if it must return there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from lws import timing
from lws.kube.metadata import labels_of, metadata_of
from lws.leaderworkerset.admission.pod import FormerNode
from lws.leaderworkerset.spec import node_return_of, nodes_of_no_return, other_manager
from lws.runtime.actions import Object
from lws.runtime.errors import ClusterError, NotFound
from lws.runtime.store import Store
from lws_api.leaderworkerset.placement import NodeReturn
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL

log = logging.getLogger(__name__)


async def former_node(
    store: Store, read: Callable[[str], Awaitable[Object]], raw: Object, namespace: str
) -> FormerNode | None:
    """The node that a pod returns to; None if its set does not ask for that, or excepts the node, or if
    another controller runs it.

    Every replica watches sets and pods, so each knows it, but of pods that ended before it began. read: reads
    a node live, because nodes are not watched. One that cannot be read is not required.
    """
    lws = store.get(KIND, namespace, labels_of(raw).get(NAME_LABEL, ""))
    how = node_return_of(lws) if lws is not None and not other_manager(lws) else None
    name = store.last_node(namespace, str(metadata_of(raw).get("name") or "")) if how is not None else ""
    if lws is None or not name or name in nodes_of_no_return(lws):
        return None
    if how == NodeReturn.PREFERRED:
        return FormerNode(name)
    try:
        async with asyncio.timeout(timing.NODE_OF_REVIEW_SECONDS):
            return FormerNode(name, await read(name))
    except NotFound:
        return None
    except (ClusterError, TimeoutError) as error:
        log.warning("a pod that must return to node %s prefers it only: cannot read it: %s", name, error)
        return FormerNode(name)
