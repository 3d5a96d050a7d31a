"""How fast we may write: a token bucket, as `clientConnection.qps` and `.burst` describe it, and another one
for renewals of Leases.

In: one `acquire` per request. Out: nothing; it waits while the bucket is empty, or (`try_acquire`) says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

# As often as managers that take the same Lease at the same moment try again.
_ATTEMPTS = 5


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
        self._fill()
        self._tokens -= 1.0
        if self._tokens < 0.0:
            await asyncio.sleep(-self._tokens / self._qps)

    def try_acquire(self) -> bool:
        """Take one token if there is one."""
        self._fill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now


def renewal_rate(shards: int, retry_period: float, clock: Callable[[], float] = time.monotonic) -> RateLimit:
    """The budget of one manager's Leases: twice what they take at most in each period.

    shards: how many Leases it may hold. The one that all managers share may take several attempts.
    """
    writes = 2 * (shards + _ATTEMPTS)
    return RateLimit(writes / retry_period, writes, clock)
