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
        # While anybody waits, the next call is under way.
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Return when it is this one's turn."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._call)
        self._waiting.append(turn)
        await turn

    def _call(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            # One that was cancelled meanwhile must not cost the others a round.
            if not turn.done():
                turn.set_result(None)
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._call)
