"""Find terminating pods of a set or a group, and the state of their nodes.

Pods wait for their kubelet or the garbage collector. Nodes of pods that wait too long are read live: nodes
are not watched, and are rarely needed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

from lws.kube.metadata import controller_of, labels_of
from lws.kube.names import parent_and_ordinal
from lws.kube.nodes import is_overdue, node_of
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import ApiError, Forbidden, NotFound
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import GROUP_KEY_LABEL, NAME_LABEL

log = logging.getLogger(__name__)

# What says how large a group is may have been edited, and may say any number.
_MOST_WORKERS = 10_000


class Leaving:
    """Looks for pods in the store, and for nodes at the API server."""

    def __init__(self, cluster: Cluster, store: Store) -> None:
        self._cluster = cluster
        self._store = store
        self._hidden: set[str] = set()

    def of_set(self, lws: Object) -> tuple[Object, ...]:
        """Pods of the set, and former ones that still have a name which it needs."""
        name = lws["metadata"]["name"]
        found = self._store.leaving(NAME_LABEL, lws["metadata"]["namespace"], name)
        return tuple(pod for pod in found if name in (_owner(pod), parent_and_ordinal(_owner(pod))[0]))

    def of_group(self, leader: Object) -> tuple[Object, ...]:
        """The leader and its workers; former workers too: while one has the name, nobody else can."""
        namespace, name = leader["metadata"]["namespace"], leader["metadata"]["name"]
        found = self._store.leaving(NAME_LABEL, namespace, labels_of(leader).get(NAME_LABEL, ""))
        # There is one StatefulSet of a name at a time: where this one is not the owner, the owner is gone.
        knows_owner = bool(found) and self._store.get("StatefulSet", namespace, name) is not None
        key = labels_of(leader).get(GROUP_KEY_LABEL)
        return tuple(
            pod
            for pod in found
            if pod["metadata"]["uid"] == leader["metadata"]["uid"]
            or (knows_owner and _owner(pod) == name and labels_of(pod).get(GROUP_KEY_LABEL) == key)
        )

    def former_workers(self, leader: Object, size: int) -> tuple[Object, ...]:
        """Where there is no StatefulSet of the leader's name: pods of a former one, whose names the workers
        of a group of this size need. An orphan is none of them: the next StatefulSet adopts it.
        """
        namespace, name = leader["metadata"]["namespace"], leader["metadata"]["name"]
        indices = range(1, min(size, _MOST_WORKERS))
        found = (self._store.get("Pod", namespace, f"{name}-{index}") for index in indices)
        return tuple(pod for pod in found if pod is not None and _owner(pod) == name)

    async def nodes(self, pods: Iterable[Object], now: datetime) -> dict[str, Object | None]:
        """Nodes of the pods that are overdue, by name; None for one that does not exist."""
        names = sorted({node_of(pod) for pod in pods if is_overdue(pod, now)})
        # One after the other: a dozen at most, and there is no hurry.
        read = {name: await self._node(name) for name in names}
        return {name: node for name, (is_known, node) in read.items() if is_known}

    async def _node(self, name: str) -> tuple[bool, Object | None]:
        try:
            node = await self._cluster.get("Node", "", name)
            self._hidden.discard(name)
            return True, node
        except NotFound:
            return True, None
        except Forbidden as error:
            if name not in self._hidden:
                log.warning("cannot tell whether node %s is lost: %s", name, error.message)
            self._hidden.add(name)
        except ApiError as error:
            log.info("cannot tell whether node %s is lost: %s", name, error.message)
        return False, None


def _owner(pod: Object) -> str:
    """The name of the StatefulSet that made a pod, empty for any other pod."""
    owner = controller_of(pod)
    return str(owner["name"]) if owner is not None and owner["kind"] == "StatefulSet" else ""
