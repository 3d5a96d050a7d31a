"""Drain nodes as `kubectl drain` does, and record how many groups were down at the same time.

Evictions go through the Eviction API and are retried if a PodDisruptionBudget rejects them. A group counts as
down if one of its pods is missing or not ready after any event of the pods' stream.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL
from test.harness.groups import labels_of, name_of, pods_of
from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster import ApiError
from tools.localcluster.api import Call
from tools.localcluster.pods import is_ready

_GONE, _REFUSED = 404, 429


def evict(world: World, pod: str) -> bool:
    """Evict a pod, and return False if the budget rejects the eviction."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    try:
        world.api.send(Call("POST", f"{world.path('Pod', pod)}/eviction", eviction, waits=False))
    except ApiError as refusal:
        if refusal.status == _REFUSED:
            return False
        if refusal.status != _GONE:
            raise
    return True


def drain(world: World, name: str, nodes: set[str], seconds: float = 120.0) -> None:
    """Evict pods until no pod of the set is on these nodes, which must be cordoned."""

    def remaining() -> list[str]:
        pods = [pod for pod in pods_of(world, name) if pod["spec"].get("nodeName") in nodes]
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                evict(world, name_of(pod))
        return [name_of(pod) for pod in pods]

    eventually(
        f"{', '.join(sorted(nodes))} have no pods of {name}", remaining, lambda names: not names, seconds
    )


@contextmanager
def cordoned(world: World, nodes: set[str]) -> Iterator[None]:
    """Cordon the nodes during the block."""
    for node in nodes:
        world.api.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        for node in nodes:
            world.api.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})


@contextmanager
def without_node(world: World, name: str) -> Iterator[None]:
    """Delete a node, as if its machine were gone for good, and create another node of the same name after the
    block.
    """
    node = world.api.get(f"/api/v1/nodes/{name}")
    world.api.delete(f"/api/v1/nodes/{name}")
    try:
        yield
    finally:
        body = {"metadata": {"name": name, "labels": node["metadata"]["labels"]}}
        body["status"] = {field: node["status"][field] for field in ("capacity", "allocatable")}
        world.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **body})


@dataclass
class Downtime:
    """The groups of a set that are down, counted after every event of its pods.

    most: the largest number of groups that were down at the same time.
    """

    world: World
    name: str
    replicas: int
    size: int
    most: int = 0
    _pods: dict[str, dict[str, Any]] = field(default_factory=dict)

    @contextmanager
    def followed(self) -> Iterator[Downtime]:
        """Follow the pods during the block, up to their last event."""
        path = self.world.path("Pod")
        query = {"labelSelector": f"{NAME_LABEL}={self.name}"}
        pods = self.world.api.send(Call("GET", path, query=query))
        for pod in pods["items"]:
            self._see("ADDED", pod)
        self.most = 0
        assert self._down() == 0
        watch = {**query, "watch": "1", "resourceVersion": pods["metadata"]["resourceVersion"]}
        follower = threading.Thread(target=self._follow, args=(Call("GET", path, query=watch),), daemon=True)
        follower.start()
        yield self
        listed = {name_of(pod): pod["metadata"]["resourceVersion"] for pod in pods_of(self.world, self.name)}
        eventually("the stream is up to date", self._versions, lambda seen: seen == listed)

    def _follow(self, call: Call) -> None:
        # The stream may end after the last event. If it ends earlier, `followed` times out.
        with suppress(OSError):
            for event in self.world.api.watch(call):
                self._see(event["type"], event["object"])

    def _versions(self) -> dict[str, str]:
        return {name: pod["metadata"]["resourceVersion"] for name, pod in dict(self._pods).items()}

    def _see(self, kind: str, pod: dict[str, Any]) -> None:
        if kind == "DELETED":
            self._pods.pop(name_of(pod), None)
        else:
            self._pods[name_of(pod)] = pod
        self.most = max(self.most, self._down())

    def _down(self) -> int:
        groups: dict[str, int] = {}
        for pod in self._pods.values():
            index = labels_of(pod).get(GROUP_INDEX_LABEL, "")
            groups[index] = groups.get(index, 0) + is_ready(pod)
        return sum(groups.get(str(index), 0) < self.size for index in range(self.replicas))
