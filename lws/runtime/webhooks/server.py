"""HTTPS server for the API server's admission reviews at /<handler id>.

kopf runs this server in place of its own, which is limited to 1 MiB, answers malformed reviews with 500 and
rejects without a reason.
"""

from __future__ import annotations

import asyncio
import logging
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import kopf
import orjson
from aiohttp import web

from lws import timing
from lws.runtime.client.resources import Resource
from lws.runtime.endpoints.metrics import ReviewSeries
from lws.runtime.endpoints.server import HttpError, Limits, Server
from lws.runtime.endpoints.server_tls import ServerTls
from lws.runtime.webhooks.handlers import Handler, collected, is_mutating, patch_of

# --- Translate admission reviews (admission.k8s.io/v1) for kopf, and kopf's answers for the API server.


_API_VERSION = "admission.k8s.io/v1"
_KIND = "AdmissionReview"
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_REASONS = {403: "Forbidden", 500: "InternalError"}
# kopf records the UID of every UPDATE until its watch reports the deletion, which never happens for kinds
# that it does not watch. Without a UID it records nothing. Managed fields are half of many objects, and no
# rule reads them.
_NOT_FOR_KOPF = frozenset({"uid", "managedFields"})
_LONGEST_MESSAGE = 64 * 1024
"""Maximum length of a message to users. It may show values, and values may have any length."""


class Answer(NamedTuple):
    """The answer to a review. code: 200 if the object is admitted, otherwise the code of the rejection."""

    body: bytes
    code: int

    @property
    def decision(self) -> str:
        """`allowed`, `denied`, or `failed` if a bug prevented a decision."""
        return "allowed" if self.code == 200 else "failed" if self.code == 500 else "denied"


class BadReview(Exception):
    """The request is not a review that this endpoint can answer. The message is one line."""


class MisdirectedReview(BadReview):
    """The request is a review, but not one for this endpoint. A user's write fails because of it."""


def review_in(body: bytes, resource: Resource) -> dict[str, Any]:
    """Parse, check and trim the review of `resource` in the body of a request. Raises BadReview."""
    # A body of fewer bytes cannot have more values.
    if len(body) > MOST_VALUES and sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise BadReview(
            f"the review has more than {MOST_VALUES} values, which would take too long to check: remove some "
            "from the lists and maps of the object"
        )
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"the body is not JSON: {error}") from error
    if not isinstance(review, dict):
        raise BadReview("the body is not a JSON object")
    if review.get("apiVersion") != _API_VERSION or review.get("kind") != _KIND:
        actual = f"{_text(review.get('apiVersion'))} {_text(review.get('kind'))}"
        raise BadReview(f"the body must be an {_API_VERSION} {_KIND}, not {actual}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise BadReview("request must be an object")
    _check(request, resource)
    return {
        **review,
        "request": {
            **request,
            "userInfo": request.get("userInfo") or {},
            "object": _trimmed(request, "object"),
            "oldObject": _trimmed(request, "oldObject"),
        },
    }


def answer(
    review: Mapping[str, Any], response: Mapping[str, Any], patch: Sequence[Mapping[str, Any]] = ()
) -> Answer:
    """Return kopf's response with a JSON Patch; a rejection gets the status reason that clients check."""
    payload = response["response"]
    status = payload.get("status")
    if "warnings" in payload:
        payload = {**payload, "warnings": [_shortened(warning) for warning in payload["warnings"]]}
    if status is None:
        if patch:
            encoded = b64encode(orjson.dumps(patch)).decode()
            payload = {**payload, "patch": encoded, "patchType": "JSONPatch"}
        return Answer(orjson.dumps({**response, "response": payload}), 200)
    code, message = status["code"], status["message"]
    if code == 500:
        message = f"the webhook failed, see the log of the manager: {message}"
    return refusal(review, code, message, payload.get("warnings"))


def refusal(review: Mapping[str, Any], code: int, message: str, warnings: list[str] | None = None) -> Answer:
    """Return an answer that rejects the object with an HTTP status code and a message for the user."""
    status = {"code": code, "message": _shortened(message)}
    if code in _REASONS:
        status["reason"] = _REASONS[code]
    payload = {"uid": review["request"]["uid"], "allowed": False, "status": status}
    if warnings:
        payload["warnings"] = warnings
    body = orjson.dumps({"apiVersion": _API_VERSION, "kind": _KIND, "response": payload})
    return Answer(body, code)


def _check(request: Mapping[str, Any], resource: Resource) -> None:
    uid, operation = request.get("uid"), request.get("operation")
    if not isinstance(uid, str) or not uid:
        raise BadReview("request.uid is missing: an answer must contain it")
    if operation not in _OPERATIONS:
        raise MisdirectedReview(
            f"request.operation must be one of {', '.join(_OPERATIONS)}, not {_text(operation)}"
        )
    expected = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    if request.get("resource") != expected:
        actual = _text(request.get("resource"))
        raise MisdirectedReview(
            f"this endpoint reviews {resource.plural} of {resource.api_version}, not {actual}"
        )
    if not isinstance(request.get("userInfo"), dict | None):
        raise MisdirectedReview("request.userInfo must be an object")
    if request.get("object") is None and request.get("oldObject") is None:
        raise MisdirectedReview("request.object and request.oldObject are both missing")


def _trimmed(request: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    obj = request.get(key)
    if obj is None:
        return None
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        raise MisdirectedReview(f"request.{key} must be an object with metadata")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _NOT_FOR_KOPF}
    if request.get("namespace"):
        metadata.setdefault("namespace", request["namespace"])
    return {**obj, "metadata": metadata}


def _text(value: object) -> str:
    """Return a value as JSON on one line, shortened."""
    return _shortened(orjson.dumps(value).decode(), 200)


def _shortened(text: str, most: int = _LONGEST_MESSAGE) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


MAX_BODY_BYTES = 8 * 1024 * 1024
"""Maximum size of a review: two objects of etcd's maximum size, and room for the rest."""

MOST_VALUES = 250_000
"""Maximum number of values in a review, each comma and opening bracket counted. Two objects of etcd's maximum
size have as many if there are 13 bytes for each; all objects in use have a hundredth.
"""

_LIMITS = Limits(clients=128, waiting=512, body=MAX_BODY_BYTES)
"""An API server keeps 25 idle connections, and opens one for each review that runs: each takes a moment."""

log = logging.getLogger(__name__)


class AdmissionServer:
    """The admission server for kopf (`settings.admission.server`).

    host, port: the address to listen at. An empty host is every interface, port 0 any free port. endpoints:
    the reviewed resource by handler id. tls: the TLS side of the server. The port opens once it has a
    certificate. observer: the series that count every answer.
    """

    def __init__(
        self,
        host: str,
        port: int,
        endpoints: Mapping[str, Resource],
        tls: ServerTls,
        observer: ReviewSeries | None = None,
    ) -> None:
        self._host, self._configured_port = host, port
        self._endpoints = endpoints
        self._tls = tls
        self._observer = observer
        self._webhookfn: kopf.WebhookFn | None = None
        self._opened = asyncio.Event()
        self.port: int | None = None
        """The open port; None while none is open."""
        self._in_flight = dict.fromkeys((*endpoints, ""), 0)
        self._is_closing = False
        self._server: Server | None = None
        self._seconds_at_once = 0.0

    @property
    def is_listening(self) -> bool:
        """Whether the port is open and reviews are answered."""
        return self.port is not None and self._webhookfn is not None

    async def __call__(self, webhookfn: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
        """Answer reviews with this function, and yield once the port is open.

        The function stays in use while kopf restarts, until kopf provides another one.
        """
        self._webhookfn = webhookfn
        await self._opened.wait()
        yield kopf.WebhookClientConfig(url=f"https://{self._host or 'localhost'}:{self.port}")
        await asyncio.Event().wait()

    def in_flight(self, webhook: str) -> int:
        """Return the number of requests to a webhook that are being answered."""
        return self._in_flight[webhook]

    async def run(self) -> None:
        """Wait for a certificate, and serve until cancelled. Raises OSError if the port is taken."""
        await self._tls.loaded.wait()
        routes = [web.route("*", "/{path:.*}", self._serve)]
        server = self._server = Server(routes, _LIMITS, timing.REVIEWS_GRACE_SECONDS, self._tls.context)
        try:
            host = self._host or None
            await server.open(host, self._configured_port)
            self.port = server.port
            log.info("webhooks listen on %s port %d", host or "all interfaces", self.port)
            self._opened.set()
            await asyncio.Event().wait()
        finally:
            self._opened.clear()
            self.port = None
            await server.close()

    async def close_gently(self, seconds: float) -> None:
        """Keep answering for so many seconds, with `Connection: close`. The caller cancels `run` afterwards.

        API servers keep connections for 90 s, and must stop using one before it is closed: a review in flight
        would be lost, because Go's net/http does not retry a POST.
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
        except HttpError as error:
            # Any client may send what is not a review.
            decision = (
                "failed" if error.status == 503 or isinstance(error.__cause__, MisdirectedReview) else ""
            )
            response = error.response()
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
            raise HttpError(404, f"no such webhook; there are /{', /'.join(self._endpoints)}")
        if request.method != "POST":
            raise HttpError(405, f"reviews must be sent by POST, not {request.method}", {"Allow": "POST"})
        if request.content_type != "application/json":
            raise HttpError(400, f"the content type must be application/json, not {request.content_type}")
        if self._webhookfn is None:
            raise HttpError(503, "not ready yet: no connection to the API server so far")
        assert self._server is not None
        async with self._server.received(request) as body, self._turn():
            try:
                return await reviewed(self._webhookfn, webhook, resource, body)
            except BadReview as error:
                raise HttpError(400, str(error)) from error

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Let the event loop run everything else once, if reviews have taken long since it last did."""
        while self._seconds_at_once > timing.REVIEWS_AT_ONCE_SECONDS:
            await asyncio.sleep(0)
        started = time.perf_counter()
        try:
            yield
        finally:
            if not self._seconds_at_once:
                asyncio.get_running_loop().call_soon(self._other_turn)
            self._seconds_at_once += time.perf_counter() - started

    def _other_turn(self) -> None:
        self._seconds_at_once = 0.0


async def reviewed(webhookfn: kopf.WebhookFn, webhook: str, resource: Resource, body: bytes) -> Answer:
    """Answer the body of a review. An error in a handler also gives an answer. Raises BadReview."""
    review = review_in(body, resource)
    try:
        with collected() as changes:
            response = await webhookfn(cast(Any, review), webhook=webhook)
        obj = review["request"]["object"]
        has_changes = changes and obj is not None and response["response"]["allowed"]
        return answer(review, response, patch_of(obj, changes) if has_changes else ())
    except kopf.AdmissionError as error:
        # Mutations run after kopf, and may reject the object too.
        return refusal(review, error.code or 500, str(error))
    except (RecursionError, orjson.JSONEncodeError):
        return refusal(review, 403, "the object has too many levels, or numbers of more than 64 bits")
    except Exception as error:
        log.exception("review at /%s failed", webhook)
        return refusal(review, 500, f"{type(error).__name__} in webhook {webhook}: {error}")


# --- Dispatch reviews to the handlers of kopf's registry and build kopf's response. This replaces kopf's own
# function, which looks up the kind again, compares old and new, and builds 40 arguments for handlers, of
# which ours take four. A review of a pod takes 0.05 ms instead of 0.18 (docs/design/performance.md).


class Dispatcher:
    """Runs the handlers of a registry by their id, in place of kopf's function."""

    def __init__(self, registry: kopf.OperatorRegistry) -> None:
        self._handlers: dict[str, Handler] = {
            # kopf also accepts plain functions, but all of our handlers are coroutines.
            str(handler.id): cast(Handler, handler.fn)
            for handler in registry._webhooks.get_all_handlers()
        }

    async def __call__(self, request: Any, *, webhook: str | None = None, **_: Any) -> Any:
        """Run the handler of a review and return the response. Only rejections by the handler are caught."""
        payload, warnings = request["request"], list[str]()
        status = await self._rejection(webhook or "", payload, warnings)
        response: dict[str, Any] = {"uid": payload["uid"], "allowed": status is None}
        if warnings:
            response["warnings"] = [str(warning) for warning in warnings]
        if status is not None:
            response["status"] = status
        return {"apiVersion": request["apiVersion"], "kind": request["kind"], "response": response}

    async def _rejection(
        self, webhook: str, payload: Mapping[str, Any], warnings: list[str]
    ) -> dict[str, Any] | None:
        """Run the handler. Return the message and code of its rejection; None if it admits the object."""
        if is_mutating(webhook) and payload["operation"] == "DELETE":
            # A deletion changes nothing.
            return None
        new, old = payload["object"], payload["oldObject"]
        namespace = (old if new is None else new)["metadata"].get("namespace")
        if webhook not in self._handlers:
            raise LookupError("no handler answers it while its kind of workload is not served")
        try:
            await self._handlers[webhook](new=new, old=old, namespace=namespace, warnings=warnings)
        except kopf.AdmissionError as error:
            return {"message": str(error), "code": error.code or 500}
        return None


def dispatching(server: AdmissionServer, registry: kopf.OperatorRegistry) -> kopf.WebhookServerProtocol:
    """Return the server for kopf. It opens when kopf is ready, and uses the handlers in kopf's registry."""
    answering = Dispatcher(registry)

    def serve(_: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
        return server(answering)

    return serve
