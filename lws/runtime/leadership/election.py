"""Election by one Lease for all namespaces, or no election.

An election tells whether a write is allowed at this moment, and calls back when leadership is gained or lost.
`shard_election.py` shares the namespaces among several managers.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from lws import timing
from lws.runtime.errors import ClusterError
from lws.runtime.leadership.lease import Lease

Scope = Callable[[str], bool]
"""A function that reports whether a scope contains this namespace: the same object at gain and loss."""

OnChange = Callable[[Scope], None]
"""A function that is called with gained or lost namespaces."""

OnLeading = Callable[[str, bool], None]
"""A function that is called with the name of a Lease and whether this process holds it."""


def everywhere(namespace: str) -> bool:
    """Return the scope that contains all namespaces."""
    return True


class Election(Protocol):
    """An election, as the candidate in this process sees it."""

    def may_write(self, namespace: str) -> bool:
        """Report, before every write, whether this process and certainly no other acts on the namespace."""

    def time_left(self, namespace: str) -> float:
        """Return the seconds within which a write that is sent now must end."""

    def acts_on(self, namespace: str) -> bool:
        """Return whether passes over the namespace run. Only calls of `on_gain` and `on_loss` change this."""

    async def run(self, on_gain: OnChange, on_loss: OnChange) -> None:
        """Compete for Leases indefinitely."""

    async def release(self) -> None:
        """Release all Leases, so that other managers need not wait. This process must not act any more."""


class Unelected:
    """No election, because the configuration guarantees a single process. name: that of the unused Lease."""

    def __init__(self, name: str, on_leading: OnLeading) -> None:
        self._name = name
        self._on_leading = on_leading

    def may_write(self, namespace: str) -> bool:
        return True

    def time_left(self, namespace: str) -> float:
        return math.inf

    def acts_on(self, namespace: str) -> bool:
        return True

    async def run(self, on_gain: OnChange, on_loss: OnChange) -> None:
        self._on_leading(self._name, True)
        on_gain(everywhere)
        await asyncio.Event().wait()

    async def release(self) -> None:
        return


class LeaseElection:
    """An election by one Lease, whose holder is the only process that acts."""

    def __init__(self, lease: Lease, on_leading: OnLeading) -> None:
        self._lease = lease
        self._on_leading = on_leading
        self._acts = False
        on_leading(lease.name, False)

    def may_write(self, namespace: str) -> bool:
        return self._lease.is_held()

    def time_left(self, namespace: str) -> float:
        return self._lease.time_left

    def acts_on(self, namespace: str) -> bool:
        return self._acts

    async def run(self, on_gain: OnChange, on_loss: OnChange) -> None:
        await self._lease.run(
            lambda: self._set_leading(True, on_gain), lambda: self._set_leading(False, on_loss)
        )

    async def release(self) -> None:
        await self._lease.release()

    def _set_leading(self, acts: bool, on_change: OnChange) -> None:
        self._acts = acts
        self._on_leading(self._lease.name, acts)
        on_change(everywhere)


# --- Delay passes over gained namespaces until this manager has seen the last writes of the former one. The
# Lease is acquired first and everything is listed afterwards, so the lists contain every earlier write. This
# also holds if some kinds have an etcd of their own, whose versions cannot be compared with those of the
# Lease.


log = logging.getLogger(__name__)


class Takeover:
    """Delays passes over gained namespaces.

    refreshes: functions that each wait until a part of the store has everything that was written before the
    call, and raise `ClusterError` if that fails. begin: a function that is called with namespaces whose
    passes may begin.
    """

    def __init__(self, refreshes: Iterable[Callable[[], Awaitable[None]]], begin: OnChange) -> None:
        self._refreshes = tuple(refreshes)
        self._begin = begin
        self._pending: list[Scope] = []
        self._gained = asyncio.Event()

    def gain(self, scope: Scope) -> None:
        """Block passes in this scope until everything is relisted."""
        self._pending.append(scope)
        self._gained.set()

    def is_done(self, namespace: str) -> bool:
        """Return whether the relist for this namespace is complete."""
        return not any(scope(namespace) for scope in self._pending)

    async def run(self) -> None:
        """Relist after namespaces were gained, indefinitely. One relist serves all of them."""
        while True:
            await self._gained.wait()
            self._gained.clear()
            scopes = tuple(self._pending)
            async with asyncio.TaskGroup() as tasks:
                for refresh in self._refreshes:
                    tasks.create_task(_until_done(refresh))
            del self._pending[: len(scopes)]
            for scope in scopes:
                self._begin(scope)


async def _until_done(refresh: Callable[[], Awaitable[None]]) -> None:
    """Refresh one part of the store. Only this part is repeated if it fails."""
    for failures in itertools.count(1):
        try:
            return await refresh()
        except ClusterError as error:
            log.warning("passes wait until everything is relisted: %s", error.message)
            backoff = timing.STREAM_BACKOFF.after(failures) * random.uniform(0.5, 1.0)
            await asyncio.sleep(max(error.retry_after or 0.0, backoff))
