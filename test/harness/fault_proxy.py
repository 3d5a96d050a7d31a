"""Inject faults between a manager and its API server, by an HTTP proxy on loopback.

A rule chooses a fault for each request, or none. The proxy runs in a thread of its own and counts the faults.
It forwards credentials and stores none.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import aiohttp
from aiohttp import web

RESULT = TypeVar("RESULT")

_HOP_BY_HOP = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})
_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}
_START_SECONDS = 60.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ManagerRequest:
    """A request of the manager, for which the rule chooses a fault."""

    method: str
    path: str
    query: Mapping[str, str]

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") in ("1", "true")

    @property
    def collection(self) -> str:
        """The last segment of the path, which is a plural for lists and watches."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Refuse:
    """Answer with an error, without passing the request on to the API server."""

    status: int
    retry_after: int | None = None


@dataclass(frozen=True)
class Drop:
    """Break the connection at once, as if the API server were unreachable."""


@dataclass(frozen=True)
class Lose:
    """Let the API server handle the request, but break the connection before the response arrives."""


@dataclass(frozen=True)
class Delay:
    """Delay the request by this number of seconds."""

    seconds: float


@dataclass(frozen=True)
class Pages:
    """Answer a list in pages of this many objects, each of which takes this number of seconds."""

    size: int
    seconds: float


@dataclass(frozen=True)
class Hold:
    """Hold the request until the test sets the event."""

    until: threading.Event


@dataclass(frozen=True)
class CutAfter:
    """Break off the response after this number of seconds if it takes that long, as a watch does."""

    seconds: float


@dataclass(frozen=True)
class ErrorEvent:
    """Answer a watch with this error as its only event."""

    code: int


Fault = Refuse | Drop | Lose | Delay | Pages | Hold | CutAfter | ErrorEvent
Rule = Callable[[ManagerRequest], Fault | None]


def no_fault(request: ManagerRequest) -> Fault | None:
    """Inject no fault."""
    return None


class FaultProxy:
    """Runs the proxy while its context is entered. `rule` may be replaced at any time; later requests follow
    the new rule.
    """

    def __init__(self, server: str, ca: bytes) -> None:
        self.rule: Rule = no_fault
        self.seen: Counter[str] = Counter()
        """Name of a fault's class → number of injections; "" → number of requests without a fault."""
        self._server = server
        self._tls = ssl.create_default_context(cadata=ca.decode())
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._open: set[asyncio.Transport] = set()
        self._port = 0
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        """The URL that managers connect to."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        self._loop.close()

    def cut_streams(self) -> None:
        """Break every open response, above all watches."""
        self._run(self._cut_streams())

    async def _cut_streams(self) -> None:
        for transport in tuple(self._open):
            transport.abort()

    def _run(self, work: Coroutine[Any, Any, RESULT]) -> RESULT:
        done: Future[RESULT] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(_START_SECONDS)

    async def _start(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        # A watch has no end, so there is no timeout. Compressed responses pass unchanged.
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, read_bufsize=2**21
        )
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        await self._cut_streams()
        assert self._runner is not None and self._session is not None
        await self._runner.cleanup()
        await self._session.close()
        # Cancel requests that a manager has abandoned or that are held: their end would be waited for.
        open_tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        received = ManagerRequest(request.method, request.path, dict(request.query))
        fault = self.rule(received)
        self.seen[type(fault).__name__ if fault is not None else ""] += 1
        match fault:
            case Refuse():
                return _refusal(fault)
            case Drop():
                return self._break(request)
            case ErrorEvent():
                event = {"type": "ERROR", "object": _status(fault.code)}
                return web.json_response(event)
            case Delay() | Pages():
                await asyncio.sleep(fault.seconds)
            case Hold():
                while not fault.until.is_set():
                    await asyncio.sleep(_POLL_SECONDS)
        try:
            async with self._upstream(request, fault) as answer:
                return await self._pass_on(request, answer, fault)
        except (aiohttp.ClientError, ConnectionError):
            # The API server is down or went down during the response, so the manager sees a broken
            # connection.
            return self._break(request)

    @asynccontextmanager
    async def _upstream(
        self, request: web.Request, fault: Fault | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None
        url = (
            request.rel_url.update_query(limit=str(fault.size))
            if isinstance(fault, Pages)
            else request.rel_url
        )
        async with self._session.request(
            request.method,
            f"{self._server}{url}",
            headers=_passed_on(request.headers),
            # Without a body this must be None: empty bytes would add a Content-Length header.
            data=await request.read() or None,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        ) as answer:
            yield answer

    async def _pass_on(
        self, request: web.Request, answer: aiohttp.ClientResponse, fault: Fault | None
    ) -> web.StreamResponse:
        if isinstance(fault, Lose):
            await answer.read()
            return self._break(request)
        response = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
        await response.prepare(request)
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        self._open.add(transport)
        try:
            async with asyncio.timeout(fault.seconds if isinstance(fault, CutAfter) else None):
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            await response.write_eof()
        except TimeoutError:
            return self._break(request)
        finally:
            self._open.discard(transport)
        return response

    def _break(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def _refusal(fault: Refuse) -> web.Response:
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    return web.json_response(_status(fault.status), status=fault.status, headers=headers)


def _status(code: int) -> dict[str, Any]:
    """Return the response of an API server with this code (metav1.Status)."""
    message = json.dumps({"played": code})
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**status, "code": code, "reason": _REASONS.get(code, ""), "message": message}
