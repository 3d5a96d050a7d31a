"""Run an HTTP server on loopback that plays the API server and returns the test's answers in order."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import orjson
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from lws.runtime.client.connection import Cluster, RateLimit

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Seen:
    """One request. body: the decoded JSON, or None. at: the time of arrival by the loop's clock."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    at: float


@dataclass(slots=True)
class FakeApi:
    """A fake API server.

    answers: one for each request, in order. Any further request gets HTTP 500.
    """

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    requests: list[Seen] = field(default_factory=list)

    def will(self, *answers: Answer) -> None:
        """Add answers for the next requests."""
        self.answers.extend(answers)

    def cluster(self, user_agent: str = "test", rate: RateLimit | None = None, **options: Any) -> Cluster:
        """Return a connection to this server, which the caller has to close."""
        # Loading the system's certificates takes longer than a test, and plain HTTP needs none.
        with patch.object(ssl.SSLContext, "load_default_certs"):
            return Cluster(Configuration(host=self.url), user_agent, rate, **options)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Record the request and return the next answer."""
        raw = await request.read()
        body = orjson.loads(raw) if raw else None
        query, headers = dict(request.query), dict(request.headers)
        at = asyncio.get_running_loop().time()
        self.requests.append(Seen(request.method, request.path, query, headers, body, at))
        answer = self.answers.pop(0) if self.answers else plain(500, "the test expected no further request")
        return await answer(request)


def answer_json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """A JSON answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        content = orjson.dumps(body)
        return web.Response(status=status, body=content, content_type="application/json", headers=headers)

    return answer


def failure(status: int, reason: str = "", message: str = "", **details: Any) -> Answer:
    """A `v1 Status` that describes a failure."""
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return answer_json(body | ({"details": details} if details else {}), status)


def plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer that is not JSON."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text, content_type="text/html", headers=headers)

    return answer


def reset() -> Answer:
    """A connection that breaks before any answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        _cut(request)
        return web.Response()

    return answer


def silence(seconds: float) -> Answer:
    """An answer that takes `seconds`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.Response(body=b"{}", content_type="application/json")

    return answer


def stream(*chunks: bytes | float, cut: bool = False) -> Answer:
    """The body of a watch: chunks of bytes and pauses in seconds.

    cut: whether it ends with a reset instead of an orderly end.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in chunks:
            if isinstance(chunk, bytes):
                await response.write(chunk)
                # Without this pause, the chunk would arrive together with the next one.
                await asyncio.sleep(0.01)
            else:
                await asyncio.sleep(chunk)
        if cut:
            _cut(request)
        return response

    return answer


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeApi]:
    """Run a server; with a context, it uses TLS."""
    api = FakeApi()
    application = web.Application(client_max_size=2**24)
    application.router.add_route("*", "/{path:.*}", api.respond)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        api.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        yield api
    finally:
        await runner.cleanup()
