"""The manager: builds every part and hands them to each other. The only place where parts meet.

In: Settings. Out: the exit code, once a signal came or a part could not go on.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import socket
import uuid
from functools import partial
from typing import Any

from lws import __version__
from lws.actions import Action
from lws.cluster.apply import Applier, Memory
from lws.cluster.authorization import Authorizer
from lws.cluster.connection import Cluster, load_configuration
from lws.cluster.errors import ApiError
from lws.cluster.events import EventRecorder
from lws.cluster.lease import Lease, LeaseTimes
from lws.cluster.memory import WriteMemory
from lws.cluster.observe import Observer
from lws.cluster.rate_limit import RateLimit
from lws.cluster.roll_call import Candidate
from lws.cluster.store import Store
from lws.config import Settings
from lws.controller.election import Election, LeaseElection, Scope, Unelected
from lws.controller.gangs import Gangs
from lws.controller.health import Check, HealthServer
from lws.controller.lifecycle import Lifecycle, cancel, start
from lws.controller.loop import Kind, Loop
from lws.controller.metrics import Metrics
from lws.controller.metrics_server import MetricsServer
from lws.controller.operator import build_registry, build_settings, run_operator
from lws.controller.ports import check_ports
from lws.controller.preconditions import check_reachable, until_defined
from lws.controller.queue import Queue
from lws.controller.routes import Key
from lws.controller.serving import Serving
from lws.controller.shard_election import ShardElection
from lws.controller.silence import Silence
from lws.controller.tls import TlsPolicy
from lws.controller.wakeup import Wakeup
from lws.controller.watch import SetStream, informers_of
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


class Manager:
    """One process that may lead."""

    def __init__(self, settings: Settings, cluster: Cluster, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._cluster = cluster
        self._lifecycle = Lifecycle()
        self._kopf_stop = asyncio.Event()
        self._election = self._stand()
        acting = cluster.fenced(self._election.may_write)

        self._queue = Queue(
            self._work, _WINDOW_SECONDS, _CONCURRENT_PASSES, metrics.observe_depth, self._acts_on
        )
        self._wakeup = Wakeup(self._queue)
        self._store = Store(self._wakeup.on_change)
        self._memory = memory = WriteMemory(self._store)
        observer = Observer(acting, self._store, memory, settings.node_loss)
        self._wakeup.leader_pods_of = observer.members.leader_pods_of
        self._wakeup.find = self._store.get
        self._recorder = EventRecorder(acting, f"leaderworkerset-{socket.gethostname()}")
        written = Memory(memory.put, memory.remember_applied, self._refused, memory.going)
        applier = Applier(acting, self._recorder, written)
        kinds = {
            "set": Kind(observer.observe_set, plan_set, "leaderworkerset"),
            "group": Kind(observer.observe_group, plan_group, "pod"),
        }
        self._loop = Loop(kinds, applier, metrics)
        self._informers = informers_of(cluster, self._store)
        self._sets = SetStream(cluster, self._store)
        self._silence = Silence()
        self._serving = Serving(settings, cluster, metrics)
        self._gangs: Gangs | None = None
        if settings.gang_provider is not None:
            wake = partial(self._wakeup.everything, self._store)
            self._gangs = Gangs(settings.gang_provider, cluster, self._store, observer, wake)

    async def run(self) -> int:
        """Run until a signal comes; 0 after an orderly end, 1 if a part died."""
        health = self._health_server()
        if health is not None:
            await health.start()
        tasks = [start("certificates", self._serving.run()), *self._metrics_tasks()]
        try:
            self._lifecycle.listen()
            if not await self._lifecycle.until_stopped(until_defined(self._cluster)):
                return 0
            tasks += self._start_parts()
            return await self._lifecycle.supervise(tasks)
        finally:
            await self._take_down(tasks)
            if health is not None:
                await health.stop()

    def _stand(self) -> Election:
        election, who = self._settings.leader_election, f"{socket.gethostname()}_{uuid.uuid4()}"
        namespace, name = self._settings.namespace, election.resource_name
        tell = self._metrics.observe_leading
        times = LeaseTimes(election.lease_duration, election.renew_deadline, election.retry_period)
        if not election.enabled:
            return Unelected(name, tell)
        if election.shards == 1:
            return LeaseElection(Lease(self._cluster, namespace, name, who, times), tell)
        candidate = Candidate(namespace, name, who, times)
        return ShardElection(self._cluster, candidate, election.shards, tell, self._is_idle)

    def _start_parts(self) -> list[asyncio.Task[Any]]:
        self._silence.begin()
        streams = [start(f"watch {each.resource.plural}", each.run()) for each in self._informers]
        gangs = [start("gangs", self._gangs.run())] if self._gangs is not None else []
        return [
            *streams,
            *gangs,
            start("kopf", self._run_kopf()),
            start("compare leaderworkersets", self._sets.run(_COMPARE_SECONDS)),
            start("events", self._recorder.run()),
            start("lead", self._lead()),
            start("resync", self._resync()),
        ]

    def _metrics_tasks(self) -> list[asyncio.Task[Any]]:
        address = self._settings.metrics_bind_address
        if address is None:
            return []
        policy = TlsPolicy(self._settings.tls.minimum_version, self._settings.tls.ciphers)
        server = MetricsServer(address, policy, self._metrics, Authorizer(self._cluster))
        return [start("metrics", server.run())]

    async def _run_kopf(self) -> None:
        server = self._serving.server
        registry = build_registry(self._cluster, self._store, server, self._settings.gang_provider)
        await run_operator(registry, build_settings(server), self._kopf_stop, self._lifecycle.listen)

    async def _take_down(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Finish passes, say what is to be said, give Leases up, then close everything."""
        try:
            await asyncio.wait_for(self._queue.drain(), _DRAIN_SECONDS)
            await asyncio.wait_for(self._recorder.drain(), _FAREWELL_SECONDS)
        except TimeoutError:
            log.warning("the API server is slow: not every pass and Event came to its end")
        # The task that renews must be gone before the release, or it would take Leases again.
        await cancel([task for task in tasks if task.get_name() == "lead"])
        await self._election.release()
        self._kopf_stop.set()
        kopf_tasks = [task for task in tasks if task.get_name() == "kopf"]
        if kopf_tasks:
            await asyncio.wait(kopf_tasks, timeout=_FAREWELL_SECONDS)
        await cancel(tasks)

    async def _lead(self) -> None:
        """Stand once every stream has listed."""
        await asyncio.gather(self._sets.listed.wait(), *(each.listed.wait() for each in self._informers))
        self._queue.open()
        await self._election.run(self._take_over, self._stand_back)

    def _take_over(self, scope: Scope) -> None:
        self._wakeup.everything(self._store, scope)

    def _stand_back(self, scope: Scope) -> None:
        self._queue.shed()
        self._recorder.hurry()
        self._loop.forget(scope)

    def _acts_on(self, key: Key) -> bool:
        return self._election.acts_on(key.namespace)

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

    def _health_server(self) -> HealthServer | None:
        address = self._settings.health_bind_address
        if address is None:
            return None
        alive: dict[str, Check] = {"leaderworkersets": self._silence.check(self._sets)}
        alive |= {each.resource.plural: self._silence.check(each) for each in self._informers}
        alive |= {"podgroups": self._gangs.wrong} if self._gangs is not None else {}
        ready: dict[str, Check] = {"webhooks": self._serving.not_ready, "caches": self._caches_not_listed}
        settings = self._settings
        return HealthServer(address, {settings.liveness_endpoint: alive, settings.readiness_endpoint: ready})

    def _caches_not_listed(self) -> str | None:
        missing = [each.resource.plural for each in self._informers if not each.listed.is_set()]
        if not self._sets.listed.is_set():
            missing.append("leaderworkersets")
        return f"not listed yet: {', '.join(missing)}" if missing else None


async def run(settings: Settings, kubeconfig: str | None) -> int:
    """Run the manager until a signal comes. Raises ClusterError if there is no cluster to talk to, OSError if
    a port is taken.
    """
    await check_ports(settings)
    configuration = await load_configuration(kubeconfig)
    metrics = Metrics()
    agent = f"lws/v{__version__} ({platform.system().lower()}/{platform.machine()})"
    rate = RateLimit(settings.client_qps, settings.client_burst)
    cluster = Cluster(configuration, agent, rate)
    host = configuration.host.partition("://")[2]
    cluster.on_response = lambda method, status: metrics.observe_request(host, method, status)
    try:
        await check_reachable(cluster)
        log.info("lws %s, effective configuration:\n%s", __version__, settings.effective)
        return await Manager(settings, cluster, metrics).run()
    finally:
        await cluster.close()
