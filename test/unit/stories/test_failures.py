"""Failures of groups as text, compared with golden/failures/*.txt: a change of behaviour changes the text.

To rewrite the texts, run pytest with UPDATE_STORIES=1 in the environment and read the difference.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from lws.kube.metadata import is_terminating
from lws.runtime.actions import Key, Plan
from lws_api.leaderworkerset.placement import NODE_RETURN_ANNOTATION
from test.unit.stories.fake_cluster import NAME
from test.unit.stories.fake_nodes import preferred_node
from test.unit.stories.test_restarts import (
    AFTER_START,
    LEADER,
    NONE,
    ON_RESTART,
    WORKER,
    World,
    container_restart,
    evict,
)

GOLDEN = Path(__file__).parent / "golden" / "failures"
GROUPS, SIZE = 2, 3
NODES, ROOM = 4, 2
LEGEND = (
    "One line for each moment in which a pod changes or an Event is written.",
    "  after    seconds since the heading",
    "  groups   the pods of each group, leader first; - missing",
    "           r ready, x not ready, t on its way out: the pod that was there at the beginning",
    "           R ready, u not ready, T on its way out: another pod than then",
    "  events   reason and words of the Events that are written",
)


class Book(World):
    """Two groups of three ready pods, and what happens to them, chapter by chapter."""

    columns, width = "groups", 9

    def __init__(self, loop: asyncio.AbstractEventLoop, policy: str, **spec: Any) -> None:
        self._events: list[str] = []
        self._lines: list[str] = []
        self._chapters: list[str] = []
        self._is_open = False
        super().__init__(loop, policy, size=SIZE, **spec)
        self._first = self.uids()

    def chapter(self, heading: str, incident: Callable[[World], None], waits: bool = False) -> None:
        """Let an incident happen and play its consequences to the end.

        waits: whether to play on until nothing is delayed any more.
        """
        self._events.clear()
        self._lines, self._since, self._is_open = [], self.cluster.now, True
        self._log()
        incident(self)
        self._log()
        self.settle()
        self._end_slowly()
        if waits:
            self.wait()
        head = f"  {'after':<9}{self.columns:<{self.width}}events"
        self._chapters += [f"{heading}:", head, *(f"  {line}".rstrip() for line in self._lines), ""]

    def _end_slowly(self) -> None:
        """End held pods when their grace periods end."""
        while ends := {
            pod["metadata"]["uid"]: datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])
            for pod in self.cluster.of_kind("Pod")
            if is_terminating(pod) and pod["metadata"]["uid"] in self.nodes.held
        }:
            self.cluster.now = max(self.cluster.now, min(ends.values()))
            self.nodes.held -= {uid for uid, end in ends.items() if end <= self.cluster.now}
            self.settle()

    @property
    def text(self) -> str:
        return "\n".join([*self.legend(), "", *self._chapters])

    def legend(self) -> tuple[str, ...]:
        return LEGEND

    def followed_by(self, other: Book) -> Book:
        """Append the chapters of another book to this one."""
        self._chapters += other._chapters
        return self

    def on_plan(self, key: Key, snapshot: Any, plan: Plan) -> None:
        super().on_plan(key, snapshot, plan)
        actions = [action for sequence in plan.sequences for action in sequence] + list(plan.statuses)
        for announcement in (
            *plan.announce,
            *(announcement for action in actions for announcement in action.announce),
        ):
            self._events.append(f"{announcement.reason}: {announcement.note}")

    def _round(self, with_manager: bool) -> bool:
        did = super()._round(with_manager)
        self._log()
        return did

    def _log(self) -> None:
        if not self._is_open:
            return
        groups, width = self._picture(), self.width
        printed = {line[9 + width :] for line in self._lines}
        events = [event for event in dict.fromkeys(self._events) if event not in printed]
        self._events.clear()
        if events or not self._lines or self._lines[-1][9 : 9 + width].strip() != groups:
            after = (self.cluster.now - self._since).total_seconds()
            self._lines.append(f"{after:<9.1f}{groups:<{width}}{events[0] if events else ''}")
            self._lines += [f"{'':<9}{groups:<{width}}{event}" for event in events[1:]]

    def _picture(self) -> str:
        return " ".join(
            "".join(
                self._letter(f"{NAME}-{group}-{worker}" if worker else f"{NAME}-{group}")
                for worker in range(SIZE)
            )
            for group in range(GROUPS)
        )

    def _letter(self, name: str) -> str:
        pod = self.cluster.find("Pod", name)
        if pod is None:
            return "-"
        is_first = pod["metadata"]["uid"] == self._first[name]
        if "deletionTimestamp" in pod["metadata"]:
            return "t" if is_first else "T"
        conditions = {
            condition["type"]: condition["status"]
            for condition in pod.get("status", {}).get("conditions", ())
        }
        ready = conditions.get("Ready") == "True"
        return ("r" if ready else "x") if is_first else ("R" if ready else "u")


class BookOfNodes(Book):
    """The same groups on four nodes with room for two pods each."""

    columns, width = "nodes", 13

    def take_over(self) -> None:
        super().take_over()
        self._slots: dict[str, tuple[int, int]] = {}
        self.nodes.place = self._place

    def legend(self) -> tuple[str, ...]:
        pods = next(number for number, line in enumerate(LEGEND) if line.startswith("  groups"))
        return (
            *LEGEND[:pods],
            "  nodes    the pods on each node, which has room for two; - none",
            *LEGEND[pods + 1 :],
        )

    def _place(self, pod: Any) -> str:
        """Return the node that the pod prefers if it has room.

        Otherwise it is the last node with room, or at the beginning the first one.
        """
        used = {self._slots[uid] for uid in self.uids().values() if uid in self._slots}
        free = [slot for slot in product(range(NODES), range(ROOM)) if slot not in used]
        room = {f"node-{slot[0]}": slot for slot in free}
        slot = room.get(preferred_node(pod), free[-self._is_open])
        self._slots[pod["metadata"]["uid"]] = slot
        return f"node-{slot[0]}"

    def _picture(self) -> str:
        names = {self._slots[uid]: name for name, uid in self.uids().items() if uid in self._slots}
        letters = [
            "".join(self._letter(names[node, slot]) if (node, slot) in names else "-" for slot in range(ROOM))
            for node in range(NODES)
        ]
        return " ".join(letters)


def _lose_leader(world: World) -> None:
    world.cluster.request_deletion(world.pod(LEADER))


def _lose_worker(world: World) -> None:
    world.cluster.request_deletion(world.pod(WORKER))


def worker_restarts(loop: asyncio.AbstractEventLoop) -> Book:
    book = Book(loop, ON_RESTART)
    book.chapter("RecreateGroupOnPodRestart; a container of demo-0-1 restarts", container_restart)
    return book


def leader_deleted(loop: asyncio.AbstractEventLoop) -> Book:
    book = Book(loop, ON_RESTART)
    book.chapter("any policy; the leader pod demo-0 is deleted", _lose_leader)
    return book


def none(loop: asyncio.AbstractEventLoop) -> Book:
    book = Book(loop, NONE)
    book.chapter("None; the worker pod demo-0-1 is deleted", _lose_worker)
    return book


def again_and_again(loop: asyncio.AbstractEventLoop) -> Book:
    book = Book(loop, ON_RESTART, maxGroupRestarts=2)
    book.chapter("maxGroupRestarts 2; a container of demo-0-1 restarts", container_restart)
    book.chapter("it restarts again", container_restart, waits=True)
    book.chapter("and again: the group is kept as it is", container_restart)
    return book


def evicted(loop: asyncio.AbstractEventLoop) -> Book:
    book = Book(loop, AFTER_START)
    book.chapter("RecreateGroupAfterStart; the worker pod demo-0-1 is evicted", evict, waits=True)
    return book


def _scale_down(world: World) -> None:
    """Scale down while the nodes give each pod its whole grace period."""
    world.nodes.held |= set(world.uids().values())
    world.set(spec={"replicas": 1})


def parallel_termination(loop: asyncio.AbstractEventLoop) -> Book:
    books = [Book(loop, ON_RESTART, podTerminationPolicy=policy) for policy in ("Default", "Parallel")]
    books[0].chapter("podTerminationPolicy: Default; scaled to 1, each pod takes 30 s to end", _scale_down)
    books[1].chapter("podTerminationPolicy: Parallel; the same", _scale_down)
    return books[0].followed_by(books[1])


def _lose_slow_leader(world: World) -> None:
    world.nodes.held.add(world.uids()[LEADER])
    _lose_leader(world)


def node_return(loop: asyncio.AbstractEventLoop) -> Book:
    former = BookOfNodes(loop, ON_RESTART)
    former.chapter("without node-return; the leader pod demo-0 is deleted", _lose_slow_leader)
    returning = BookOfNodes(loop, ON_RESTART, annotations={NODE_RETURN_ANNOTATION: "Preferred"})
    returning.chapter("node-return: Preferred; the same", _lose_slow_leader)
    return former.followed_by(returning)


STORIES = {
    "worker-restarts": worker_restarts,
    "leader-deleted": leader_deleted,
    "policy-none": none,
    "again-and-again": again_and_again,
    "evicted": evicted,
    "parallel-termination": parallel_termination,
    "node-return": node_return,
}


@pytest.mark.parametrize("name", STORIES)
def test_story(loop: asyncio.AbstractEventLoop, name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    text = STORIES[name](loop).text
    if os.environ.get("UPDATE_STORIES"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_file_has_a_story() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(STORIES)
