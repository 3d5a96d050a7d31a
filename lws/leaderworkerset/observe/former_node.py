"""Find the node that a recreated pod returns to, and the pods that have long waited for such a node.

The node name comes from the store. The node is read live if the pod must return there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lws import timing
from lws.kube.conditions import elapsed
from lws.kube.metadata import labels_of, metadata_of, name_of, namespace_of
from lws.kube.pods import is_pending
from lws.leaderworkerset.admission.pod import FormerNode
from lws.leaderworkerset.pod_identity import must_return_to
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.spec import node_return_of, other_manager, return_to
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import ClusterError, NotFound
from lws.runtime.store import Store
from lws_api.leaderworkerset.placement import NodeReturn
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL

log = logging.getLogger(__name__)


async def former_node(
    store: Store, read: Callable[[str], Awaitable[Object]], raw: Object, namespace: str
) -> FormerNode | None:
    """Return the node that a pod returns to; None if its set does not request a return, if the set excepts
    the node, or if another controller runs the set.

    Every replica watches sets and pods, so each knows the node, except of pods that ended before the replica
    started. read: reads a node live, as nodes are not watched. An unreadable node is preferred, not required.
    """
    lws = store.get(KIND, namespace, labels_of(raw).get(NAME_LABEL, ""))
    if lws is None or node_return_of(lws) is None or other_manager(lws):
        return None
    name = store.last_node(namespace, str(metadata_of(raw).get("name") or ""))
    how = return_to(lws, name) if name else None
    if how is None:
        return None
    if how == NodeReturn.PREFERRED:
        return FormerNode(name)
    try:
        return FormerNode(name, await read(name))
    except NotFound:
        return None
    except (ClusterError, TimeoutError) as error:
        log.warning("a pod that must return to node %s prefers it only: cannot read it: %s", name, error)
        return FormerNode(name)


async def node_for_review(cluster: Cluster, name: str) -> Object:
    """Read a node while the API server waits for a review. Raises TimeoutError."""
    async with asyncio.timeout(timing.NODE_OF_REVIEW_SECONDS):
        return await cluster.get("Node", "", name)


@dataclass(frozen=True, slots=True)
class WaitingPods:
    """Pods of a set that have long waited for the node that they must return to.
    nodes: those nodes that were due to be read, by name; None for a node that does not exist. recheck_after:
    seconds until the next read; None if no pod waits.
    """

    pods: tuple[Object, ...] = ()
    nodes: Mapping[str, Object | None] = field(default_factory=dict)
    recheck_after: float | None = None


@dataclass(frozen=True, slots=True)
class _Read:
    """When a node is due to be read, by a monotonic clock, and seconds since the last read; 0 before it."""

    due: float
    pause: float = 0.0

    def following(self, time: float) -> _Read:
        pause = timing.NODE_OF_RETURN.following(self.pause) or timing.NODE_OF_RETURN.first
        return _Read(time + pause, pause)


class NodesOfReturn:
    """Read nodes that pods wait to return to, at growing intervals, because nodes are not watched. One
    instance per term of leadership. The interval belongs to set and node, not to a pod: even if successors of
    deleted pods wait for the same node again, pods are deleted more and more rarely. clock: a monotonic one.
    """

    def __init__(
        self,
        store: Store,
        read: Callable[[Collection[str]], Awaitable[Mapping[str, Object | None]]],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._read = read
        self._clock = clock
        # By namespace and name of the set, and by node.
        self._reads: dict[tuple[str, str], dict[str, _Read]] = {}

    async def of_set(self, lws: Object, groups: Iterable[GroupFacts], now: datetime) -> WaitingPods:
        """Return the pods of the set that wait, and read the nodes that are due."""
        namespaced_name, time = (namespace_of(lws), name_of(lws)), self._clock()
        waits = [wait for group in groups for wait in group.waits if wait.node]
        long = [wait.pod for wait in waits if elapsed(wait.since, now) >= timing.NODE_WAIT_IS_LONG]
        reads = {
            node: read
            for node, read in self._reads.pop(namespaced_name, {}).items()
            if time - read.due < timing.NODE_OF_RETURN.longest
        }
        if reads:
            self._reads[namespaced_name] = reads
        stored = (self._store.get("Pod", namespaced_name[0], pod) for pod in long)
        pods = tuple(pod for pod in stored if pod is not None and is_pending(pod) and must_return_to(pod))
        if not pods:
            return WaitingPods()
        self._reads[namespaced_name] = reads
        at_once = _Read(time)
        names = sorted(set(map(must_return_to, pods)), key=lambda node: (reads.get(node, at_once).due, node))
        due_nodes = [node for node in names if reads.get(node, at_once).due <= time]
        for node in due_nodes[: timing.NODES_OF_RETURN]:
            reads[node] = reads.get(node, at_once).following(time)
        remaining = due_nodes[timing.NODES_OF_RETURN :]
        pauses = [reads[node].due - time for node in names if node not in remaining]
        recheck_after = min([*pauses, *[timing.NODES_OF_RETURN_SECONDS] * len(remaining[:1])])
        return WaitingPods(pods, await self._read(due_nodes[: timing.NODES_OF_RETURN]), recheck_after)

    def forget(self, namespace: str, name: str) -> None:
        """Drop what is recorded about a deleted set."""
        self._reads.pop((namespace, name), None)
