"""Watch PodGroups while the API of the configured gang scheduler is served.

In: the configured provider, the API server. Out: a stream of PodGroups, and the provider while it is served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from lws import timing
from lws.leaderworkerset.group.gangs import KIND, PLURAL, PROVIDERS, GangProvider
from lws.runtime.client.resources import Resource
from lws.runtime.endpoints.health import Silence
from lws.runtime.errors import ApiError, ClusterError
from lws.runtime.informer import Informer, Source
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import NAME_LABEL

log = logging.getLogger(__name__)


class Gangs:
    """Serves one provider. wake: called when groups start to get PodGroups."""

    def __init__(self, provider: str, source: Source, store: Store, wake: Callable[[], None]) -> None:
        self._name = provider
        self._source = source
        self._cluster = source.cluster
        self._store = store
        self._wake = wake
        self._wrong: Callable[[], str | None] = _nothing
        self._serving: Informer | None = None
        self._provider: GangProvider | None = None

    def served(self) -> GangProvider | None:
        """The provider in the served version; None while its API is not served."""
        return self._provider

    def wrong(self) -> str | None:
        """Check of the stream for the liveness probe, once the stream has begun.

        A missing API or missing permission is no fault of this process.
        """
        return self._wrong()

    async def refresh(self) -> None:
        """Return once every PodGroup that was stored before the call is known, if the API is served and
        readable: sets without gangs must not wait for it. Raises Unreachable.
        """
        if self._serving is None:
            return
        try:
            await self._serving.refresh()
        except ApiError as error:
            log.warning("gang scheduling: %s", error.message)

    async def run(self) -> None:
        """Wait for the API and keep the store current while it is served, indefinitely. Without it, groups
        are created without PodGroups; their scheduler holds the pods until they have one.
        """
        provider = PROVIDERS[self._name]
        while True:
            await self._serve(await self._until_served(provider))

    async def _until_served(self, provider: GangProvider) -> GangProvider:
        """Return the provider in the served version."""
        complained = False
        while True:
            try:
                if version := await self._best_version(provider):
                    return provider.speaking(version)
                if not complained:
                    log.error("%s", _missing(provider))
                complained = True
            except ClusterError as error:
                log.warning("gang scheduling: %s", error.message)
            await asyncio.sleep(timing.LOOK_AGAIN_SECONDS)

    async def _best_version(self, provider: GangProvider) -> str:
        for version in provider.versions:
            # The group and version may be served without PodGroups.
            if await self._cluster.exists(f"{_resource(version).path()}?limit=1"):
                return version
        return ""

    async def _serve(self, provider: GangProvider) -> None:
        """Run until the API is gone or a better version is served."""
        resource = _resource(provider.api_version)
        self._cluster.learn(resource)
        informer = Informer(self._source, resource, NAME_LABEL, self._store)
        stream = asyncio.ensure_future(informer.run())
        listed = asyncio.ensure_future(informer.listed.wait())
        try:
            await self._until_either(stream, listed)
            while not stream.done() and await self._is_best(provider):
                if listed.done() and self._provider is None:
                    self._begin(provider, informer)
                await self._until_either(stream, *([] if listed.done() else [listed]))
            if stream.done():
                stream.result()
        finally:
            self._provider, self._wrong, self._serving = None, _nothing, None
            stream.cancel()
            listed.cancel()

    async def _until_either(self, *tasks: asyncio.Future[Any]) -> None:
        await asyncio.wait(tasks, timeout=timing.LOOK_AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    async def _is_best(self, provider: GangProvider) -> bool:
        version = provider.api_version
        try:
            best = await self._best_version(provider)
        except ClusterError as error:
            log.warning("gang scheduling: %s", error.message)
            return True
        if best != version:
            log.warning("gang scheduling: %s of %s are gone, or there is a newer version", PLURAL, version)
        return best == version

    def _begin(self, provider: GangProvider, informer: Informer) -> None:
        silence = Silence(self._source.clock)
        silence.begin()
        self._wrong = silence.check(informer)
        self._provider, self._serving = provider, informer
        log.info("gang scheduling: %s gets a PodGroup for each group (%s)", self._name, provider.api_version)
        self._wake()


def _resource(version: str) -> Resource:
    return Resource(version, KIND, PLURAL)


def _missing(provider: GangProvider) -> str:
    versions = " or ".join(provider.versions)
    return (
        f"gang scheduling: the API server does not serve {PLURAL} of {versions}: {provider.remedy}, or take "
        "gangSchedulingManagement out of the configuration; looking again every "
        f"{timing.LOOK_AGAIN_SECONDS:.0f} s"
    )


def _nothing() -> str | None:
    return None
