"""What must be there before anything can be done? An API server that answers and serves our definitions.

In: a connection. Out: nothing, once it is so; what is missing is said in sentences meanwhile, for as long as
it takes: an API server that is away for hours must not find its managers in a back-off of restarts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from lws import timing
from lws.cluster.client.connection import Cluster
from lws.cluster.errors import ClusterError, Unreachable

log = logging.getLogger(__name__)


class Preconditions:
    """Waited for before each start of what lists and watches. api_versions: what has to be served."""

    def __init__(self, cluster: Cluster, api_versions: Iterable[str]) -> None:
        self._cluster = cluster
        self._api_versions = tuple(api_versions)
        self._missing: str | None = "the API server was not asked yet"

    def missing(self) -> str | None:
        """What is missing, for the readiness probe; None once nothing was."""
        return self._missing

    async def wait(self) -> None:
        """Return once the API server serves every kind of workload."""
        delay = timing.PRECONDITIONS_PAUSE.first
        while (missing := await self._look()) is not None:
            self._missing = missing
            log.error("%s; looking again in %.0f s", missing, delay)
            await asyncio.sleep(delay)
            delay = timing.PRECONDITIONS_PAUSE.following(delay)
        self._missing = None

    async def _look(self) -> str | None:
        for api_version in self._api_versions:
            if (missing := await self._look_for(api_version)) is not None:
                return missing
        return None

    async def _look_for(self, api_version: str) -> str | None:
        try:
            if await self._cluster.exists(f"/apis/{api_version}"):
                return None
        except Unreachable as error:
            return f"{error.message}: is the API server up, and does the kubeconfig name the right one?"
        except ClusterError as error:
            # It may be no more than "Unauthorized".
            host = self._cluster.configuration.host
            return f"the API server at {host} does not say whether it serves {api_version}: {error.message}"
        return (
            f"the API server does not serve {api_version}: install the CustomResourceDefinition "
            "(it comes with the Helm chart)"
        )
