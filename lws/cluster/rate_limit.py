"""How fast we may write: a token bucket, as `clientConnection.qps` and `.burst` describe it.

In: one `acquire` per request. Out: nothing; it waits while the bucket is empty.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class RateLimit:
    """A token bucket: `qps` tokens per second, at most `burst` saved up."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._clock = clock
        self._tokens = self._burst
        self._filled_at = clock()

    async def acquire(self) -> None:
        """Take one token; callers that find none wait in the order in which they came."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        self._tokens -= 1.0
        if self._tokens < 0.0:
            await asyncio.sleep(-self._tokens / self._qps)
