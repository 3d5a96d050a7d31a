"""When are gangs served? As soon as the API of their scheduler is there.

In: the provider that is configured, the API server. Out: a stream of PodGroups, and an observer that asks for
them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lws.cluster.connection import Cluster
from lws.cluster.errors import ClusterError
from lws.cluster.informer import Informer
from lws.cluster.observe import Observer
from lws.cluster.resources import POD_GROUPS
from lws.cluster.store import Store
from lws.group.gang import PROVIDERS
from lws_api.leaderworkerset.v1 import NAME_LABEL

log = logging.getLogger(__name__)

_RETRY_SECONDS = 30.0


class Gangs:
    """Serves one provider. wake: called once PodGroups are made from now on."""

    def __init__(
        self,
        provider: str,
        cluster: Cluster,
        store: Store,
        observer: Observer,
        wake: Callable[[], None],
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        self._name = provider
        self._provider = PROVIDERS[provider]
        self._cluster = cluster
        self._observer = observer
        self._wake = wake
        self._retry_seconds = retry_seconds
        self._informer = Informer(cluster, POD_GROUPS, NAME_LABEL, store)

    async def run(self) -> None:
        """Wait for the API, then keep the store current for ever. Groups are made without gangs until then:
        their pods wait for a PodGroup in their scheduler.
        """
        await self._until_served()
        stream = asyncio.ensure_future(self._informer.run())
        try:
            listed = asyncio.ensure_future(self._informer.listed.wait())
            await asyncio.wait([stream, listed], return_when=asyncio.FIRST_COMPLETED)
            log.info("gang scheduling: %s gets a PodGroup for each group", self._name)
            self._observer.gang = self._provider
            self._wake()
            await stream
        finally:
            stream.cancel()

    async def _until_served(self) -> None:
        api_version = self._provider.api_version
        while True:
            try:
                if await self._cluster.exists(f"/apis/{api_version}"):
                    return
                log.error(
                    "gang scheduling: the API server does not serve %s: install %s, or take "
                    "gangSchedulingManagement out of the configuration; looking again every %.0f s",
                    api_version,
                    self._name,
                    self._retry_seconds,
                )
            except ClusterError as error:
                log.warning("gang scheduling: %s", error.message)
            await asyncio.sleep(self._retry_seconds)
