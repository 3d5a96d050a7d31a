"""Find terminating pods of a set or a group, and the state of their nodes and namespaces.

Such pods wait for their kubelet or the garbage collector. Nodes of pods that wait too long are read live:
nodes are not watched, because they are rarely needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime

from lws import timing
from lws.kube.metadata import controller_of, labels_of, name_of
from lws.kube.nodes import is_overdue, node_of, waits_for_kubelet
from lws.kube.pods import has_gate
from lws.leaderworkerset.observe.membership import workers_of
from lws.leaderworkerset.pod_identity import group_name
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import NAMESPACES
from lws.runtime.errors import ApiError, Forbidden, NotFound
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import GROUP_KEY_LABEL, GROUP_REPLACEMENT_GATE, NAME_LABEL

log = logging.getLogger(__name__)

# The size of a group may have been edited to any number.
_MOST_WORKERS = 10_000


class TerminatingPods:
    """Find pods in the store, and read their nodes from the API server. clock: a monotonic one in seconds."""

    def __init__(self, cluster: Cluster, store: Store, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._store = store
        self._clock = clock
        # Nodes that the manager may not read: reported once.
        self._forbidden: set[str] = set()
        # When a namespace that is not being deleted was last read.
        self._read_at: dict[str, float] = {}

    def of_set(self, lws: Object) -> tuple[Object, ...]:
        """Return the terminating pods with names of the set."""
        name = lws["metadata"]["name"]
        pods = self._store.terminating_pods(NAME_LABEL, lws["metadata"]["namespace"], name)
        return tuple(pod for pod in pods if is_of_set(pod, name))

    def of_group(self, leader: Object) -> tuple[Object, ...]:
        """Return the leader and its workers if they are terminating, and terminating workers of a previous
        leader that block names of this group.
        """
        namespace, key = leader["metadata"]["namespace"], labels_of(leader).get(GROUP_KEY_LABEL, "")
        pods = self._store.terminating_pods(GROUP_KEY_LABEL, namespace, key) if key else []
        if not key and waits_for_kubelet(leader):
            pods = [leader]
        # Matched by name: if this StatefulSet does not own such a pod, the owner no longer exists.
        workers = workers_of(self._store, leader) if pods else None
        name = name_of(workers) if workers is not None else ""
        if workers is None and has_gate(leader, GROUP_REPLACEMENT_GATE):
            # A gated leader waits for pods of a group whose StatefulSet is gone.
            name = group_name(leader)
        return tuple(
            pod
            for pod in pods
            if pod["metadata"]["uid"] == leader["metadata"]["uid"] or (name and _owner(pod) == name)
        )

    def former_workers(self, leader: Object, size: int) -> tuple[Object, ...]:
        """Return pods of a deleted worker StatefulSet that block names of a new one of this size. Orphans are
        left out: the new StatefulSet adopts them.
        """
        namespace, name = leader["metadata"]["namespace"], group_name(leader)
        indices = range(1, min(size, _MOST_WORKERS))
        pods = (self._store.get("Pod", namespace, f"{name}-{index}") for index in indices)
        return tuple(pod for pod in pods if pod is not None and _owner(pod) == name)

    async def nodes(self, pods: Iterable[Object], now: datetime) -> dict[str, Object | None]:
        """Read the nodes of the pods that are overdue, by name; None for a node that does not exist."""
        return await self.read({node_of(pod) for pod in pods if is_overdue(pod, now)})

    async def read(self, names: Iterable[str]) -> dict[str, Object | None]:
        """Read these nodes, by name; None for a node that does not exist. Unreadable nodes are left out."""
        nodes: dict[str, Object | None] = {}
        for name in sorted(names):
            try:
                nodes[name] = await self._cluster.get("Node", "", name)
                self._forbidden.discard(name)
            except NotFound:
                nodes[name] = None
            except Forbidden as error:
                if name not in self._forbidden:
                    log.warning("cannot check whether node %s is lost: %s", name, error.message)
                self._forbidden.add(name)
            except ApiError as error:
                log.info("cannot check whether node %s is lost: %s", name, error.message)
        return nodes

    async def is_namespace_ending(self, namespace: str) -> bool:
        """Return whether the namespace has a deletion timestamp; False if the manager may not read it.

        A namespace that is not being deleted is read at most once in `NAMESPACE_SECONDS`. Raises
        ClusterError. Kubernetes deletes the pods of a namespace first, and everything else when no pod is
        left: a set is not deleted while a finalizer keeps its pods.
        """
        now = self._clock()
        since = now - timing.NAMESPACE_SECONDS
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


def _owner(pod: Object) -> str:
    """Return the name of the StatefulSet or ReplicaSet that controls a pod; empty for any other pod."""
    owner = controller_of(pod)
    kinds = ("StatefulSet", "ReplicaSet")
    return str(owner["name"]) if owner is not None and owner["kind"] in kinds else ""


def is_of_set(pod: Object, name: str) -> bool:
    """Return whether the controller of a pod with the name label of the set has a name that the set uses."""
    owner = _owner(pod)
    return name in (owner, owner.rpartition("-")[0])
