"""Serve /debug over plain HTTP, for users with a shell in the pod or a port-forward. The configuration
rejects addresses other than loopback.
"""

from __future__ import annotations

import asyncio
import io
import math
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import orjson
from aiohttp import web

from lws.runtime.endpoints.plain_server import PlainServer

LONGEST_PROFILE = 60.0
"""Seconds."""

Tell = Callable[[], Mapping[str, Any]]

_INDEX = """\
/debug/tasks               stacks of all asyncio tasks and threads
/debug/queue               keys that wait, run or fail
/debug/caches              objects in the store, by kind
/debug/profile?seconds=5   where the event loop spends its time: one line per stack, for flame graphs
"""


class DebugServer(PlainServer):
    """Serves /debug. queue, caches: return the current state for JSON."""

    def __init__(self, address: str, queue: Tell, caches: Tell) -> None:
        self._is_profiling = False
        application = web.Application()
        application.router.add_get("/debug", _index)
        application.router.add_get("/debug/tasks", _tasks)
        application.router.add_get("/debug/queue", _json(queue))
        application.router.add_get("/debug/caches", _json(caches))
        application.router.add_get("/debug/profile", self._profile)
        super().__init__(address, application)

    async def _profile(self, request: web.Request) -> web.Response:
        try:
            seconds = float(request.query.get("seconds", "5"))
        except ValueError:
            seconds = math.nan
        if not 0 < seconds <= LONGEST_PROFILE:
            return web.Response(status=400, text=f"seconds: a number up to {LONGEST_PROFILE:g}, please\n")
        if self._is_profiling:
            return web.Response(status=409, text="a profile is being taken: ask again when it is done\n")
        self._is_profiling = True
        try:
            counts = await sampled(threading.get_ident(), seconds)
        finally:
            self._is_profiling = False
        return web.Response(text="".join(f"{stack} {count}\n" for stack, count in counts.most_common()))


async def _index(request: web.Request) -> web.Response:
    return web.Response(text=_INDEX)


def _json(tell: Tell) -> Callable[[web.Request], Any]:
    async def respond(request: web.Request) -> web.Response:
        return web.Response(body=orjson.dumps(dict(tell())) + b"\n", content_type="application/json")

    return respond


async def _tasks(request: web.Request) -> web.Response:
    text = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
        task.print_stack(file=text)
        text.write("\n")
    frames = sys._current_frames()
    for thread in threading.enumerate():
        text.write(f"Stack for thread {thread.name} (most recent call last):\n")
        if thread.ident in frames:
            text.write("".join(traceback.format_stack(frames[thread.ident])))
        text.write("\n")
    return web.Response(text=text.getvalue())


_PER_SECOND = 100


async def sampled(thread: int, seconds: float) -> Counter[str]:
    """Sample a thread. Stacks are `outermost;…;innermost`, each frame as `module.function`. thread: its
    identifier.
    """
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
