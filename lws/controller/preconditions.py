"""What must be there before anything can be done? An API server that answers and serves our definition.

In: a connection. Out: nothing, once it is so; what is missing is said in sentences.
"""

from __future__ import annotations

import asyncio
import logging

from lws.cluster.connection import Cluster
from lws.cluster.errors import ClusterError, Unreachable
from lws_api.leaderworkerset.v1 import API_VERSION

log = logging.getLogger(__name__)

_RETRY_SECONDS = 5.0


async def check_reachable(cluster: Cluster) -> None:
    """Fail at once, and say what to do, where there is nobody to talk to."""
    try:
        await cluster.version()
    except Unreachable as error:
        raise ClusterError(
            f"{error.message}; check that the API server is up and that the kubeconfig names the right one"
        ) from error


async def until_defined(cluster: Cluster) -> None:
    """Return once the API server serves LeaderWorkerSets."""
    while True:
        try:
            if await cluster.exists(f"/apis/{API_VERSION}"):
                return
            log.error(
                "the API server does not serve %s: install the CustomResourceDefinition (it comes with "
                "the Helm chart); looking again every %.0f s",
                API_VERSION,
                _RETRY_SECONDS,
            )
        except ClusterError as error:
            log.error("%s; trying again every %.0f s", error.message, _RETRY_SECONDS)
        await asyncio.sleep(_RETRY_SECONDS)
