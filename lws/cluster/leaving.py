"""Which pods of a group are on their way out, and what do their nodes say?

In: a leader pod and the StatefulSet of its name. Out: pods that wait for their kubelet; the nodes of those
that wait too long, each read live: nodes are not watched, and hardly ever asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from datetime import datetime

from lws.actions import Object
from lws.cluster.connection import Cluster
from lws.cluster.errors import ApiError, Forbidden, NotFound
from lws.cluster.store import Store
from lws.kube.metadata import controller_of, labels_of
from lws.kube.nodes import is_overdue, node_of, waits_for_kubelet
from lws.kube.statefulsets import wanted_replicas
from lws_api.leaderworkerset.v1 import GROUP_KEY_LABEL, NAME_LABEL

log = logging.getLogger(__name__)


class Leaving:
    """Looks for pods in the store, and for nodes at the API server."""

    def __init__(self, cluster: Cluster, store: Store) -> None:
        self._cluster = cluster
        self._store = store

    def pods(self, leader: Object) -> tuple[Object, ...]:
        """Pods of the leader's group that are being deleted and wait for their kubelet, the leader included.

        A former worker counts too: while it has the name, nobody else can.
        """
        return tuple(
            pod for pod in (leader, *self._workers(leader)) if waits_for_kubelet(pod) and _is_kin(pod, leader)
        )

    async def nodes(self, pods: Iterable[Object], now: datetime) -> dict[str, Object | None]:
        """Nodes of the pods that are overdue, by name; None for one that does not exist."""
        names = sorted({node_of(pod) for pod in pods if is_overdue(pod, now)})
        read = await asyncio.gather(*(self._node(name) for name in names))
        return {name: node for name, (known, node) in zip(names, read, strict=True) if known}

    def _workers(self, leader: Object) -> Iterator[Object]:
        namespace, name = leader["metadata"]["namespace"], leader["metadata"]["name"]
        workers = self._store.get("StatefulSet", namespace, name)
        if workers is None:
            return
        uid, replicas = workers["metadata"]["uid"], wanted_replicas(workers)
        pods = self._store.controlled_by(uid, "Pod")
        yield from pods
        for index in range(1, replicas + 1) if len(pods) < replicas else ():
            former = self._store.get("Pod", namespace, f"{name}-{index}")
            owner = controller_of(former) if former is not None else None
            if former is None or owner is None or owner["uid"] == uid:
                continue
            # There is one StatefulSet of a name at a time: that of the pod is gone.
            if (owner["kind"], owner["name"]) == ("StatefulSet", name):
                yield former

    async def _node(self, name: str) -> tuple[bool, Object | None]:
        try:
            return True, await self._cluster.get("Node", "", name)
        except NotFound:
            return True, None
        except Forbidden as error:
            log.warning("cannot tell whether node %s is lost: %s; upgrade the chart", name, error.message)
        except ApiError as error:
            log.info("cannot tell whether node %s is lost: %s", name, error.message)
        return False, None


def _is_kin(pod: Object, leader: Object) -> bool:
    one, two = labels_of(pod), labels_of(leader)
    return all(one.get(label) == two.get(label) for label in (NAME_LABEL, GROUP_KEY_LABEL))
