"""How long may a stream say nothing before it is given up?

In: pieces of a stream as they come, and seconds. Out: the same pieces, or an error. A timer for every piece
would cost as much as its decoding: one timer looks now and then when something was heard last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType

import aiohttp

from lws.cluster.errors import Unreachable


class Hearing:
    """A context that ends with Unreachable once nothing was heard for `seconds`, from its beginning on.

    what: what is listened to, as the error names it.
    """

    def __init__(self, what: str, seconds: float) -> None:
        self._what = what
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(None)
        self._heard_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Hearing:
        await self._limit.__aenter__()
        self._look()
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        try:
            await self._limit.__aexit__(type_, error, trace)
        except TimeoutError as timeout:
            raise Unreachable(f"{self._what}: nothing heard for {self._seconds:g} s") from timeout

    async def pieces(self, stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        """What the stream says, in pieces of any length."""
        async for piece in stream.iter_any():
            self._heard_at = self._loop.time()
            yield piece

    def _look(self) -> None:
        left = self._heard_at + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._limit.reschedule(self._loop.time())
