"""The product between streams and writes: the real store, triggers, observation, plans and application.

Changes of a FakeCluster are delivered when the test says so. A new manager has lost everything that the
former one remembered, and begins with a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from lws.config import Settings, load
from lws.leaderworkerset.admission.pod import FormerNode
from lws.leaderworkerset.group.gangs import PROVIDERS, Marks
from lws.leaderworkerset.observe.former_node import former_node
from lws.leaderworkerset.observe.gangs import Gangs, gang_of, scheduler_of
from lws.leaderworkerset.registration import LeaderGates, marks_of
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.registrations import REGISTRATIONS
from lws.runtime.actions import Announce, Key, Plan
from lws.runtime.apply import OwnerLocks
from lws.runtime.client.connection import Cluster
from lws.runtime.engine import Triggers
from lws.runtime.informer import Source
from lws.runtime.queue import Queue
from lws.runtime.registration import Parts, Registration, merge_terms
from lws.runtime.store import Store
from lws_api.config.v1alpha1 import WORKLOAD_AWARE_SCHEDULING, FeatureGates, GangSchedulingManagement
from test.unit.stories.fake_cluster import NAMESPACE, FakeCluster

_SETTINGS = load(None, {}, {}, namespace_file=Path("there-is-none"))


def with_gangs(provider: str, has_scheduling: bool) -> Settings:
    """Return settings that name a gang scheduler; empty for none. has_scheduling: whether `spec.scheduling`
    is served.
    """
    gang = GangSchedulingManagement(schedulerProvider=provider) if provider else None
    changed = {
        "gang_scheduling_management": gang,
        "feature_gates": FeatureGates(**{WORKLOAD_AWARE_SCHEDULING: has_scheduling}),
    }
    return replace(_SETTINGS, configuration=_SETTINGS.configuration.model_copy(update=changed))


GANG_KINDS = ("PodGroup", "Workload")

OnPlan = Callable[[Key, Any, Plan], None]


class Crash(Exception):
    """The process ended at this very write."""


class _Queue:
    """Queued keys, in order and without duplicates."""

    def __init__(self) -> None:
        self.keys: dict[Key, None] = {}

    def add(self, key: Key, within: float = 0.0) -> None:
        # A delayed key may get its turn before the delay is over.
        self.keys[key] = None


class FakeRecorder:
    """Recorder that keeps the announced Events."""

    def __init__(self) -> None:
        self.announced: list[Announce] = []

    def announce(self, announce: Announce) -> None:
        self.announced.append(announce)


class FakeManager:
    """A manager process.

    on_plan: a function called with the key, snapshot and plan of each pass before anything is written.
    registrations: the kinds of workload that it serves. settings: its configuration. A gang scheduler that it
    names is installed.
    """

    def __init__(
        self,
        cluster: FakeCluster,
        loop: asyncio.AbstractEventLoop,
        on_plan: OnPlan,
        registrations: Sequence[Registration] = REGISTRATIONS,
        settings: Settings = _SETTINGS,
    ) -> None:
        self.queue = _Queue()
        self.timers: dict[Key, datetime] = {}
        self.recorder = FakeRecorder()
        self._cluster = cluster
        self._loop = loop
        self._on_plan = on_plan
        self._settings = settings
        workloads = [registration.workload for registration in registrations]
        streamed = (
            resource for workload in workloads for resource in (workload.resource, *workload.children)
        )
        kinds = [resource.kind for resource in streamed] + [*GANG_KINDS] * bool(settings.gang_provider)
        self.kinds = tuple(dict.fromkeys(kinds))
        self._read = dict.fromkeys(self.kinds, 0)
        self._now: Key | None = None
        self._is_woken = False
        self._triggers = Triggers(
            cast(Queue, self.queue), lambda obj: self.term.routes.get(obj["kind"]), self._forget
        )
        self._store = Store(
            self._triggers.on_change,
            [table for registration in registrations for table in registration.reads],
        )
        self._turns = OwnerLocks()
        self._controllers = [registration.build(self._parts()) for registration in registrations]
        for controller in self._controllers:
            self._triggers.add(controller.keys)
            gangs = getattr(controller.refresh, "__self__", None)
            if isinstance(gangs, Gangs):
                # Its API is found and listed before the first pass.
                provider = PROVIDERS[settings.gang_provider or ""]
                gangs._provider = replace(provider, api_version=provider.versions[0])
        self.begin_term()
        for kind in self.kinds:
            self.relist(kind)

    def begin_term(self) -> None:
        """Begin a new term of the Lease: recorded writes and timers are lost, the store is not."""
        client = cast(Cluster, self._cluster)
        self.term = merge_terms([controller.begin(client) for controller in self._controllers])
        self.queue.keys.clear()
        self.timers.clear()
        self.resync()

    def _forget(self, obj: Any) -> None:
        for forget in self.term.forget:
            forget(obj)

    def _parts(self) -> Parts:
        source = Source(cast(Cluster, self._cluster), clock=lambda: self._cluster.steady.timestamp())
        return Parts(
            self._settings, source, self._store, self.recorder, self._add, self.resync, self._turns, _at_once
        )

    def has_former(self, pod: Any) -> bool:
        """Return what the pod webhook knows about the former group of a new leader."""
        gates = LeaderGates(self._store, lambda: scheduler_of(self._settings, self._store), spec_fault)
        return gates.may_have_former_group(pod, NAMESPACE)

    def gang_marks(self, labels: Any, annotations: Any, size: int) -> Marks:
        """Return the fields by which the pod webhook has a new pod name its gang."""
        gang = gang_of(self._settings)
        if gang is None:
            return Marks()
        return marks_of(gang, labels, annotations, size, f"{self._cluster.version}")

    def former_node(self, pod: Any) -> FormerNode | None:
        """Return the node that the pod webhook has a pod return to, or None."""
        return cast(FormerNode | None, _at_once(former_node(self._store, self._read_node, pod, NAMESPACE)))

    async def _read_node(self, name: str) -> Any:
        return await self._cluster.get("Node", "", name)

    @property
    def late(self) -> list[str]:
        """Kinds with events that have not been read."""
        return [kind for kind in self.kinds if self._read[kind] < len(self._cluster.log[kind])]

    def known(self, obj: Any) -> Any:
        """Return an object as last read from its stream; None if it has not been read."""
        stored = self._store.get(obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"])
        return stored if stored is not None and stored["metadata"]["uid"] == obj["metadata"]["uid"] else None

    def read(self, kind: str, events: int | None = None) -> None:
        """Read the next events of a stream, all of them by default."""
        log, start = self._cluster.log[kind], self._read[kind]
        end = len(log) if events is None else min(len(log), start + events)
        self._read[kind] = end
        for is_gone, obj in log[start:end]:
            (self._store.drop if is_gone else self._store.put)(obj)

    def reread(self, kind: str, events: int) -> None:
        """Read the last events of a stream again."""
        self._read[kind] = max(0, self._read[kind] - events)
        self.read(kind, events)

    def relist(self, kind: str) -> None:
        """Read a list in place of a broken stream. The events in between are lost."""
        objects = list(self._cluster.of_kind(kind))
        for obj in objects:
            self._store.put(obj)
        self._store.retain(kind, {obj["metadata"]["uid"] for obj in objects}, self._cluster.version)
        self._read[kind] = len(self._cluster.log[kind])

    def resync(self) -> None:
        """Enqueue everything without delay."""
        self._triggers.everything()

    def run_pass(self, key: Key | None = None) -> bool:
        """Run one pass over a queued key, by default the first by name. Return whether there was one.

        Raises Crash if a write does.
        """
        if not self.queue.keys:
            return False
        # Not the order of arrival: it comes from sets of strings, whose order differs between processes.
        key = key if key is not None else min(self.queue.keys)
        del self.queue.keys[key]
        self.timers.pop(key, None)
        self._pass(key)
        return True

    def ring(self) -> bool:
        """Advance the clock to the next delayed pass and enqueue it. Return whether there was one."""
        if not self.timers:
            return False
        cluster = self._cluster
        cluster.now = max(cluster.now, min(self.timers.values()) + cluster.set_by)
        for key in [key for key, at in self.timers.items() if at <= cluster.steady]:
            del self.timers[key]
            self.queue.add(key)
        return True

    def _add(self, key: Key) -> None:
        if key != self._now:
            self.queue.add(key)
        self._is_woken |= key == self._now

    def _pass(self, key: Key) -> None:
        now, kind, self._now = self._cluster.now, self.term.passes[key.kind], key
        self._is_woken = False
        snapshot: Any = _at_once(kind.observe(key.namespace, key.name, now))
        if snapshot is None:
            return
        plan = kind.decide(snapshot)
        self._on_plan(key, snapshot, plan)
        after = plan.again_after
        if not plan.is_empty:
            # Sequences run concurrently, as tasks.
            outcome = self._loop.run_until_complete(kind.apply(plan))
            after = 1.0 if outcome.errors or outcome.overtaken else after
            # A failed pass backs off, even if another change has enqueued its key meanwhile.
            if self._is_woken and not outcome.errors:
                self.queue.add(key)
        if after is not None:
            self.timers[key] = self._cluster.steady + timedelta(seconds=after)


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that never waits, as none does in this world."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")
