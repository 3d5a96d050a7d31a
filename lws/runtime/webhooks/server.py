"""HTTPS server for the API server's admission reviews at /<handler id>.

kopf runs it in place of its own server, which is limited to 1 MiB, answers malformed reviews with 500 and
rejects without a reason.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, cast

import kopf
from aiohttp import web

from lws import timing
from lws.runtime.client.resources import Resource
from lws.runtime.endpoints.tls import ServerTls
from lws.runtime.endpoints.tls_port import TlsPort, served_by
from lws.runtime.webhooks.mutation import collected, head_of, is_mutating, patch_of
from lws.runtime.webhooks.review import Answer, BadReview, MisdirectedReview, answer, refusal, review_in

MAX_BODY_BYTES = 8 * 1024 * 1024
"""Two objects of etcd's maximum size, and ample room for the rest of a review."""

_LARGE_BODY_BYTES, _LARGE_AT_ONCE = 256 * 1024, 4
"""Several times the size of a review of a set or pod, and how many larger bodies are read concurrently.
Without a limit, 2,000 clients that stopped after 1 MB of a body made the process grow to 5.4 GB.
"""

_MOST_CALLERS = 128
"""Served concurrently: an API server keeps 25 idle connections, and one event loop answers one review at a
time.
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Listen address. host: empty means all interfaces. port: 0 means any free one."""

    host: str = ""
    port: int = 9443


class _Refused(Exception):
    """An HTTP error instead of an answer; `text` is one line. decision: empty if the request is no review, as
    any client of the port may send one.
    """

    def __init__(
        self, status: int, text: str, headers: Mapping[str, str] | None = None, decision: str = ""
    ) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers
        self.decision = decision


class ReviewObserver(Protocol):
    """Counts reviews."""

    def answered(self, webhook: str, code: int, seconds: float, decision: str) -> None:
        """Record a request that was answered with this HTTP status. webhook: empty for an unknown path.
        decision: `allowed`, `denied`, `failed` if a review was not decided, empty if the request was no
        review.
        """


class AdmissionServer:
    """`settings.admission.server` for kopf.

    endpoints: handler id → reviewed resource. tls: the port opens once it has a certificate. observer: called
    for every answer.
    """

    def __init__(
        self,
        address: Address,
        endpoints: Mapping[str, Resource],
        tls: ServerTls,
        observer: ReviewObserver | None = None,
    ) -> None:
        self._address = address
        self._endpoints = endpoints
        self._tls = tls
        self._observer = observer
        self._webhookfn: kopf.WebhookFn | None = None
        self._opened = asyncio.Event()
        self._port: int | None = None
        self._in_flight = dict.fromkeys((*endpoints, ""), 0)
        self._is_closing = False
        self._callers: TlsPort | None = None
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    @property
    def is_listening(self) -> bool:
        """The port is open and reviews are answered."""
        return self._port is not None and self._webhookfn is not None

    @property
    def port(self) -> int | None:
        """The open port; None while none is open."""
        return self._port

    async def __call__(self, webhookfn: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
        """Answer reviews with this function; yields once the port is open. The function stays in use while
        kopf restarts, until kopf brings another one.
        """
        self._webhookfn = webhookfn
        await self._opened.wait()
        yield kopf.WebhookClientConfig(url=f"https://{self._address.host or 'localhost'}:{self._port}")
        await asyncio.Event().wait()

    def in_flight(self, webhook: str) -> int:
        """Number of requests to a webhook that are being answered."""
        return self._in_flight[webhook]

    async def run(self) -> None:
        """Serve until cancelled, once there is a certificate. Raises OSError if the port is taken."""
        await self._tls.loaded()
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=timing.REVIEWS_GRACE_SECONDS)
        await runner.setup()
        callers = self._callers = TlsPort(served_by(runner), self._tls.context, _MOST_CALLERS)
        try:
            host = self._address.host or None
            callers.open(host, self._address.port)
            self._port = callers.port
            log.info("webhooks listen on %s port %d", host or "all interfaces", self._port)
            self._opened.set()
            await asyncio.Event().wait()
        finally:
            self._opened.clear()
            self._port = None
            callers.close()
            await runner.cleanup()

    async def close_gently(self, seconds: float) -> None:
        """Keep answering for so many seconds, with `Connection: close`. Cancel `run` afterwards.

        API servers keep connections for 90 s. A review that is in flight when its connection is closed is
        lost, because Go's net/http does not retry a POST; so they must be told first.
        """
        self._is_closing = True
        if self.is_listening:
            await asyncio.sleep(seconds)

    async def _serve(self, request: web.Request) -> web.Response:
        started = time.perf_counter()
        path = request.path[1:]
        webhook = path if path in self._endpoints else ""
        self._in_flight[webhook] += 1
        try:
            reply = await self._answer(path, request)
            decision = reply.decision
            response = web.Response(body=reply.body, content_type="application/json")
        except _Refused as refused:
            decision = refused.decision
            response = web.Response(status=refused.status, text=f"{refused.text}\n", headers=refused.headers)
        finally:
            self._in_flight[webhook] -= 1
        if self._is_closing:
            response.force_close()
        if self._observer is not None:
            seconds = time.perf_counter() - started
            self._observer.answered(webhook, response.status, seconds, decision)
        return response

    async def _answer(self, webhook: str, request: web.Request) -> Answer:
        resource = self._endpoints.get(webhook)
        if resource is None:
            raise _Refused(404, f"no webhook here; there are /{', /'.join(self._endpoints)}")
        if request.method != "POST":
            raise _Refused(405, f"reviews are POSTed, {request.method} means nothing here", {"Allow": "POST"})
        if request.content_type != "application/json":
            raise _Refused(400, f"the content type must be application/json, not {request.content_type}")
        if self._webhookfn is None:
            raise _Refused(503, "not ready yet: the API server was not reached so far", decision="failed")
        body = await self._body(request)
        assert self._callers is not None
        try:
            with self._callers.answering(request.transport):
                return await reviewed(self._webhookfn, webhook, resource, body)
        except BadReview as error:
            decision = "failed" if isinstance(error, MisdirectedReview) else ""
            raise _Refused(400, str(error), decision=decision) from error

    async def _body(self, request: web.Request) -> bytes:
        too_large = _Refused(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        size = request.content_length
        # A body with a Content-Length is rejected before it is read.
        if size is not None and size > MAX_BODY_BYTES:
            raise too_large
        is_large = size is None or size > _LARGE_BODY_BYTES
        try:
            async with asyncio.timeout(timing.ASKING_SECONDS), self._large if is_large else nullcontext():
                return await request.read()
        except TimeoutError as error:
            raise _Refused(408, f"the body is not there after {timing.ASKING_SECONDS:.0f} s") from error
        except ConnectionError as error:
            raise _Refused(400, "the connection ended before the body") from error
        except web.HTTPRequestEntityTooLarge as error:
            raise too_large from error
        except web.RequestPayloadError as error:
            reason = " ".join(str(error).split())
            raise _Refused(400, f"the body cannot be read: {reason}") from error


async def reviewed(webhookfn: kopf.WebhookFn, webhook: str, resource: Resource, body: bytes) -> Answer:
    """Answer the body of a review. An error in a handler is an answer too. Raises BadReview."""
    review = review_in(body, resource)
    try:
        with collected() as changes:
            response = await webhookfn(cast(Any, _for_kopf(review, webhook)), webhook=webhook)
        obj = review["request"]["object"]
        has_changes = changes and obj is not None and response["response"]["allowed"]
        return answer(review, response, patch_of(obj, changes) if has_changes else ())
    except kopf.AdmissionError as error:
        # Mutations run after kopf and may reject the object too.
        return refusal(review, error.code or 500, str(error))
    except Exception as error:
        log.exception("review at /%s failed", webhook)
        return refusal(review, 500, f"{type(error).__name__} in webhook {webhook}: {error}")


def _for_kopf(review: dict[str, Any], webhook: str) -> dict[str, Any]:
    if not is_mutating(webhook):
        return review
    request = review["request"]
    heads = {key: head_of(request[key]) for key in ("object", "oldObject")}
    return {**review, "request": {**request, **heads}}
