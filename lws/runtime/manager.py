"""Run the manager process.

This file builds the parts of the process, `engine.py` those that cache the state of the cluster, and no other
file wires parts together.

The process ends with an exit code after a signal, or after one of its parts failed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import socket
import uuid
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from lws import __version__, timing
from lws.config import Settings
from lws.runtime.client.authorization import Authorizer
from lws.runtime.client.connection import Cluster, RateLimit, ServerClock
from lws.runtime.client.kubeconfig import load_configuration
from lws.runtime.endpoints.health import Check, DebugServer, HealthServer, check_ports
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.endpoints.metrics_server import MetricsServer
from lws.runtime.engine import Engine, Surroundings
from lws.runtime.lifecycle import Lifecycle, cancel, start
from lws.runtime.preconditions import Definitions, Preconditions
from lws.runtime.registration import Registration
from lws.runtime.webhooks.serving import Serving
from lws_api.config.v1alpha1 import NO_SERVER

log = logging.getLogger(__name__)


class Manager:
    """The manager process: its servers, certificates and metrics, and the current engine."""

    def __init__(
        self, settings: Settings, cluster: Cluster, metrics: Metrics, registrations: tuple[Registration, ...]
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._cluster = cluster
        self._lifecycle = Lifecycle()
        needed = (kind.workload.resource.api_version for kind in registrations if not kind.is_optional)
        self._preconditions = Preconditions(cluster, needed)
        self._definitions = Definitions(cluster, registrations)
        endpoints = dict(chain.from_iterable(kind.endpoints.items() for kind in registrations))
        self._serving = Serving(settings, cluster, metrics, endpoints)
        self._surroundings = Surroundings(
            settings, cluster, metrics, self._serving, _identity(), self._lifecycle.listen, registrations
        )
        self._engine = Engine(self._surroundings)

    async def run(self) -> int:
        """Run until a signal arrives (return 0) or a part of the process fails (return 1)."""
        probes = (self._health_server(), self._debug_server())
        servers = [server for server in probes if server is not None]
        for server in servers:
            await server.start()
        engines = start("engine", self._run_engines())
        reviews = self._serving.server
        webhooks = [start("webhooks", reviews.run())] if reviews is not None else []
        tasks = [start("certificates", self._serving.run()), *webhooks, *self._metrics_tasks()]
        try:
            self._lifecycle.listen()
            return await self._lifecycle.supervise([engines, *tasks])
        finally:
            # Another manager leads at once, but API servers need time until they call its webhooks.
            last_reviews = start("last reviews", self._serving.close_gently())
            await cancel([engines])
            await self._engine.shut_down()
            await last_reviews
            await cancel(tasks)
            for server in servers:
                await server.close()

    async def _run_engines(self) -> None:
        """Run engines one after the other, indefinitely. Each new engine relists everything."""
        pause, served = timing.ENGINE_PAUSE.first, tuple[Registration, ...]()
        while True:
            await self._preconditions.wait()
            served = await self._definitions.served(before=served)
            # A write of the previous engine may still be in flight, so its Leases belong to another identity.
            surroundings = replace(self._surroundings, registrations=served, identity=_identity())
            self._engine = Engine(surroundings)
            began = asyncio.get_running_loop().time()
            self._engine.start()
            await self._until_over(served)
            await self._engine.shut_down()
            lasted = asyncio.get_running_loop().time() - began
            has_worked = lasted > timing.ENGINE_PAUSE.longest
            pause = timing.ENGINE_PAUSE.first if has_worked else timing.ENGINE_PAUSE.following(pause)
            await asyncio.sleep(pause)

    async def _until_over(self, served: tuple[Registration, ...]) -> None:
        """Wait until a part of the engine ends, or until the set of kinds that can be served changes."""
        tasks = [
            start("engine's end", self._engine.wait_for_end()),
            start("definitions", self._definitions.changed(served)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(tasks)

    def _metrics_tasks(self) -> list[asyncio.Task[Any]]:
        address = self._settings.configuration.metrics.bind_address
        if address == NO_SERVER:
            return []
        server = MetricsServer(address, self._settings.tls, self._metrics, Authorizer(self._cluster))
        return [start("metrics", server.run())]

    def _health_server(self) -> HealthServer | None:
        health = self._settings.configuration.health
        if health.health_probe_bind_address == NO_SERVER:
            return None
        alive: dict[str, Check] = {name: self._check_of(name) for name in self._engine.checks()}
        ready: dict[str, Check] = {
            "api": self._preconditions.missing,
            "webhooks": self._serving.not_ready,
            "caches": lambda: self._engine.not_listed(),
        }
        checks = {health.liveness_endpoint_name: alive, health.readiness_endpoint_name: ready}
        return HealthServer(health.health_probe_bind_address, checks)

    def _debug_server(self) -> DebugServer | None:
        address = self._settings.configuration.debug.bind_address
        if address == NO_SERVER:
            return None
        # The lambdas read the engine that runs when the request arrives.
        return DebugServer(address, lambda: self._engine.queued(), lambda: self._engine.cached())

    def _check_of(self, stream: str) -> Check:
        """Return the check of a stream in the engine of that moment, which may lack the stream."""
        return lambda: self._engine.checks().get(stream, lambda: None)()


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid.uuid4()}"


async def run(settings: Settings, kubeconfig: str | None, registrations: tuple[Registration, ...]) -> int:
    """Run the manager for these kinds of workload until a signal arrives, and return the exit code.

    Raises ClusterError if no cluster is configured, OSError if a port is taken.
    """
    await check_ports(settings)
    configuration = await load_configuration(kubeconfig)
    clock = ServerClock()
    metrics = Metrics(settings.configuration.metrics.per_set, clock.now)
    commit = os.environ.get("LWS_GIT_COMMIT", "unknown")
    metrics.process.built(__version__, commit, platform.python_version())
    agent = f"lws/v{__version__} ({platform.system().lower()}/{platform.machine()})"
    rate = RateLimit(settings.client_qps, settings.configuration.client_connection.burst)
    host = configuration.host.partition("://")[2]
    cluster = Cluster(configuration, agent, rate, partial(metrics.process.requested, host), clock)
    try:
        log.info("lws %s, effective configuration:\n%s", __version__, settings.effective)
        return await Manager(settings, cluster, metrics, registrations).run()
    finally:
        await cluster.close()
