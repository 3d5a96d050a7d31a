"""Watch PodGroups while the API of the configured gang scheduler is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lws import timing
from lws.config import Settings
from lws.leaderworkerset.group.gangs import KIND, PLURAL, PROVIDERS, GangProvider
from lws.leaderworkerset.scheduling import API_VERSION, Scheduled, Scheduler
from lws.runtime.client.resources import Resource
from lws.runtime.endpoints.health import Silence
from lws.runtime.errors import ClusterError, Forbidden, NotFound
from lws.runtime.informer import Informer, Source
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import NAME_LABEL

log = logging.getLogger(__name__)


class Gangs:
    """Serve the objects of one gang scheduler. wake: called when the API is found to be served or, for the
    first time, missing. has_workloads: whether sets with `spec.scheduling` have Workloads.
    """

    def __init__(
        self,
        provider: str,
        source: Source,
        store: Store,
        wake: Callable[[], None],
        has_workloads: bool = False,
    ) -> None:
        self._name = provider
        self._source = source
        self._cluster = source.cluster
        self._store = store
        self._wake = wake
        self._has_workloads = has_workloads
        self._is_missing = False
        self._checks: list[Callable[[], str | None]] = []
        self._serving: tuple[Informer, ...] = ()
        self._provider: GangProvider | None = None

    def served(self) -> GangProvider | None:
        """Return the provider in the served version; None while its API is not served."""
        return self._provider

    def workloads(self) -> Scheduled:
        """Return whether the API server serves Workloads; undecided until the store has them."""
        provider = self._provider
        if provider is None:
            return Scheduled(is_missing=self._is_missing)
        is_served = provider.api_version == API_VERSION
        return Scheduled(is_served, is_missing=not is_served)

    def _tell_reviews(self) -> None:
        """Record in the store whether Workloads are served: every replica answers reviews from its store."""
        if self.workloads().is_missing:
            self._store.unserved.add(API_VERSION)
        else:
            self._store.unserved.discard(API_VERSION)

    def fault(self) -> str | None:
        """Check the streams for the liveness probe, once they have begun; return the fault, or None. A
        missing API or missing permission is no fault of this process.
        """
        return next((fault for check in self._checks if (fault := check())), None)

    async def refresh(self) -> None:
        """Return when the store has every PodGroup that existed before the call. If the API is not served or
        not readable, return at once: sets without gangs must not wait for it. Raises ClusterError.
        """
        try:
            for informer in self._serving:
                await informer.refresh()
        except (NotFound, Forbidden) as error:
            log.warning("gang scheduling: %s", error.message)

    async def run(self) -> None:
        """Wait for the API and watch its objects while it is served, indefinitely. Without the API, groups
        are created without PodGroups, and their scheduler holds the pods.
        """
        while True:
            await self._serve(await self._until_served(PROVIDERS[self._name]))

    async def _until_served(self, provider: GangProvider) -> GangProvider:
        """Wait until the API is served, and return the provider in the served version."""
        while True:
            try:
                version = await self._best_version(provider)
                if version:
                    self._is_missing = False
                    return replace(provider, api_version=version)
                if not self._is_missing:
                    log.error(
                        "gang scheduling: the API server does not serve %s of %s: %s, or remove "
                        "gangSchedulingManagement from the configuration; checked every %.0f s",
                        PLURAL,
                        " or ".join(provider.versions),
                        provider.remedy,
                        timing.RECHECK_SECONDS,
                    )
                    self._is_missing = True
                    self._tell_reviews()
                    # Wake sets that wait for Workloads, so that they report the missing API.
                    if self._has_workloads:
                        self._wake()
            except ClusterError as error:
                log.warning("gang scheduling: %s", error.message)
            await asyncio.sleep(timing.RECHECK_SECONDS)

    async def _best_version(self, provider: GangProvider) -> str:
        for version in provider.versions:
            # The group and version may be served without PodGroups.
            if await self._cluster.exists(f"{Resource(version, KIND, PLURAL).path()}?limit=1"):
                return version
        return ""

    async def _serve(self, provider: GangProvider) -> None:
        """Watch the objects of the provider until the API is gone or a better version is served."""
        resources = [Resource(provider.api_version, KIND, PLURAL)]
        if self._has_workloads and provider.api_version == API_VERSION:
            resources.append(Resource(API_VERSION, "Workload", "workloads"))
        self._cluster.learn(*resources)
        informers = tuple(Informer(self._source, resource, NAME_LABEL, self._store) for resource in resources)
        streams = [asyncio.ensure_future(informer.run()) for informer in informers]
        listed = [asyncio.ensure_future(informer.listed.wait()) for informer in informers]
        try:
            await self._until_either(*streams, *listed)
            while not any(stream.done() for stream in streams) and await self._is_best(provider):
                unlisted = [task for task in listed if not task.done()]
                if not unlisted and self._provider is None:
                    self._begin(provider, informers)
                await self._until_either(*streams, *unlisted)
            for stream in streams:
                if stream.done():
                    stream.result()
        finally:
            self._provider, self._checks, self._serving = None, [], ()
            for task in (*streams, *listed):
                task.cancel()

    async def _until_either(self, *tasks: asyncio.Future[Any]) -> None:
        await asyncio.wait(tasks, timeout=timing.RECHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    async def _is_best(self, provider: GangProvider) -> bool:
        version = provider.api_version
        try:
            best = await self._best_version(provider)
        except ClusterError as error:
            log.warning("gang scheduling: %s", error.message)
            return True
        if best != version:
            log.warning("gang scheduling: %s of %s: no longer served, or a newer version is", PLURAL, version)
        return best == version

    def _begin(self, provider: GangProvider, informers: tuple[Informer, ...]) -> None:
        silence = Silence(self._source.clock)
        silence.begin()
        self._checks = [silence.check(informer) for informer in informers]
        self._provider, self._serving = provider, informers
        self._tell_reviews()
        log.info("gang scheduling: creating PodGroups for %s (%s)", self._name, provider.api_version)
        self._wake()


def gang_of(settings: Settings) -> GangProvider | None:
    """Return the provider that the configuration names; None if it names none."""
    name = settings.gang_provider or ""
    scheduler, provider = Scheduler(settings.workload_aware_scheduling, name), PROVIDERS.get(name)
    return replace(provider, needs_field=scheduler.has_workloads) if provider is not None else None


def scheduler_of(settings: Settings, store: Store) -> Scheduler:
    """Return the scheduler that serves `spec.scheduling` at this moment."""
    lacks_workloads = API_VERSION in store.unserved
    return Scheduler(settings.workload_aware_scheduling, settings.gang_provider or "", lacks_workloads)
