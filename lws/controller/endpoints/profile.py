"""Where does a thread spend its time? By looking at its stack a hundred times a second.

In: a thread, how long. Out: stacks with the number of times that they were seen. Nothing is hooked into the
interpreter: code runs as fast as ever between two looks.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from types import FrameType

_PER_SECOND = 100


async def sampled(thread: int, seconds: float) -> Counter[str]:
    """thread: its identifier. Stacks as `outermost;…;innermost`, each frame as `module.function`."""
    counts: Counter[str] = Counter()
    stop = threading.Event()
    looking = asyncio.get_running_loop().run_in_executor(None, _look, thread, counts, stop)
    try:
        await asyncio.sleep(seconds)
    finally:
        stop.set()
        await looking
    return counts


def _look(thread: int, counts: Counter[str], stop: threading.Event) -> None:
    pause = 1 / _PER_SECOND
    while not stop.wait(pause):
        frame = sys._current_frames().get(thread)
        if frame is not None:
            counts[_stack(frame)] += 1


def _stack(innermost: FrameType) -> str:
    names = []
    frame: FrameType | None = innermost
    while frame is not None:
        names.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))
