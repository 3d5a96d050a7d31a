"""Delay passes over gained namespaces until this manager has seen the last writes of the former one.

The Lease is acquired first and everything is listed afterwards, so the lists contain every earlier write.
That also holds if some kinds have their own etcd, whose versions cannot be compared with the Lease's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from lws import timing
from lws.runtime.errors import ClusterError
from lws.runtime.leadership.election import OnChange, Scope

log = logging.getLogger(__name__)


class Takeover:
    """refresh: returns once everything that was stored before the call is known; raises ClusterError. begin:
    called with namespaces whose passes may begin.
    """

    def __init__(self, refresh: Callable[[], Awaitable[None]], begin: OnChange) -> None:
        self._refresh = refresh
        self._begin = begin
        self._pending: list[Scope] = []
        self._gained = asyncio.Event()

    def gain(self, scope: Scope) -> None:
        """Block passes in this scope until everything is relisted."""
        self._pending.append(scope)
        self._gained.set()

    def is_done(self, namespace: str) -> bool:
        """Report whether the relist for this namespace is complete."""
        return not any(scope(namespace) for scope in self._pending)

    async def run(self) -> None:
        """Relist once for all scopes that were gained in the meantime, indefinitely."""
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
