"""Failures told as text, compared with golden/failures/*.txt: a change of behaviour shows as a changed story.

To tell them anew, run pytest with UPDATE_STORIES=1 in the environment and read the difference.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lws.runtime.actions import Key, Plan
from test.unit.stories.fake_cluster import NAME
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
LEGEND = (
    "One line for each moment in which a pod changes or an Event is written.",
    "  after    seconds since the heading",
    "  groups   the pods of each group, leader first; - missing",
    "           r ready, x not ready, t on its way out: the pod that was there at the beginning",
    "           R ready, u not ready, T on its way out: another pod than then",
    "  events   reason and words of the Events that are written",
)


class Book(World):
    """Two groups of three pods, all ready, and what happens to them, chapter by chapter."""

    def __init__(self, loop: asyncio.AbstractEventLoop, policy: str, **spec: Any) -> None:
        self._events: list[str] = []
        self._lines: list[str] = []
        self._chapters: list[str] = []
        super().__init__(loop, policy, size=SIZE, **spec)
        self._first = self.uids()

    def chapter(self, heading: str, incident: Callable[[World], None], waits: bool = False) -> None:
        """Something happens, and what follows, to its end. waits: until nothing waits any longer."""
        self._events.clear()
        self._lines, self._since = [], self.cluster.now
        self._tell()
        incident(self)
        self._tell()
        self.settle()
        if waits:
            self.wait()
        head = f"  {'after':<9}{'groups':<9}events"
        self._chapters += [f"{heading}:", head, *(f"  {line}".rstrip() for line in self._lines), ""]

    @property
    def text(self) -> str:
        return "\n".join([*LEGEND, "", *self._chapters])

    def on_plan(self, key: Key, snapshot: Any, plan: Plan) -> None:
        super().on_plan(key, snapshot, plan)
        actions = [action for sequence in plan.sequences for action in sequence] + list(plan.statuses)
        for each in (*plan.announce, *(said for action in actions for said in action.announce)):
            self._events.append(f"{each.reason}: {each.note}")

    def _round(self, with_manager: bool) -> bool:
        did = super()._round(with_manager)
        self._tell()
        return did

    def _tell(self) -> None:
        if not hasattr(self, "_since"):
            return
        groups = " ".join(
            "".join(
                self._letter(f"{NAME}-{group}-{worker}" if worker else f"{NAME}-{group}")
                for worker in range(SIZE)
            )
            for group in range(GROUPS)
        )
        told = {line[18:] for line in self._lines}
        events = [each for each in dict.fromkeys(self._events) if each not in told]
        self._events.clear()
        if events or not self._lines or self._lines[-1][9:16] != groups:
            after = (self.cluster.now - self._since).total_seconds()
            self._lines.append(f"{after:<9.1f}{groups:<9}{events[0] if events else ''}")
            self._lines += [f"{'':<9}{groups:<9}{event}" for event in events[1:]]

    def _letter(self, name: str) -> str:
        pod = self.cluster.find("Pod", name)
        if pod is None:
            return "-"
        is_first = pod["metadata"]["uid"] == self._first[name]
        if "deletionTimestamp" in pod["metadata"]:
            return "t" if is_first else "T"
        conditions = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions", ())}
        ready = conditions.get("Ready") == "True"
        return ("r" if ready else "x") if is_first else ("R" if ready else "u")


def _lose_leader(world: World) -> None:
    world.cluster.condemn(world.pod(LEADER))


def _lose_worker(world: World) -> None:
    world.cluster.condemn(world.pod(WORKER))


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
    book.chapter("RecreateGroupAfterStart; the worker pod demo-0-1 is evicted", evict)
    return book


STORIES = {
    "worker-restarts": worker_restarts,
    "leader-deleted": leader_deleted,
    "policy-none": none,
    "again-and-again": again_and_again,
    "evicted": evicted,
}


@pytest.mark.parametrize("name", STORIES)
def test_story(loop: asyncio.AbstractEventLoop, name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    text = STORIES[name](loop).text
    if os.environ.get("UPDATE_STORIES"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_file_is_told() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(STORIES)
