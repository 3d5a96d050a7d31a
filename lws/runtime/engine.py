"""Everything that caches the state of the cluster: streams, store, passes, elections.

If that state is no longer valid, the manager discards the engine and builds another one. Webhooks and probes
keep being served meanwhile.

Passes run until a part fails.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from lws import timing
from lws.config import Settings
from lws.kube.metadata import uid_of
from lws.runtime.actions import Key, Object, Route
from lws.runtime.apply import OwnerLocks
from lws.runtime.client.connection import Cluster, MayWrite, renewal_rate
from lws.runtime.endpoints.health import Check, Silence
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.events import EventRecorder
from lws.runtime.informer import Informer, KopfStream, Rollback, Source, informers_of
from lws.runtime.leadership.election import Election, LeaseElection, Scope, Takeover, Unelected, everywhere
from lws.runtime.leadership.lease import Candidate, Lease, LeaseTimes
from lws.runtime.leadership.shard_election import ShardElection
from lws.runtime.lifecycle import cancel, first_end, start
from lws.runtime.loop import Loop, Term, Terms
from lws.runtime.operator import build_registry, build_settings, run_operator
from lws.runtime.queue import Queue
from lws.runtime.registration import Parts, Registration, merge_terms
from lws.runtime.store import Store
from lws.runtime.webhooks.server import dispatching
from lws.runtime.webhooks.serving import Serving

log = logging.getLogger(__name__)

_CONCURRENT_PASSES = 32


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an engine is built from. These parts outlive the engine.

    identity: the holder identity in Leases. listen: a function that installs our signal handlers after kopf
    has installed its own. registrations: the kinds of workload to serve.
    """

    settings: Settings
    cluster: Cluster
    metrics: Metrics
    serving: Serving
    identity: str
    listen: Callable[[], None]
    registrations: tuple[Registration, ...]


class Engine:
    """The streams and passes over one history of the cluster: `start` it, `wait_for_end`, and `shut_down`."""

    def __init__(self, surroundings: Surroundings) -> None:
        cluster, metrics = surroundings.cluster, surroundings.metrics
        self._surroundings = surroundings
        self._kopf_stop = asyncio.Event()
        self._rollback = Rollback()
        self._election = self._build_election()
        # Writes of Events need not end within the time left of a Lease, because no controller acts on Events.
        event_client = cluster.fenced(self._may_write)
        self._terms = Terms(self._begin, self._may_write)

        self._queue = Queue(
            self._work, timing.BURST_SECONDS, _CONCURRENT_PASSES, metrics.queue, self._acts_on
        )
        self._triggers = Triggers(self._queue, self._terms.route_of, self._terms.forget)
        self._store = Store(
            self._triggers.on_change,
            [table for registration in surroundings.registrations for table in registration.reads],
            self._is_current,
        )
        # For /debug.
        self.queued, self.cached = self._queue.counts, self._store.sizes
        source = Source(cluster, self._rollback)
        self._locks = OwnerLocks()
        self._recorders = [
            EventRecorder(event_client, kind.reporter, f"{kind.reporter}-{socket.gethostname()}")
            for kind in surroundings.registrations
        ]
        self._controllers = [
            kind.build(self._parts(source, recorder))
            for kind, recorder in zip(surroundings.registrations, self._recorders, strict=True)
        ]
        for controller in self._controllers:
            self._triggers.add(controller.keys)
        self._loop = self._loop_of(metrics)
        workloads = [kind.workload for kind in surroundings.registrations]
        cluster.learn(*chain.from_iterable((kind.resource, *kind.children) for kind in workloads))
        self._informers = informers_of(source, self._store, workloads)
        self._kopf_streams = {
            kind.resource.plural: KopfStream(source, self._store, kind.resource) for kind in workloads
        }
        parts = (*self._streams().values(), *self._controllers)
        self._takeover = Takeover((part.refresh for part in parts), self._triggers.everything)
        self._silence = Silence()
        self._tasks: list[asyncio.Task[Any]] = []
        self._background: set[asyncio.Task[None]] = set()
        self._is_down = False

    def start(self) -> None:
        """Start to list and watch, to compete for Leases, and to run passes while Leases are held."""
        self._silence.begin()
        streams = self._kopf_streams.items()
        self._tasks = [
            *(start(f"watch {name}", informer.run()) for name, informer in self._informers.items()),
            *(start(f"compare {name}", kopf.run(timing.COMPARE_SETS_SECONDS)) for name, kopf in streams),
            *(start(name, run()) for kind in self._controllers for name, run in kind.tasks.items()),
            *(start("events", recorder.run()) for recorder in self._recorders),
            start("kopf", self._run_kopf()),
            start("lead", self._compete_for_leases()),
            start("take over", self._takeover.run()),
            start("resync", self._resync()),
            start("check for an etcd restore", self._rollback.wait()),
        ]

    async def wait_for_end(self) -> None:
        """Wait until a part has ended, and log its end. The caller then needs another engine."""
        await first_end(self._tasks, "the manager relists everything")

    async def shut_down(self) -> None:
        """Finish passes, write pending Events, release Leases, and then close everything."""
        is_finished = await self._finish()
        # A pass that still waits for a response must not write while the next engine does.
        self._is_down = True
        # The renewal task must end before the release, or it would acquire the Leases again.
        await cancel([task for task in self._tasks if task.get_name() == "lead"])
        if is_finished and not self._surroundings.cluster.may_arrive(everywhere):
            await self._election.release()
        else:
            # No other manager may list before the last write has arrived or has been abandoned.
            log.warning("the API server is slow: a write may still arrive, so Leases are left to expire")
        self._kopf_stop.set()
        kopf_tasks = [task for task in self._tasks if task.get_name() == "kopf"]
        if kopf_tasks:
            await asyncio.wait(kopf_tasks, timeout=timing.SHUTDOWN_SECONDS)
        await cancel([*self._tasks, *self._background])
        self._tasks = []
        self._loop.forget(everywhere)

    async def _finish(self) -> bool:
        """Finish passes and write pending Events. Return whether every pass ended in time."""
        try:
            await asyncio.wait_for(self._queue.drain(), timing.DRAIN_SECONDS)
        except TimeoutError:
            return False
        try:
            drained = asyncio.gather(*(recorder.drain() for recorder in self._recorders))
            await asyncio.wait_for(drained, timing.SHUTDOWN_SECONDS)
        except TimeoutError:
            log.warning("the API server is slow: not every Event was written")
        return True

    def checks(self) -> dict[str, Check]:
        """Return the checks for the liveness probe by name: those of all streams and controllers."""
        checks = {name: self._silence.check(stream) for name, stream in self._streams().items()}
        for controller in self._controllers:
            checks |= controller.checks
        return checks

    def not_listed(self) -> str | None:
        """Name the streams that have not listed yet, for the readiness probe; None if all have."""
        missing = [name for name, stream in self._streams().items() if not stream.listed.is_set()]
        return f"not listed yet: {', '.join(missing)}" if missing else None

    def _is_current(self) -> bool:
        """Return whether every stream has listed and each informer has received something recently.

        Recently is the time within which a healthy watch receives something.
        """
        behind = (informer.seconds_behind for informer in self._informers.values())
        is_recent = all(seconds <= timing.SILENT_WATCH_SECONDS for seconds in behind)
        return is_recent and all(stream.listed.is_set() for stream in self._streams().values())

    def _streams(self) -> dict[str, Informer | KopfStream]:
        return {**self._informers, **self._kopf_streams}

    def _loop_of(self, metrics: Metrics) -> Loop:
        for registration in self._surroundings.registrations:
            metrics.count(registration.standings)
            metrics.workloads.serve(registration.series)
        passes = self._begin(self._may_write).passes
        controllers = {kind: of_kind.label for kind, of_kind in passes.items()}
        metrics.passes.serve(controllers.values(), _CONCURRENT_PASSES)
        metrics.queue.serve(controllers)
        metrics.process.watch_streams(
            lambda: {name: stream.seconds_silent for name, stream in self._streams().items()}
        )
        cluster = self._surroundings.cluster
        return Loop(self._terms.passes_over, metrics, lambda: cluster.now)

    def _parts(self, source: Source, recorder: EventRecorder) -> Parts:
        settings, resync, add = self._surroundings.settings, self._triggers.everything, self._queue.add
        start = self._start_background
        return Parts(settings, source, self._store, recorder, add, resync, self._locks, start)

    def _begin(self, may_write: MayWrite) -> Term:
        cluster = self._surroundings.cluster.fenced(may_write, self._election.time_left)
        return merge_terms([controller.begin(cluster) for controller in self._controllers])

    def _start_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task that ends by itself. The engine continues if the task fails."""
        task = start("background", work)
        self._background.add(task)
        task.add_done_callback(self._end_background)

    def _end_background(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background task has failed", exc_info=error)

    def _build_election(self) -> Election:
        settings, identity = self._surroundings.settings, self._surroundings.identity
        cluster, on_leading = self._surroundings.cluster, self._surroundings.metrics.process.leading
        election, shards = settings.configuration.leader_election, settings.shards
        durations = (election.lease_duration, election.renew_deadline, election.retry_period)
        times = LeaseTimes(*(duration.total_seconds() for duration in durations))
        if not election.leader_elect:
            return Unelected(election.resource_name, on_leading)
        # A burst of other writes must not make a renewal wait until the Lease is lost.
        cluster = cluster.paced(renewal_rate(shards, times.retry_period))
        candidate = Candidate(
            settings.namespace, election.resource_name, identity, times, rollback=self._rollback
        )
        if shards == 1:
            return LeaseElection(Lease(cluster, candidate), on_leading)
        return ShardElection(cluster, candidate, shards, on_leading, self._is_idle)

    def _may_write(self, namespace: str) -> bool:
        is_over = self._is_down or self._rollback.is_rolled_back
        return not is_over and self._election.may_write(namespace)

    def _acts_on(self, key: Key) -> bool:
        namespace = key.namespace
        return self._election.acts_on(namespace) and self._takeover.is_done(namespace)

    async def _run_kopf(self) -> None:
        surroundings, server = self._surroundings, self._surroundings.serving.server
        reviewing = surroundings.settings if server is not None else None
        registry = build_registry(surroundings.cluster, self._store, surroundings.registrations, reviewing)
        reviews = dispatching(server, registry) if server is not None else None
        await run_operator(registry, build_settings(reviews), self._kopf_stop, surroundings.listen)

    async def _compete_for_leases(self) -> None:
        """Compete for Leases once every stream has listed and every controller is ready."""
        await asyncio.gather(*(controller.known() for controller in self._controllers))
        await asyncio.gather(*(stream.listed.wait() for stream in self._streams().values()))
        self._queue.open()
        await self._election.run(self._gain, self._lose)

    def _gain(self, scope: Scope) -> None:
        self._terms.begin(scope)
        self._takeover.gain(scope)

    def _lose(self, scope: Scope) -> None:
        self._terms.end(scope)
        self._queue.drop_untaken()
        for recorder in self._recorders:
            recorder.flush()
        self._loop.forget(scope)

    def _is_idle(self, scope: Scope) -> bool:
        is_running = self._queue.is_running(lambda key: scope(key.namespace))
        return not is_running and not self._surroundings.cluster.may_arrive(scope)

    async def _resync(self) -> None:
        """Enqueue everything at intervals, so that a missed event costs time but never correctness."""
        while True:
            await asyncio.sleep(timing.RESYNC_SECONDS)
            self._triggers.everything()

    async def _work(self, key: Any) -> Any:
        return await self._loop.work(key)


class Triggers:
    """Puts the keys that a change concerns into a queue.

    route_of: a function that returns the route of a changed object, or None. forget: a function that is
    called with each deleted object.
    """

    def __init__(
        self,
        queue: Queue,
        route_of: Callable[[Object], Route | None],
        forget: Callable[[Object], None] = lambda obj: None,
    ) -> None:
        self._queue = queue
        self._route_of = route_of
        self._forget = forget
        self._keys: list[Callable[[Scope], Iterable[Key]]] = []

    def add(self, keys: Callable[[Scope], Iterable[Key]]) -> None:
        """Add a controller by a function that returns all of its keys in some namespaces."""
        self._keys.append(keys)

    def on_change(self, before: Object | None, after: Object | None) -> None:
        """Enqueue the keys that a change of an object concerns."""
        obj = after if after is not None else before
        if obj is None:
            return
        if before is not None and (after is None or uid_of(after) != uid_of(before)):
            self._forget(before)
        route = self._route_of(obj)
        if route is not None:
            for key, within in route(before, after):
                self._queue.add(key, within)

    def everything(self, scope: Scope = everywhere) -> None:
        """Enqueue every key of these namespaces."""
        for keys in self._keys:
            for key in keys(scope):
                self._queue.add(key)
