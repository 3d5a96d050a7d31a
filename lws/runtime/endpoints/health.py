"""Serve liveness and readiness probes, and debug information about the process, over plain HTTP.

The responses of /healthz and /readyz list the failed checks.
"""

from __future__ import annotations

import asyncio
import io
import logging
import math
import os
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

import orjson
from aiohttp import web

from lws import timing
from lws.config import Settings
from lws.runtime.endpoints.server import SMALL, Server
from lws.runtime.informer import Informer, KopfStream
from lws_api.config.v1alpha1 import NO_SERVER

log = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""A function that returns a problem in one line; None if the check passes."""


def split_address(address: str) -> tuple[str | None, int]:
    """Split `host:port` as Go does, an empty host meaning every interface. Raises ValueError otherwise."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not an address of the form host:port")
    return host.strip("[]") or None, int(port)


class PlainServer(Server):
    """Serves routes on `host:port` over plain HTTP."""

    def __init__(self, address: str, routes: Iterable[web.RouteDef]) -> None:
        self._address = split_address(address)
        super().__init__(routes, SMALL, timing.ENDPOINTS_GRACE_SECONDS)

    async def start(self) -> None:
        """Open the port. Raises OSError if that fails."""
        await self.open(*self._address)


class HealthServer(PlainServer):
    """Serves the probes. endpoints: the checks by name, for each URL path."""

    def __init__(self, address: str, endpoints: Mapping[str, Mapping[str, Check]]) -> None:
        routes = []
        for path, checks in endpoints.items():
            routes.append(web.get(path, _all(checks)))
            # This check always passes: it shows that the process answers.
            for name, check in {path.strip("/"): lambda: None, **checks}.items():
                routes.append(web.get(f"{path}/{name}", _all({name: check})))
        super().__init__(address, routes)


def _all(checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    logged: set[str] = set()

    async def respond(request: web.Request) -> web.Response:
        failures = {name: problem for name, check in checks.items() if (problem := check()) is not None}
        # Probes arrive every few seconds; log a failure only once.
        for name in failures.keys() - logged:
            log.warning("%s fails: %s: %s", request.path, name, failures[name])
        logged.clear()
        logged.update(failures)
        if not failures and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [
            f"[-]{name} failed: {failures[name]}" if name in failures else f"[+]{name} ok" for name in checks
        ]
        verdict = "check failed" if failures else "check passed"
        text = "\n".join([*lines, f"{request.path.strip('/')} {verdict}", ""])
        return web.Response(status=500 if failures else 200, text=text)

    return respond


# --- Serve /debug over plain HTTP, for users with a shell in the pod or a port-forward. The configuration
# rejects addresses other than loopback.


LONGEST_PROFILE = 60.0
"""Maximum duration of a profile, in seconds."""

Report = Callable[[], Mapping[str, Any]]

_INDEX = """\
/debug/tasks               stacks of all asyncio tasks and threads
/debug/queue               keys that wait, run or fail
/debug/caches              objects in the store, by kind
/debug/profile?seconds=5   where the event loop spends its time: one line per stack, for flame graphs
"""


class DebugServer(PlainServer):
    """Serves /debug. queue, caches: functions that return the current state for JSON."""

    def __init__(self, address: str, queue: Report, caches: Report) -> None:
        self._is_profiling = False
        routes = [
            web.get("/debug", _index),
            web.get("/debug/tasks", _tasks),
            web.get("/debug/queue", _json(queue)),
            web.get("/debug/caches", _json(caches)),
            web.get("/debug/profile", self._profile),
        ]
        super().__init__(address, routes)

    async def _profile(self, request: web.Request) -> web.Response:
        try:
            seconds = float(request.query.get("seconds", "5"))
        except ValueError:
            seconds = math.nan
        if not 0 < seconds <= LONGEST_PROFILE:
            return web.Response(status=400, text=f"seconds must be a number up to {LONGEST_PROFILE:g}\n")
        if self._is_profiling:
            return web.Response(status=409, text="another profile is running: retry when it is done\n")
        self._is_profiling = True
        try:
            counts = await sampled(threading.get_ident(), seconds)
        finally:
            self._is_profiling = False
        return web.Response(text="".join(f"{stack} {count}\n" for stack, count in counts.most_common()))


async def _index(request: web.Request) -> web.Response:
    return web.Response(text=_INDEX)


def _json(report: Report) -> Callable[[web.Request], Any]:
    async def respond(request: web.Request) -> web.Response:
        return web.Response(body=orjson.dumps(dict(report())) + b"\n", content_type="application/json")

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
    """Sample the stacks of a thread (its identifier) for so many seconds, and count equal stacks.

    A stack is `outermost;…;innermost`, each frame `module.function`.
    """
    counts: Counter[str] = Counter()
    stop = threading.Event()
    sampling = asyncio.get_running_loop().run_in_executor(None, _sample, thread, counts, stop)
    try:
        await asyncio.sleep(seconds)
    finally:
        stop.set()
        await sampling
    return counts


def _sample(thread: int, counts: Counter[str], stop: threading.Event) -> None:
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


# --- Check at startup that every configured port can be opened, so that the error names the setting. Each
# server opens its port itself, later.


async def check_ports(settings: Settings) -> None:
    """Open and close every port that will be served. Raises OSError for the first that cannot be opened."""
    for setting, host, port in _addresses(settings):
        try:
            server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
        except OSError as error:
            # asyncio adds the address and its own words to the message of the system.
            number = error.errno or 0
            reason = os.strerror(number).lower() if number > 0 else str(error)
            raise OSError(
                f"{setting}: cannot listen on {host or 'every interface'} port {port}: {reason}; "
                "set another address, or stop the process that uses this one"
            ) from error
        server.close()
        await server.wait_closed()


def _addresses(settings: Settings) -> Iterator[tuple[str, str | None, int]]:
    """Yield the setting, host (None for every interface) and port of each server."""
    configuration = settings.configuration
    if settings.serves_webhooks:
        webhook = configuration.webhook
        yield "webhook.port", webhook.host or None, webhook.port
    addresses = {
        "health.healthProbeBindAddress": configuration.health.health_probe_bind_address,
        "metrics.bindAddress": configuration.metrics.bind_address,
        "debug.bindAddress": configuration.debug.bind_address,
    }
    for setting, address in addresses.items():
        if address != NO_SERVER:
            yield setting, *split_address(address)


# --- Detect silent streams for the liveness probe.


class Silence:
    """Creates checks of streams. They pass before `begin`, because streams have not started yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None

    def begin(self) -> None:
        """Expect data on every stream from now on."""
        self._since = self._clock()

    def check(self, stream: Informer | KopfStream) -> Check:
        """Return a check that fails once the stream has been silent for longer than a healthy one can be."""

        def check() -> str | None:
            expected = 0.0 if self._since is None else self._clock() - self._since
            silence = min(stream.seconds_silent, expected)
            return f"nothing received for {silence:.0f} s" if silence > timing.SILENT_STREAM_SECONDS else None

        return check
