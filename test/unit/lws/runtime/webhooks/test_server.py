"""The webhook server on loopback through TLS, with stand-ins for kopf's function.

Its use of memory is tested with kopf's own function.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import io
import json
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import kopf
import pytest

from lws import timing
from lws.config import TlsSettings, load
from lws.leaderworkerset import registration as admission
from lws.leaderworkerset.registration import MUTATE_POD, VALIDATE_POD, handlers
from lws.leaderworkerset.tables import TABLES
from lws.runtime.certificates.serving_certificate import Certificates
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import LEADERWORKERSETS, PODS
from lws.runtime.endpoints.server_tls import ServerTls
from lws.runtime.store import Store
from lws.runtime.webhooks.handlers import register
from lws.runtime.webhooks.server import MAX_BODY_BYTES, AdmissionServer, reviewed

JSON = {"Content-Type": "application/json"}
ENDPOINTS = {"mutate--v1-pod": PODS, "validate-sets": LEADERWORKERSETS}


def review(**request: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "review-1",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "userInfo": {},
            "object": {"metadata": {"name": "set-0"}},
            **request,
        },
    }


class Kopf:
    """A stand-in for kopf's function that records reviews, and answers or raises as told."""

    def __init__(self) -> None:
        self.reviews: list[tuple[str, Mapping[str, Any]]] = []
        self.error: BaseException | None = None

    async def __call__(self, request: Any, *, webhook: str | None = None, **_: Any) -> Any:
        self.reviews.append((webhook or "", request))
        if self.error is not None:
            raise self.error
        return {
            "apiVersion": request["apiVersion"],
            "kind": request["kind"],
            "response": {"uid": request["request"]["uid"], "allowed": True},
        }


class Observer:
    """A recorder of counts."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, int, str]] = []

    def answered(self, webhook: str, code: int, seconds: float, decision: str) -> None:
        assert 0 < seconds < 60
        self.answers.append((webhook, code, decision))


class Running:
    """A running server, and a client that trusts it."""

    def __init__(self, server: AdmissionServer, tls: ServerTls, kopf_function: Kopf) -> None:
        self.server, self.tls, self.kopf = server, tls, kopf_function
        self.answers: list[tuple[str, int, str]] = []
        self.session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"

    async def post(self, path: str = "/mutate--v1-pod", **options: Any) -> tuple[int, str]:
        async with self.session.post(self.url + path, **options) as response:
            return response.status, await response.text()


def trusting(authority: bytes) -> aiohttp.ClientSession:
    context = ssl.create_default_context(cadata=authority.decode())
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


@pytest.fixture
async def running(certificates: Certificates) -> AsyncIterator[Running]:
    tls = ServerTls(TlsSettings())
    tls.install(certificates.server.certificate, certificates.server.key)
    observer = Observer()
    server = AdmissionServer("127.0.0.1", 0, ENDPOINTS, tls, observer)
    up = Running(server, tls, Kopf())
    up.answers = observer.answers
    async with (
        opened(server),
        aclosing(server(up.kopf)) as configurations,
        trusting(certificates.authority.certificate) as session,
    ):
        up.session = session
        await anext(configurations)
        yield up


@asynccontextmanager
async def opened(server: AdmissionServer) -> AsyncIterator[None]:
    """Run the server."""
    serving = asyncio.create_task(server.run())
    try:
        yield
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_the_port_opens_once_there_is_a_certificate(certificates: Certificates) -> None:
    tls = ServerTls(TlsSettings())
    server = AdmissionServer("127.0.0.1", 0, ENDPOINTS, tls)
    async with opened(server), aclosing(server(Kopf())) as configurations:
        starting = asyncio.ensure_future(anext(configurations))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not starting.done()
        assert (server.is_listening, server.port) == (False, None)

        tls.install(certificates.server.certificate, certificates.server.key)
        configuration = await starting
        port = server.port
        assert server.is_listening
        assert configuration == {"url": f"https://127.0.0.1:{port}"}

    assert not server.is_listening
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_reviews_are_answered_while_kopf_restarts(running: Running) -> None:
    """Pods are created while kopf restarts after an error, and each of them is reviewed."""
    former, latter = Kopf(), Kopf()
    is_up = asyncio.Event()

    async def as_kopf_does() -> None:
        async for _ in running.server(former):
            is_up.set()

    serving = asyncio.create_task(as_kopf_does())
    await asyncio.wait_for(is_up.wait(), 60)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert running.server.is_listening
    assert (await running.post(json=review()))[0] == 200 and len(former.reviews) == 1
    async with aclosing(running.server(latter)) as configurations:
        await anext(configurations)
        assert (await running.post(json=review()))[0] == 200
    assert (len(former.reviews), len(latter.reviews)) == (1, 1)


async def test_connections_are_drained_before_the_port_closes(running: Running) -> None:
    """A review that is sent on a closing connection is lost, because Go's net/http does not retry a POST."""

    async def closes() -> bool:
        async with running.session.post(f"{running.url}/mutate--v1-pod", json=review()) as response:
            assert response.status == 200
            return response.headers.get("Connection") == "close"

    assert [await closes(), await closes()] == [False, False]
    closing = asyncio.create_task(running.server.close_gently(3600))
    await asyncio.sleep(0)
    # The first one uses the existing connection, the others use new ones.
    assert [await closes(), await closes(), await closes()] == [True, True, True]
    async with running.session.post(f"{running.url}/nothing", json={}) as response:
        assert (response.status, response.headers.get("Connection")) == (404, "close")
    assert not closing.done()
    closing.cancel()


async def test_a_port_that_never_opened_closes_at_once() -> None:
    server = AdmissionServer("127.0.0.1", 0, ENDPOINTS, ServerTls(TlsSettings()))
    await asyncio.wait_for(server.close_gently(3600), 60)


async def test_reviews_before_kopf_runs_are_refused_with_a_reason(running: Running) -> None:
    server = AdmissionServer("127.0.0.1", 0, ENDPOINTS, running.tls)
    async with opened(server):
        while server.port is None:
            await asyncio.sleep(0)
        assert not server.is_listening
        url = f"https://127.0.0.1:{server.port}/mutate--v1-pod"
        async with running.session.post(url, json=review()) as response:
            assert (response.status, await response.text()) == (
                503,
                "not ready yet: no connection to the API server so far\n",
            )


async def test_a_port_in_use_is_an_error(running: Running) -> None:
    assert running.server.port is not None
    server = AdmissionServer("127.0.0.1", running.server.port, ENDPOINTS, running.tls)
    with pytest.raises(OSError, match=r"(?i)address already in use"):
        await server.run()
    assert not server.is_listening


async def test_a_review_is_passed_to_kopf_and_its_answer_to_the_caller(running: Running) -> None:
    status, text = await running.post(json=review())
    assert status == 200
    assert json.loads(text) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "review-1", "allowed": True},
    }
    assert [(webhook, seen["request"]["uid"]) for webhook, seen in running.kopf.reviews] == [
        ("mutate--v1-pod", "review-1")
    ]
    assert running.answers == [("mutate--v1-pod", 200, "allowed")]


async def test_query_and_charset_do_not_matter(running: Running) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    status, _ = await running.post("/mutate--v1-pod?timeout=10s", data=json.dumps(review()), headers=headers)
    assert status == 200


async def test_a_large_legal_object_is_served(running: Running) -> None:
    metadata = {"name": "set-0", "annotations": {"blob": "x" * 1_000_000}}
    obj = {"metadata": metadata}
    body = io.BytesIO(json.dumps(review(object=obj, oldObject=obj)).encode())
    assert (await running.post(data=body, headers=JSON))[0] == 200
    assert running.kopf.reviews[0][1]["request"]["object"]["metadata"] == metadata


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "x"])
async def test_compressed_bodies_are_rejected_unread(running: Running, encoding: str) -> None:
    bomb = gzip.compress(b" " * (MAX_BODY_BYTES + 1))
    headers = {**JSON, "Content-Encoding": encoding}
    async with running.session.post(f"{running.url}/mutate--v1-pod", data=bomb, headers=headers) as response:
        text = await response.text()
        assert (response.status, response.headers["Accept-Encoding"]) == (415, "identity")
    assert text == "the body must not be compressed: send it without Content-Encoding\n"
    assert running.kopf.reviews == [] and running.answers == [("mutate--v1-pod", 415, "")]


async def test_a_body_may_say_that_it_is_not_compressed(running: Running) -> None:
    headers = {**JSON, "Content-Encoding": "identity"}
    assert (await running.post(data=json.dumps(review()), headers=headers))[0] == 200


def chunks(size: int) -> Callable[[], AsyncIterator[bytes]]:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(size // 65536):
            yield b" " * 65536

    return body


async def test_too_large_bodies_are_rejected_with_and_without_content_length(running: Running) -> None:
    refused = (413, f"the body is larger than {MAX_BODY_BYTES} bytes\n")
    assert await running.post(data=io.BytesIO(b" " * (MAX_BODY_BYTES + 1)), headers=JSON) == refused
    assert await running.post(data=chunks(MAX_BODY_BYTES + 65536)(), headers=JSON) == refused
    # The largest accepted body is read, and fails only because it is not JSON.
    assert (await running.post(data=io.BytesIO(b" " * MAX_BODY_BYTES), headers=JSON))[0] == 400
    assert running.kopf.reviews == []


async def test_a_body_with_a_too_large_content_length_is_rejected_unread(
    running: Running, certificates: Certificates
) -> None:
    context = ssl.create_default_context(cadata=certificates.authority.certificate.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port, ssl=context)
    headers = f"Host: x\r\nContent-Type: application/json\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n"
    writer.write(f"POST /mutate--v1-pod HTTP/1.1\r\n{headers}\r\n".encode())
    status_line = await asyncio.wait_for(reader.readline(), 60)
    assert status_line.startswith(b"HTTP/1.1 413 ")
    writer.transport.abort()


@pytest.mark.parametrize(
    ("path", "options", "expected"),
    [
        (
            "/nowhere",
            {"json": review()},
            (404, "no such webhook; there are /mutate--v1-pod, /validate-sets\n"),
        ),
        ("/", {"json": review()}, (404, "no such webhook; there are /mutate--v1-pod, /validate-sets\n")),
        ("/mutate--v1-pod", {"data": b"{", "headers": JSON}, (400, "the body is not JSON: ")),
        ("/mutate--v1-pod", {"data": b"", "headers": JSON}, (400, "the body is not JSON: ")),
        (
            "/mutate--v1-pod",
            {"data": b"{}", "headers": {"Content-Type": "text/plain"}},
            (400, "the content type must be application/json, not text/plain\n"),
        ),
        (
            "/mutate--v1-pod",
            {"data": b"{}"},
            (400, "the content type must be application/json, not application/octet-stream\n"),
        ),
        ("/mutate--v1-pod", {"json": {"kind": "Pod"}}, (400, "the body must be an admission.k8s.io/v1 ")),
        ("/validate-sets", {"json": review()}, (400, "this endpoint reviews leaderworkersets of ")),
    ],
    ids=[
        "unknown path",
        "root",
        "not JSON",
        "empty",
        "text",
        "no content type",
        "no review",
        "review of another kind",
    ],
)
async def test_bad_requests_have_a_reason(
    running: Running, path: str, options: dict[str, Any], expected: tuple[int, str]
) -> None:
    status, text = await running.post(path, **options)
    assert (status, text[: len(expected[1])]) == expected
    assert text.count("\n") == 1
    assert running.kopf.reviews == []
    decision = "failed" if text.startswith("this endpoint reviews") else ""
    assert running.answers == [(path[1:] if path[1:] in ENDPOINTS else "", status, decision)]
    assert (await running.post(json=review()))[0] == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods_are_405(running: Running, method: str) -> None:
    async with running.session.request(method, f"{running.url}/mutate--v1-pod") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"
        assert await response.text() == f"reviews must be sent by POST, not {method}\n"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (
            kopf.AdmissionError("size annotation is missing", code=403),
            {"code": 403, "reason": "Forbidden", "message": "size annotation is missing"},
        ),
        (
            KeyError("spec"),
            {"code": 500, "reason": "InternalError", "message": "KeyError in webhook mutate--v1-pod: 'spec'"},
        ),
        (
            RecursionError("too deep"),
            {
                "code": 403,
                "reason": "Forbidden",
                "message": "the object has too many levels, or numbers of more than 64 bits",
            },
        ),
    ],
    ids=["refusal", "crash", "recursion"],
)
async def test_errors_outside_kopf_are_answered(
    running: Running, error: Exception, status: dict[str, Any]
) -> None:
    running.kopf.error = error
    code, text = await running.post(json=review())
    assert code == 200
    assert json.loads(text)["response"] == {"uid": "review-1", "allowed": False, "status": status}
    decision = "denied" if status["code"] == 403 else "failed"
    assert running.answers == [("mutate--v1-pod", 200, decision)]
    running.kopf.error = None
    assert (await running.post(json=review()))[0] == 200


async def test_callers_that_disconnect_cause_no_error(running: Running, certificates: Certificates) -> None:
    context = ssl.create_default_context(cadata=certificates.authority.certificate.decode())
    for sent in (
        b"",
        b"POST /mutate--v1-pod HTTP/1.1\r\nContent-Length: 99\r\n\r\n{",
        b"\x00\x01\x02\r\n\r\n",
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", running.server.port, ssl=context)
        writer.write(sent)
        await writer.drain()
        writer.transport.abort()
    # A connection without TLS.
    with socket.create_connection(("127.0.0.1", running.server.port or 0)) as plain:
        plain.sendall(b"POST / HTTP/1.1\r\n\r\n")
    assert (await running.post(json=review()))[0] == 200
    assert running.server.in_flight("mutate--v1-pod") == 0


async def test_reviews_in_flight_are_counted_and_finished(running: Running) -> None:
    entered, may_leave = asyncio.Event(), asyncio.Event()
    answer = running.kopf.__call__

    async def slow(request: Any, **options: Any) -> Any:
        entered.set()
        await may_leave.wait()
        return await answer(request, **options)

    server = AdmissionServer("127.0.0.1", 0, ENDPOINTS, running.tls)
    serving = asyncio.create_task(server.run())
    await anext(server(slow))
    call = asyncio.create_task(
        running.session.post(f"https://127.0.0.1:{server.port}/mutate--v1-pod", json=review())
    )
    await asyncio.wait_for(entered.wait(), 60)
    assert server.in_flight("mutate--v1-pod") == 1
    serving.cancel()
    await asyncio.sleep(0)
    may_leave.set()
    async with await call as response:
        assert response.status == 200
    await asyncio.gather(serving, return_exceptions=True)
    assert server.in_flight("mutate--v1-pod") == 0


async def test_other_tasks_run_between_reviews_that_take_long(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many have arrived at once."""
    monkeypatch.setattr(timing, "REVIEWS_AT_ONCE_SECONDS", 0.0)
    order: list[str] = []

    async def review_once() -> None:
        async with running.server._turn():
            order.append("review")

    async def others() -> None:
        while order.count("review") < 5:
            order.append("others")
            await asyncio.sleep(0)

    await asyncio.gather(*(review_once() for _ in range(5)), others())
    turns = " ".join(order).split("others")
    assert max(turn.count("review") for turn in turns) == 1, order


async def test_long_messages_are_shortened(running: Running) -> None:
    running.kopf.error = kopf.AdmissionError("x" * 1_000_000, code=403)
    _, text = await running.post(json=review())
    assert json.loads(text)["response"]["status"]["message"] == "x" * 65536 + "…"


async def test_a_new_certificate_is_served_without_a_restart(
    running: Running, certificates: Certificates, other_certificates: Certificates
) -> None:
    assert (await running.post(json=review()))[0] == 200
    running.tls.install(other_certificates.server.certificate, other_certificates.server.key)
    # The open connection still works.
    assert (await running.post(json=review()))[0] == 200
    async with trusting(other_certificates.authority.certificate) as session:
        running.session, before = session, running.session
        assert (await running.post(json=review()))[0] == 200
        running.session = before
    async with trusting(certificates.authority.certificate) as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.post(f"{running.url}/mutate--v1-pod", json=review())


WireKopf = Callable[[kopf.OperatorRegistry], tuple[kopf.WebhookFn, Any]]


@pytest.mark.parametrize(
    ("webhook", "operation"), [(VALIDATE_POD, "UPDATE"), (MUTATE_POD, "CREATE")], ids=["update", "create"]
)
async def test_reviews_do_not_leak_memory(wire_kopf: WireKopf, webhook: str, operation: str) -> None:
    registry = kopf.OperatorRegistry()
    settings = load(None, {}, {}, namespace_file=Path("there-is-none"))
    store = Store(lambda before, after: None, TABLES)
    register(registry, admission.ENDPOINTS, handlers(settings, store, cast(Cluster, None)))
    serve, memories = wire_kopf(registry)

    async def answer(count: int) -> None:
        for index in range(count):
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "set-0", "uid": f"{count}-{index}"},
            }
            body = json.dumps(review(operation=operation, object=pod, uid=f"review-{index}")).encode()
            assert b'"allowed":true' in (await reviewed(serve, webhook, PODS, body)).body

    async def growth() -> int:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        await answer(60)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    await answer(30)
    # Existing objects are not scanned at each collection.
    gc.collect()
    gc.freeze()
    tracemalloc.start()
    # A cache grows once; a leak grows every time.
    least = min([await growth() for _ in range(3)])
    tracemalloc.stop()
    assert least < 2_400
    assert len(list(memories.iter_all_memories())) <= 1
