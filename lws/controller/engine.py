"""Everything that remembers the cluster: streams, store, passes, elections. It is thrown away and made anew
where what it remembers is no longer true, without an end of the process: webhooks and probes are served on.

In: Settings, a connection, the admission server. Out: passes, until a part cannot go on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from lws.actions import Action
from lws.cluster.cache.informer import Source
from lws.cluster.cache.rollback import Rollback
from lws.cluster.cache.store import Store
from lws.cluster.client.connection import Cluster
from lws.cluster.client.errors import ApiError
from lws.cluster.client.rate_limit import renewal_rate
from lws.cluster.leases.lease import Candidate, Lease, LeaseTimes
from lws.cluster.observe.observer import Environment, Observer
from lws.cluster.observe.webhook_coverage import WebhookCoverage
from lws.cluster.write.apply import Applier, Memory
from lws.cluster.write.events import EventRecorder
from lws.cluster.write.recent_writes import WriteMemory
from lws.config import Settings
from lws.controller.election.election import Election, LeaseElection, Scope, Unelected, everywhere
from lws.controller.election.shard_election import ShardElection
from lws.controller.election.takeover import Takeover
from lws.controller.endpoints.health import Check
from lws.controller.endpoints.metrics import Metrics
from lws.controller.endpoints.stream_liveness import Silence
from lws.controller.gangs import Gangs
from lws.controller.lifecycle import cancel, first_end, start
from lws.controller.loop import Kind, Loop
from lws.controller.operator import build_registry, build_settings, run_operator
from lws.controller.queue.queue import Queue
from lws.controller.triggers.enqueue import Wakeup
from lws.controller.triggers.routes import Key
from lws.controller.triggers.watch import SetStream, informers_of
from lws.controller.webhooks.serving import Serving
from lws.group.plan import plan as plan_group
from lws.leaderworkerset.plan import plan as plan_set

log = logging.getLogger(__name__)

_WINDOW_SECONDS = 0.3
_CONCURRENT_PASSES = 32
_RESYNC_SECONDS = 600.0
_COMPARE_SECONDS = 60.0
# Together well within the grace period of the pod, which is 30 seconds in the chart.
_DRAIN_SECONDS = 10.0
_FAREWELL_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an engine is made in, and what outlives it. identity: by which Leases know this process.
    listen: has signals end the process in our order, after others have taken them.
    """

    settings: Settings
    cluster: Cluster
    metrics: Metrics
    serving: Serving
    identity: str
    listen: Callable[[], None]


class Engine:
    """Streams and passes over one history of the cluster. `start`, `ended`, `take_down`, in this order."""

    def __init__(self, within: Surroundings) -> None:
        settings, cluster, metrics = within.settings, within.cluster, within.metrics
        self._within = within
        self._kopf_stop = asyncio.Event()
        self._rollback = Rollback()
        self._election = self._stand()
        acting = cluster.fenced(self._may_write)

        self._queue = Queue(
            self._work, _WINDOW_SECONDS, _CONCURRENT_PASSES, metrics.observe_depth, self._acts_on
        )
        self._wakeup = Wakeup(self._queue)
        self._store = Store(self._wakeup.on_change)
        self._memory = memory = WriteMemory(self._store)
        wake = partial(self._wakeup.everything, self._store)
        source = Source(cluster, self._rollback)
        provider = settings.gang_provider
        self._gangs = Gangs(provider, source, self._store, wake) if provider is not None else None
        self._coverage = WebhookCoverage(cluster, wake)
        gang = self._gangs.served if self._gangs is not None else lambda: None
        environment = Environment(settings.node_loss, self._coverage.covers, gang)
        observer = Observer(acting, self._store, memory, environment)
        self._wakeup.leader_pods_of = observer.members.leader_pods_of
        self._wakeup.find = self._store.get
        self._recorder = EventRecorder(acting, "leaderworkerset", f"leaderworkerset-{socket.gethostname()}")
        written = Memory(
            memory.put, memory.remember_applied, self._refused, memory.taken.remember, memory.going
        )
        applier = Applier(acting, self._recorder, written)
        kinds = {
            "set": Kind(observer.observe_set, plan_set, "leaderworkerset"),
            "group": Kind(observer.observe_group, plan_group, "pod"),
        }
        self._loop = Loop(kinds, applier, metrics)
        self._informers = informers_of(source, self._store)
        self._sets = SetStream(source, self._store)
        self._takeover = Takeover(self._refresh, wake)
        self._silence = Silence()
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_down = False

    def start(self) -> None:
        """Begin to list and watch, to stand for Leases, and to act while they are held."""
        self._silence.begin()
        streams = [start(f"watch {each.resource.plural}", each.run()) for each in self._informers]
        gangs = [start("gangs", self._gangs.run())] if self._gangs is not None else []
        self._tasks = [
            *streams,
            *gangs,
            start("kopf", self._run_kopf()),
            start("compare leaderworkersets", self._sets.run(_COMPARE_SECONDS)),
            start("webhook coverage", self._coverage.run()),
            start("events", self._recorder.run()),
            start("lead", self._lead()),
            start("take over", self._takeover.run()),
            start("resync", self._resync()),
            start("the cluster as it was known", self._rollback.wait()),
        ]

    async def ended(self) -> None:
        """Return once a part has ended, which is logged: it takes another engine to go on."""
        await first_end(self._tasks, "all that was remembered of the cluster is listed anew")

    async def take_down(self) -> None:
        """Finish passes, say what is to be said, give Leases up, then close everything."""
        try:
            await asyncio.wait_for(self._queue.drain(), _DRAIN_SECONDS)
            await asyncio.wait_for(self._recorder.drain(), _FAREWELL_SECONDS)
        except TimeoutError:
            log.warning("the API server is slow: not every pass and Event came to its end")
        # A pass that still waits for an answer must not go on to write beside those of the next engine.
        self._is_down = True
        # The task that renews must be gone before the release, or it would take Leases again.
        await cancel([task for task in self._tasks if task.get_name() == "lead"])
        await self._election.release()
        self._kopf_stop.set()
        kopf_tasks = [task for task in self._tasks if task.get_name() == "kopf"]
        if kopf_tasks:
            await asyncio.wait(kopf_tasks, timeout=_FAREWELL_SECONDS)
        await cancel(self._tasks)
        self._tasks = []
        self._loop.forget(everywhere)

    def wrong(self) -> dict[str, Check]:
        """By name of each stream: what is wrong with it, for the liveness probe."""
        checks: dict[str, Check] = {"leaderworkersets": self._silence.check(self._sets)}
        checks |= {each.resource.plural: self._silence.check(each) for each in self._informers}
        return checks | ({"podgroups": self._gangs.wrong} if self._gangs is not None else {})

    def not_listed(self) -> str | None:
        """Which kinds were not listed yet, for the readiness probe."""
        missing = [each.resource.plural for each in self._informers if not each.listed.is_set()]
        if not self._sets.listed.is_set():
            missing.append("leaderworkersets")
        return f"not listed yet: {', '.join(missing)}" if missing else None

    def _stand(self) -> Election:
        settings, cluster, who = self._within.settings, self._within.cluster, self._within.identity
        election, tell = settings.leader_election, self._within.metrics.observe_leading
        times = LeaseTimes(election.lease_duration, election.renew_deadline, election.retry_period)
        if not election.enabled:
            return Unelected(election.resource_name, tell)
        # A burst of other writes must not make a renewal wait until the Lease is lost.
        cluster = cluster.paced(renewal_rate(election.shards, election.retry_period))
        candidate = Candidate(settings.namespace, election.resource_name, who, times, rollback=self._rollback)
        if election.shards == 1:
            return LeaseElection(Lease(cluster, candidate), tell)
        return ShardElection(cluster, candidate, election.shards, tell, self._is_idle)

    def _may_write(self, namespace: str) -> bool:
        is_over = self._is_down or self._rollback.is_noticed
        return not is_over and self._election.may_write(namespace)

    def _acts_on(self, key: Key) -> bool:
        namespace = key.namespace
        return self._election.acts_on(namespace) and self._takeover.is_done(namespace)

    async def _run_kopf(self) -> None:
        within, server = self._within, self._within.serving.server
        registry = build_registry(within.cluster, self._store, server, within.settings.gang_provider)
        await run_operator(registry, build_settings(server), self._kopf_stop, within.listen)

    async def _lead(self) -> None:
        """Stand once every stream has listed, and it is known which namespaces the webhooks see."""
        await self._coverage.known.wait()
        await asyncio.gather(self._sets.listed.wait(), *(each.listed.wait() for each in self._informers))
        self._queue.open()
        await self._election.run(self._takeover.gain, self._stand_back)

    async def _refresh(self) -> None:
        gangs = [self._gangs.refresh()] if self._gangs is not None else []
        await asyncio.gather(self._sets.refresh(), *(each.refresh() for each in self._informers), *gangs)

    def _stand_back(self, scope: Scope) -> None:
        self._queue.shed()
        self._recorder.hurry()
        self._loop.forget(scope)

    def _is_idle(self, scope: Scope) -> bool:
        return not self._queue.is_running(lambda key: scope(key.namespace))

    async def _resync(self) -> None:
        """Look at everything now and then: an event that was missed costs time, never correctness."""
        while True:
            await asyncio.sleep(_RESYNC_SECONDS)
            self._wakeup.everything(self._store)

    def _refused(self, action: Action, error: ApiError) -> None:
        """Whatever pass met it: the status of the set says so."""
        concerned = self._memory.refusals.remember(action, error)
        if concerned is not None:
            self._queue.add(Key("set", *concerned))

    async def _work(self, key: Any) -> Any:
        return await self._loop.work(key)
