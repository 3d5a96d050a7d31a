"""Drain nodes as `kubectl drain` does: with the Eviction API, again if a PodDisruptionBudget rejects it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from test.harness.groups import name_of, pods_of
from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster import ApiError
from tools.localcluster.api import Call

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
