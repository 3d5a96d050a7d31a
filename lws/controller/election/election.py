"""Decide for which namespaces this process acts: all or none, by one Lease; without election, all of them.

Out: the answer at the moment of each write, and calls when it changes. `shard_election.py` shares the work.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from lws.cluster.leases.lease import Lease

Scope = Callable[[str], bool]
"""Some of all namespaces: does it contain this one? The same object where they are gained and where they are
lost.
"""

OnChange = Callable[[Scope], None]
"""Called with the namespaces that were gained or lost."""

OnLeading = Callable[[str, bool], None]
"""Called with the name of a Lease, and whether this process holds it now."""


def everywhere(namespace: str) -> bool:
    """The scope that contains all namespaces."""
    return True


class Election(Protocol):
    """One process among those that may act."""

    def may_write(self, namespace: str) -> bool:
        """Whether nobody else can be acting there at this very moment. Asked before every write."""

    def time_left(self, namespace: str) -> float:
        """Seconds within which a write that leaves now must have come to its end."""

    def acts_on(self, namespace: str) -> bool:
        """Whether passes are made there; between calls of `on_gain` and `on_loss` it does not change."""

    async def run(self, on_gain: OnChange, on_loss: OnChange) -> None:
        """Stand for ever."""

    async def release(self) -> None:
        """Give up what is held, so that others need not wait. Nothing may be acted on any more."""


class Unelected:
    """The only process there is, as its configuration says. name: of the Lease that it does without."""

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
    """One of several processes acts: the holder of the Lease."""

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
        await self._lease.run(lambda: self._turn(True, on_gain), lambda: self._turn(False, on_loss))

    async def release(self) -> None:
        await self._lease.release()

    def _turn(self, acts: bool, tell: OnChange) -> None:
        self._acts = acts
        self._on_leading(self._lease.name, acts)
        tell(everywhere)
