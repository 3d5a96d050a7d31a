"""Wait until the API server responds and serves the CRDs.

The manager waits as long as necessary and reports what is missing. If it exited instead, an API server that
is down for hours would leave every manager in CrashLoopBackOff. An optional kind is served while its CRDs are
installed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from lws import timing
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import ClusterError, Forbidden, Unreachable
from lws.runtime.registration import Registration

log = logging.getLogger(__name__)


class Preconditions:
    """Checks before each start of an engine. api_versions: the API versions that must be served."""

    def __init__(self, cluster: Cluster, api_versions: Iterable[str]) -> None:
        self._cluster = cluster
        self._api_versions = tuple(api_versions)
        self._missing: str | None = "the API server was not checked yet"

    def missing(self) -> str | None:
        """Return what was missing at the last check, for the readiness probe; None if nothing was."""
        return self._missing

    async def wait(self) -> None:
        """Wait until the API server serves every kind of workload that is not optional."""
        delay = timing.PRECONDITIONS_PAUSE.first
        while (missing := await self._check()) is not None:
            self._missing = missing
            log.error("%s; next check in %.0f s", missing, delay)
            await asyncio.sleep(delay)
            delay = timing.PRECONDITIONS_PAUSE.following(delay)
        self._missing = None

    async def _check(self) -> str | None:
        for api_version in self._api_versions:
            try:
                if not await self._cluster.exists(f"/apis/{api_version}"):
                    return (
                        f"the API server does not serve {api_version}: install the CustomResourceDefinition "
                        "(it comes with the Helm chart)"
                    )
            except Unreachable as error:
                return f"{error.message}: is the API server up, and does the kubeconfig name the right one?"
            except ClusterError as error:
                # The message of the error may just be "Unauthorized".
                host = self._cluster.configuration.host
                return f"cannot check whether the API server at {host} serves {api_version}: {error.message}"
        return None


class Definitions:
    """Checks whether the CRDs of optional kinds are installed. `Preconditions` waits for the others."""

    def __init__(self, cluster: Cluster, registrations: Iterable[Registration]) -> None:
        self._cluster = cluster
        self._registrations = tuple(registrations)
        self._missing: dict[str, str] = {}
        # By kind: the time since which access is denied.
        self._denied_since: dict[str, float] = {}

    async def served(self, before: Iterable[Registration] = ()) -> tuple[Registration, ...]:
        """Return the kinds that can be served now.

        The kinds served until now (`before`) stay while the API server does not respond, and for
        `DENIED_KIND_SECONDS` if it denies access.
        """
        served = tuple(before)
        return tuple([kind for kind in self._registrations if await self._is_served(kind, kind in served)])

    async def changed(self, served: tuple[Registration, ...]) -> None:
        """Wait until the kinds that can be served differ from these."""
        if not any(kind.is_optional for kind in self._registrations):
            await asyncio.Event().wait()
        while await self.served(before=served) == served:
            await asyncio.sleep(timing.RECHECK_SECONDS)

    async def _is_served(self, registration: Registration, was_served: bool) -> bool:
        if not registration.is_optional:
            return True
        kind = registration.workload.resource.kind
        try:
            missing = await self._missing_of(registration)
        except Forbidden as error:
            # Reapplying RBAC may remove the permissions for a moment.
            since = self._denied_since.setdefault(kind, asyncio.get_running_loop().time())
            if was_served and asyncio.get_running_loop().time() - since < timing.DENIED_KIND_SECONDS:
                log.warning("%s: %s", kind, error.message)
                return True
            missing = error.message
        except ClusterError as error:
            log.warning("%s: %s", kind, error.message)
            return was_served
        else:
            self._denied_since.pop(kind, None)
        if missing and self._missing.get(kind) != missing:
            log.warning("%s: not served: %s", kind, missing)
        self._missing[kind] = missing
        return not missing

    async def _missing_of(self, registration: Registration) -> str:
        """Return the first missing CRD that keeps a kind from being served; empty if all exist."""
        workload = registration.workload
        group = workload.resource.group
        own = (workload.resource, *(child for child in workload.children if child.group == group))
        for resource in own:
            if not await self._cluster.exists(f"{resource.path()}?limit=1"):
                return f"the API server does not serve {resource.plural} of {resource.api_version}"
        return ""
