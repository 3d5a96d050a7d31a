"""Delay passes over namespaces that this process gained until it has seen what the former manager wrote.

The Lease is taken first and everything is listed after that, so the lists contain every earlier write. That
also holds for kinds with an etcd of their own, whose versions cannot be compared with the Lease's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from lws import timing
from lws.cluster.errors import ClusterError
from lws.controller.election.election import OnChange, Scope

log = logging.getLogger(__name__)


class Takeover:
    """refresh: returns once everything is known that was stored before the call; raises ClusterError.
    begin: called with namespaces whose passes may begin.
    """

    def __init__(self, refresh: Callable[[], Awaitable[None]], begin: OnChange) -> None:
        self._refresh = refresh
        self._begin = begin
        self._pending: list[Scope] = []
        self._gained = asyncio.Event()

    def gain(self, scope: Scope) -> None:
        """No pass there until everything is listed anew."""
        self._pending.append(scope)
        self._gained.set()

    def is_done(self, namespace: str) -> bool:
        """Whether passes may be made there, as far as it depends on what is known."""
        return not any(scope(namespace) for scope in self._pending)

    async def run(self) -> None:
        """List for all that was gained at the same time together, for ever."""
        while True:
            await self._gained.wait()
            self._gained.clear()
            scopes = tuple(self._pending)
            try:
                await self._refresh()
            except ClusterError as error:
                log.warning("no pass begins before everything is listed: %s", error.message)
                self._gained.set()
                await asyncio.sleep(timing.TAKEOVER_RETRY_SECONDS)
                continue
            del self._pending[: len(scopes)]
            for scope in scopes:
                self._begin(scope)
