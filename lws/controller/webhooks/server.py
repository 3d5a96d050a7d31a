"""Where do the API server's admission reviews arrive?

In: HTTPS requests at /<handler id>. Out: kopf's answers to them. kopf runs this server in place of its own
one, which stops at 1 MiB, answers malformed reviews with 500 and refusals without a reason.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import kopf
from aiohttp import web

from lws import timing
from lws.cluster.client.resources import Resource
from lws.controller.endpoints.tls import ServerTls
from lws.controller.webhooks.mutation import collected, head_of, is_mutating, patch_of
from lws.controller.webhooks.review import Answer, BadReview, answer, refusal, review_in

MAX_BODY_BYTES = 8 * 1024 * 1024
"""Two objects of the largest size that etcd stores, and more than enough for what surrounds them."""


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. host: empty means all interfaces. port: 0 means any free one."""

    host: str = ""
    port: int = 9443


class _Refused(Exception):
    """An HTTP error instead of an answer to a review; `text` is one line."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class Observer(Protocol):
    """Who counts reviews."""

    def answered(self, webhook: str, code: int, seconds: float, decision: str) -> None:
        """A request was answered with this HTTP status; webhook: empty for a path that is none. decision:
        `allowed`, `denied`, or `failed` where nothing was decided.
        """


class AdmissionServer:
    """`settings.admission.server` for kopf.

    endpoints: handler id → what it reviews. tls: the port opens once it has a certificate.
    observer: told of every answer.
    """

    def __init__(
        self,
        address: Address,
        endpoints: Mapping[str, Resource],
        tls: ServerTls,
        observer: Observer | None = None,
    ) -> None:
        self._address = address
        self._endpoints = endpoints
        self._tls = tls
        self._observer = observer
        self._webhookfn: kopf.WebhookFn | None = None
        self._opened = asyncio.Event()
        self._port: int | None = None
        self._in_flight = dict.fromkeys((*endpoints, ""), 0)

    @property
    def is_listening(self) -> bool:
        """The port is open and reviews are answered."""
        return self._port is not None and self._webhookfn is not None

    @property
    def port(self) -> int | None:
        """The port that is open, None while none is."""
        return self._port

    async def __call__(self, webhookfn: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
        """Have this function answer from now on; yields once the port is open. It goes on to answer while
        kopf is started anew, until kopf brings another one.
        """
        self._webhookfn = webhookfn
        await self._opened.wait()
        yield kopf.WebhookClientConfig(url=f"https://{self._address.host or 'localhost'}:{self._port}")
        await asyncio.Event().wait()

    def in_flight(self, webhook: str) -> int:
        """Requests to it that are being answered."""
        return self._in_flight[webhook]

    async def run(self) -> None:
        """Serve until cancelled, once there is a certificate. Raises OSError if the port is taken."""
        await self._tls.loaded()
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=timing.REVIEWS_GRACE_SECONDS)
        await runner.setup()
        try:
            host = self._address.host or None
            await web.TCPSite(runner, host, self._address.port, ssl_context=self._tls.context).start()
            self._port = runner.addresses[0][1]
            log.info("webhooks listen on %s port %d", host or "all interfaces", self._port)
            self._opened.set()
            await asyncio.Event().wait()
        finally:
            self._opened.clear()
            self._port = None
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        started = time.perf_counter()
        path = request.path[1:]
        webhook = path if path in self._endpoints else ""
        self._in_flight[webhook] += 1
        decision = "failed"
        try:
            reply = await self._answer(path, request)
            decision = reply.decision
            response = web.Response(body=reply.body, content_type="application/json")
        except _Refused as refused:
            response = web.Response(status=refused.status, text=f"{refused.text}\n", headers=refused.headers)
        finally:
            self._in_flight[webhook] -= 1
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
            raise _Refused(503, "not ready yet: the API server was not reached so far")
        try:
            return await reviewed(self._webhookfn, webhook, resource, await _body(request))
        except BadReview as error:
            raise _Refused(400, str(error)) from error


async def reviewed(webhookfn: kopf.WebhookFn, webhook: str, resource: Resource, body: bytes) -> Answer:
    """The answer to the body of a review; an error in a handler is an answer too. Raises BadReview."""
    review = review_in(body, resource)
    try:
        with collected() as changes:
            response = await webhookfn(cast(Any, _for_kopf(review, webhook)), webhook=webhook)
        obj = review["request"]["object"]
        has_changes = changes and obj is not None and response["response"]["allowed"]
        return answer(review, response, patch_of(obj, changes) if has_changes else ())
    except kopf.AdmissionError as error:
        # Mutations refuse too, and kopf does not see them.
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


async def _body(request: web.Request) -> bytes:
    too_large = _Refused(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    # What announces its size is refused before it is read.
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise too_large
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large from error
    except web.RequestPayloadError as error:
        reason = " ".join(str(error).split())
        raise _Refused(400, f"the body cannot be read: {reason}") from error
