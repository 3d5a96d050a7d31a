"""Tests of how often nodes are read for pods that wait to return to them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any

from lws.kube.pods import NodeWait, with_required_node
from lws.leaderworkerset.observe.former_node import NodesOfReturn, WaitingPods
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.tables import TABLES
from lws.runtime.store import Store
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from test.unit.builders import NOW, make_group, make_set, make_worker_pod

LWS = make_set(size=30)


class Returns:
    """A reader of nodes.

    reads: the second and the node's name of each read.
    """

    def __init__(self) -> None:
        self.store = Store(lambda before, after: None, TABLES)
        self.returns = NodesOfReturn(self.store, self.read, lambda: self.second)
        self.reads: list[tuple[float, str]] = []
        self.second = 0.0

    async def read(self, names: Collection[str]) -> dict[str, Any]:
        self.reads += [(self.second, name) for name in names]
        return dict.fromkeys(names)

    async def at(self, second: float, group: GroupFacts) -> WaitingPods:
        self.second = second
        return await self.returns.of_set(LWS, [group], NOW + timedelta(seconds=second))

    def waiting(self, *nodes: str, bound: bool = False, uid: str = "u") -> GroupFacts:
        """Return a group with a worker for each node, which has waited since second 0."""
        group, waits = make_group(LWS), []
        for index, node in enumerate(nodes, 1):
            pod = make_worker_pod(
                group.worker_statefulset, index, uid=f"{uid}-{index}", ready=False, phase="Pending"
            )
            pod["metadata"]["annotations"][RETURNS_TO_ANNOTATION] = node
            version = str(int(self.store.version_of(pod)) + 1 + len(self.reads))
            pod["metadata"]["resourceVersion"] = version
            pod["spec"] = {"affinity": with_required_node({}, node), **({"nodeName": node} if bound else {})}
            self.store.put(pod)
            waits.append(NodeWait(NOW, pod=pod["metadata"]["name"], node=node))
        return replace(group, waits=tuple(waits))


async def test_no_reads_without_waiting_pods() -> None:
    returns = Returns()
    anywhere = replace(make_group(LWS), waits=(NodeWait(NOW),))
    for second in range(0, 600, 10):
        assert await returns.at(second, anywhere) == WaitingPods()
    assert returns.reads == []


async def test_a_node_is_read_after_30_s_and_then_at_growing_intervals() -> None:
    returns = Returns()
    group = returns.waiting("node-1", "node-1")
    for second in range(1600):
        result = await returns.at(second, group)
        assert bool(result.pods) == (second >= 30)
    assert [second for second, _ in returns.reads] == [30, 60, 120, 240, 480, 780, 1080, 1380]


async def test_the_next_pass_is_due_with_the_next_read() -> None:
    returns = Returns()
    group = returns.waiting("node-1")
    assert (await returns.at(30, group)).recheck_after == 30
    assert (await returns.at(50, group)).recheck_after == 10
    assert (await returns.at(60, group)).recheck_after == 60


async def test_ten_nodes_are_read_per_pass() -> None:
    returns = Returns()
    group = returns.waiting(*(f"node-{index:02}" for index in range(25)))
    results = [await returns.at(second, group) for second in (40, 45, 50, 55)]
    assert [len(result.nodes) for result in results] == [10, 10, 5, 0]
    assert [result.recheck_after for result in results] == [5, 5, 20, 15]
    assert sorted(name for _, name in returns.reads) == [f"node-{index:02}" for index in range(25)]


async def test_the_interval_is_kept_per_set_and_node() -> None:
    """Another controller may keep making successors wait for a node that is not fit."""
    returns = Returns()
    for uid in range(20):
        group = returns.waiting("node-1", uid=str(uid))
        for second in range(30):
            await returns.at(uid * 60 + 30 + second, group)
            await returns.at(uid * 60 + 60 + second, make_group(LWS))
    assert len(returns.reads) <= 7, returns.reads
    for second in range(1300, 2000, 100):
        await returns.at(second, make_group(LWS))
    await returns.at(2000, returns.waiting("node-1", uid="later"))
    assert returns.reads[-1] == (2000, "node-1")


async def test_no_reads_for_scheduled_or_deleted_pods() -> None:
    returns = Returns()
    assert await returns.at(40, returns.waiting("node-1", bound=True)) == WaitingPods()
    failed = returns.waiting("node-1", uid="failed")
    pod = returns.store.get("Pod", "default", "demo-0-1")
    assert pod is not None
    metadata = {**pod["metadata"], "resourceVersion": "99"}
    returns.store.put({**pod, "metadata": metadata, "status": {"phase": "Failed"}})
    assert await returns.at(40, failed) == WaitingPods(), "a failed pod needs no node"
    ghost = replace(make_group(LWS), waits=(NodeWait(NOW, pod="demo-0-9", node="node-1"),))
    assert await returns.at(40, ghost) == WaitingPods()
    returns.returns.forget("default", "demo")
