"""When may work that keeps the event loop busy begin? One piece of it in each round of the loop.

In: coroutines that are about to compute. Out: their turns, in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Rounds:
    """Lets one waiter go on per round of the event loop.

    A burst of changes makes a hundred passes due at once. All in one round they would take a tenth of a
    second, in which no review of a pod is answered, and the API server makes every pod wait for one.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_calling = False

    async def turn(self) -> None:
        """Return when it is this one's turn."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._is_calling:
            self._is_calling = True
            loop.call_soon(self._call)
        await turn

    def _call(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            # One that was cancelled meanwhile must not cost the others a round.
            if not turn.done():
                turn.set_result(None)
                break
        self._is_calling = bool(self._waiting)
        if self._is_calling:
            asyncio.get_running_loop().call_soon(self._call)
