"""Keep creations for an owner and the deletion of that owner from overlapping.

Passes over a set and over its groups run side by side, and so do those of kinds that create sets. A child
created for a leader in the instant in which another pass deletes that leader in the foreground comes too
late: the garbage collector does not wait for it, and workers of the old leader meet the new one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# Far more than can be on their way at a time.
_REMEMBERED = 10_000


class OwnerLocks:
    """What is made for an owner side by side, and its deletion before or after all of that."""

    def __init__(self) -> None:
        self._making: Counter[str] = Counter()
        self._made: dict[str, asyncio.Event] = {}
        self._deleted: dict[str, asyncio.Event] = {}
        self._going: dict[str, None] = {}

    @asynccontextmanager
    async def making(self, uid: str) -> AsyncIterator[bool]:
        """Whether anything may be made for this owner; its deletion waits meanwhile."""
        while uid in self._deleted:
            await self._deleted[uid].wait()
        if uid in self._going:
            yield False
            return
        self._making[uid] += 1
        try:
            yield True
        finally:
            self._making[uid] -= 1
            if not self._making[uid]:
                del self._making[uid]
                if uid in self._made:
                    self._made.pop(uid).set()

    @asynccontextmanager
    async def deleting(self, uid: str) -> AsyncIterator[None]:
        """Nothing is made for this owner meanwhile, nor ever again unless the deletion fails (raises)."""
        while uid in self._deleted:
            await self._deleted[uid].wait()
        over = self._deleted[uid] = asyncio.Event()
        try:
            if uid in self._making:
                made = self._made[uid] = asyncio.Event()
                await made.wait()
            yield
            self._goes(uid)
        finally:
            del self._deleted[uid]
            over.set()

    def _goes(self, uid: str) -> None:
        self._going[uid] = None
        if len(self._going) > _REMEMBERED:
            del self._going[next(iter(self._going))]
