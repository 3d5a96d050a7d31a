"""The product between its streams and its writes: real store, wake-ups, observation, plans and application.

In: a FakeCluster, whose news are delivered when the test says so. Out: writes. What it remembers is lost with
it; a new one begins with a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, cast

from lws.actions import Action, Announce, Plan
from lws.cluster.cache.store import Store
from lws.cluster.client.connection import Cluster
from lws.cluster.client.errors import ApiError
from lws.cluster.observe.observer import Observer
from lws.cluster.write.apply import Applier, Memory
from lws.cluster.write.recent_writes import WriteMemory
from lws.controller.queue.queue import Queue
from lws.controller.triggers.enqueue import Wakeup
from lws.controller.triggers.routes import Key
from lws.group.plan import plan as plan_group
from lws.leaderworkerset.plan import plan as plan_set
from lws_api.leaderworkerset.v1 import KIND
from test.unit.stories.fake_cluster import FakeCluster

KINDS = (
    *(KIND, "StatefulSet", "Pod", "Service"),
    *("ControllerRevision", "PodDisruptionBudget", "PersistentVolumeClaim"),
)

OnPlan = Callable[[Key, Any, Plan], None]


class Crash(Exception):
    """The process ended, at this very write."""


class _Queue:
    """Keys that wait, in order; each once."""

    def __init__(self) -> None:
        self.keys: dict[Key, None] = {}

    def add(self, key: Key, within: float = 0.0) -> None:
        # Its turn may come before anything that could wait has waited.
        self.keys[key] = None


class _Silence:
    """Events are not written."""

    def announce(self, announce: Announce) -> None:
        return None


class FakeManager:
    """on_plan: told each pass's key, snapshot and plan before anything is written."""

    def __init__(self, cluster: FakeCluster, loop: asyncio.AbstractEventLoop, on_plan: OnPlan) -> None:
        self.queue = _Queue()
        self.timers: dict[Key, datetime] = {}
        self._cluster = cluster
        self._loop = loop
        self._on_plan = on_plan
        self._read = dict.fromkeys(KINDS, 0)
        self._now: Key | None = None
        client = cast(Cluster, cluster)
        wakeup = Wakeup(cast(Queue, self.queue))
        self._store = Store(wakeup.on_change)
        memory = WriteMemory(self._store, clock=lambda: cluster.now.timestamp())
        self._observer = Observer(client, self._store, memory)
        wakeup.leader_pods_of = self._observer.members.leader_pods_of
        wakeup.find = self._store.get
        self._everything = lambda: wakeup.everything(self._store)
        self._memory = memory
        written = Memory(
            memory.put, memory.remember_applied, self._refused, memory.taken.remember, memory.going
        )
        self._applier = Applier(client, _Silence(), written)
        for kind in KINDS:
            self.relist(kind)

    @property
    def late(self) -> list[str]:
        """Kinds of which there is news that has not been read."""
        return [kind for kind in KINDS if self._read[kind] < len(self._cluster.log[kind])]

    def read(self, kind: str, events: int | None = None) -> None:
        """Take in the next events of a stream, all of them by default."""
        log, start = self._cluster.log[kind], self._read[kind]
        end = len(log) if events is None else min(len(log), start + events)
        self._read[kind] = end
        for is_gone, obj in log[start:end]:
            (self._store.drop if is_gone else self._store.put)(obj)

    def reread(self, kind: str, events: int) -> None:
        """A stream repeats itself."""
        self._read[kind] = max(0, self._read[kind] - events)
        self.read(kind, events)

    def relist(self, kind: str) -> None:
        """A stream broke and what came meanwhile is lost: the list says how things are now."""
        objects = list(self._cluster.of_kind(kind))
        for obj in objects:
            self._store.put(obj)
        self._store.retain(kind, {obj["metadata"]["uid"] for obj in objects}, self._cluster.version)
        self._read[kind] = len(self._cluster.log[kind])

    def resync(self) -> None:
        """A pass over everything, now."""
        self._everything()

    def run_pass(self, key: Key | None = None) -> bool:
        """One pass over a waiting key, the first by name by default; True if there was one.

        Raises Crash if a write does.
        """
        if not self.queue.keys:
            return False
        # Not the order in which they came: that of a set of strings differs from process to process.
        key = key if key is not None else min(self.queue.keys)
        del self.queue.keys[key]
        self.timers.pop(key, None)
        self._pass(key)
        return True

    def ring(self) -> bool:
        """Time passes until the next pass that was put off; True if there was one."""
        if not self.timers:
            return False
        self._cluster.now = max(self._cluster.now, min(self.timers.values()))
        for key in [key for key, due in self.timers.items() if due <= self._cluster.now]:
            del self.timers[key]
            self.queue.add(key)
        return True

    def _refused(self, action: Action, error: ApiError) -> None:
        concerned = self._memory.refusals.remember(action, error)
        # That of this very pass backs off.
        if concerned is not None and Key("set", *concerned) != self._now:
            self.queue.add(Key("set", *concerned))

    def _pass(self, key: Key) -> None:
        now, is_set, self._now = self._cluster.now, key.kind == "set", key
        observe = self._observer.observe_set if is_set else self._observer.observe_group
        snapshot: Any = _at_once(observe(key.namespace, key.name, now))
        if snapshot is None:
            return
        plan = plan_set(snapshot) if is_set else plan_group(snapshot)
        self._on_plan(key, snapshot, plan)
        after = plan.again_after
        if not plan.is_empty:
            # Sequences run side by side, as tasks.
            outcome = self._loop.run_until_complete(self._applier.apply(plan))
            after = 1.0 if outcome.errors else after
        if after is not None:
            self.timers[key] = now + timedelta(seconds=after)


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits: nothing in this world does."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")
