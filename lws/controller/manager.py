"""The manager: builds every part, runs them, and takes them down in order. The only place where parts meet.

In: Settings. Out: the exit code, once a signal came or a part could not go on.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import signal
import socket
import uuid
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any

from lws import __version__
from lws.actions import Action
from lws.cluster.apply import Applier, Memory
from lws.cluster.authorization import Authorizer
from lws.cluster.connection import Cluster, load_configuration
from lws.cluster.errors import ApiError, ClusterError, Unreachable
from lws.cluster.events import EventRecorder
from lws.cluster.lease import Lease, LeaseTimes
from lws.cluster.memory import WriteMemory
from lws.cluster.observe import Observer
from lws.cluster.rate_limit import RateLimit
from lws.cluster.store import Store
from lws.config import Settings
from lws.controller.gangs import Gangs
from lws.controller.health import Check, HealthServer
from lws.controller.loop import Kind, Loop
from lws.controller.metrics import Metrics
from lws.controller.metrics_server import MetricsServer
from lws.controller.operator import build_registry, build_settings, run_operator
from lws.controller.ports import check_ports
from lws.controller.queue import Queue
from lws.controller.routes import Key
from lws.controller.serving import Serving
from lws.controller.silence import Silence
from lws.controller.tls import TlsPolicy
from lws.controller.wakeup import Wakeup
from lws.controller.watch import SetStream, informers_of
from lws.group.plan import plan as plan_group
from lws.leaderworkerset.plan import plan as plan_set
from lws_api.leaderworkerset.v1 import API_VERSION

log = logging.getLogger(__name__)

_WINDOW_SECONDS = 0.3
_CONCURRENT_PASSES = 32
_RESYNC_SECONDS = 600.0
_COMPARE_SECONDS = 60.0
_CRD_RETRY_SECONDS = 5.0
# Together well within the grace period of the pod, which is 30 seconds in the chart.
_DRAIN_SECONDS = 10.0
_FAREWELL_SECONDS = 3.0


class Manager:
    """One process that may lead."""

    def __init__(self, settings: Settings, cluster: Cluster, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._cluster = cluster
        self._identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._stop = asyncio.Event()
        self._kopf_stop = asyncio.Event()
        election = settings.leader_election
        times = LeaseTimes(election.lease_duration, election.renew_deadline, election.retry_period)
        self._lease = Lease(cluster, settings.namespace, election.resource_name, self._identity, times)
        self._may_write = self._lease.is_held if election.enabled else _always
        acting = cluster.fenced(self._may_write)

        self._queue = Queue(self._work, _WINDOW_SECONDS, _CONCURRENT_PASSES, metrics.observe_depth)
        self._wakeup = Wakeup(self._queue)
        self._store = Store(self._wakeup.on_change)
        self._memory = memory = WriteMemory(self._store)
        observer = Observer(acting, self._store, memory, settings.node_loss)
        self._wakeup.leader_pods_of = observer.members.leader_pods_of
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
        self._metrics.observe_leading(self._settings.leader_election.resource_name, False)
        tasks = [self._task("certificates", self._serving.run()), *self._metrics_tasks()]
        try:
            self._on_signals()
            if not await self._until_stopped(self._wait_for_crd()):
                return 0
            tasks += self._start_parts()
            return await self._supervise(tasks)
        finally:
            await self._take_down(tasks)
            if health is not None:
                await health.stop()

    def _start_parts(self) -> list[asyncio.Task[Any]]:
        self._silence.begin()
        streams = [self._task(f"watch {each.resource.plural}", each.run()) for each in self._informers]
        gangs = [self._task("gangs", self._gangs.run())] if self._gangs is not None else []
        return [
            *streams,
            *gangs,
            self._task("kopf", self._run_kopf()),
            self._task("compare leaderworkersets", self._sets.run(_COMPARE_SECONDS)),
            self._task("events", self._recorder.run()),
            self._task("lead", self._lead()),
            self._task("resync", self._resync()),
        ]

    def _metrics_tasks(self) -> list[asyncio.Task[Any]]:
        address = self._settings.metrics_bind_address
        if address is None:
            return []
        policy = TlsPolicy(self._settings.tls.minimum_version, self._settings.tls.ciphers)
        server = MetricsServer(address, policy, self._metrics, Authorizer(self._cluster))
        return [self._task("metrics", server.run())]

    async def _run_kopf(self) -> None:
        server = self._serving.server
        registry = build_registry(self._cluster, self._store, server, self._settings.gang_provider)
        await run_operator(registry, build_settings(server), self._kopf_stop, self._on_signals)

    async def _supervise(self, tasks: list[asyncio.Task[Any]]) -> int:
        """Until a signal comes or a part ends, which none does by itself."""
        stopped = self._task("stop", self._stop.wait())
        done, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if stopped in done:
            log.info("stopping: passes that run are finished first")
            return 0
        for task in done:
            error = task.exception() if not task.cancelled() else None
            log.error(
                "%s has ended: %s; the process ends too",
                task.get_name(),
                error or "without a reason",
                exc_info=error,
            )
        stopped.cancel()
        return 1

    async def _take_down(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Finish passes, say what is to be said, give the Lease up, then close everything."""
        try:
            await asyncio.wait_for(self._queue.drain(), _DRAIN_SECONDS)
            await asyncio.wait_for(self._recorder.drain(), _FAREWELL_SECONDS)
        except TimeoutError:
            log.warning("the API server is slow: not every pass and Event came to its end")
        # The task that renews must be gone before the release, or it would take the Lease again.
        leading = [task for task in tasks if task.get_name() == "lead"]
        for task in leading:
            task.cancel()
        await asyncio.gather(*leading, return_exceptions=True)
        await self._lease.release()
        self._kopf_stop.set()
        kopf_tasks = [task for task in tasks if task.get_name() == "kopf"]
        if kopf_tasks:
            await asyncio.wait(kopf_tasks, timeout=_FAREWELL_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _lead(self) -> None:
        """Work the queue while the Lease is held and every stream has listed once."""
        await asyncio.gather(self._sets.listed.wait(), *(each.listed.wait() for each in self._informers))
        if self._settings.leader_election.enabled:
            await self._lease.run(self._take_over, self._stand_back)
        else:
            self._take_over()
            await asyncio.Event().wait()

    def _take_over(self) -> None:
        self._metrics.observe_leading(self._settings.leader_election.resource_name, True)
        self._queue.open()
        self._wakeup.everything(self._store)

    def _stand_back(self) -> None:
        self._metrics.observe_leading(self._settings.leader_election.resource_name, False)
        self._queue.drop()
        self._loop.forget()

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

    async def _wait_for_crd(self) -> None:
        while True:
            try:
                if await self._cluster.exists(f"/apis/{API_VERSION}"):
                    return
                log.error(
                    "the API server does not serve %s: install the CustomResourceDefinition (it comes with "
                    "the Helm chart); looking again every %.0f s",
                    API_VERSION,
                    _CRD_RETRY_SECONDS,
                )
            except ClusterError as error:
                log.error("%s; trying again every %.0f s", error.message, _CRD_RETRY_SECONDS)
            await asyncio.sleep(_CRD_RETRY_SECONDS)

    def _health_server(self) -> HealthServer | None:
        address = self._settings.health_bind_address
        if address is None:
            return None
        alive: dict[str, Check] = {"leaderworkersets": self._silence.check(self._sets)}
        alive |= {each.resource.plural: self._silence.check(each) for each in self._informers}
        ready: dict[str, Check] = {"webhooks": self._serving.not_ready, "caches": self._caches_not_listed}
        settings = self._settings
        return HealthServer(address, {settings.liveness_endpoint: alive, settings.readiness_endpoint: ready})

    def _caches_not_listed(self) -> str | None:
        missing = [each.resource.plural for each in self._informers if not each.listed.is_set()]
        if not self._sets.listed.is_set():
            missing.append("leaderworkersets")
        return f"not listed yet: {', '.join(missing)}" if missing else None

    def _on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._stop.set)

    async def _until_stopped(self, work: Awaitable[None]) -> bool:
        """Wait for `work`; False if a signal came first."""
        task = asyncio.ensure_future(work)
        stopped = self._task("stop", self._stop.wait())
        await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not task.done():
            task.cancel()
            return False
        task.result()
        return True

    @staticmethod
    def _task(name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(work, name=name)


def _always() -> bool:
    return True


async def _greet(cluster: Cluster) -> None:
    """Fail at once, and say what to do, where there is nobody to talk to."""
    try:
        await cluster.version()
    except Unreachable as error:
        raise ClusterError(
            f"{error.message}; check that the API server is up and that the kubeconfig names the right one"
        ) from error


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
        await _greet(cluster)
        log.info("lws %s, effective configuration:\n%s", __version__, settings.effective)
        return await Manager(settings, cluster, metrics).run()
    finally:
        await cluster.close()
