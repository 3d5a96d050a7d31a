"""The server on loopback, with TLS and without, and clients that are silent, slow or too many for it."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from lws import timing
from lws.config import TlsSettings
from lws.runtime.certificates.serving_certificate import Certificates
from lws.runtime.endpoints.server import MOST_HEADERS, Limits, Server
from lws.runtime.endpoints.server_tls import ServerTls

MOST, OF_ADDRESS, WAITING = 4, 2, 12

STRANGER, KUBELET = "127.0.0.2", "127.0.0.3"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def closed(writer: asyncio.StreamWriter) -> None:
    """Abort the connection without a close message."""
    writer.close()
    writer.transport.abort()


class Callers:
    """The server and its clients."""

    def __init__(self, tls: ServerTls | None, authority: bytes) -> None:
        self.may_answer = asyncio.Event()
        self.asked = 0
        routes = [web.get("/", self._hello), web.get("/slow", self._slow), web.get("/long", self._long)]
        limits = Limits(clients=MOST, waiting=WAITING)
        self.server = Server(routes, limits, 1.0, tls.context if tls is not None else None)
        self.stack = AsyncExitStack()
        self._tls = ssl.create_default_context(cadata=authority.decode()) if tls is not None else None

    async def _hello(self, request: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def _slow(self, request: web.Request) -> web.Response:
        self.asked += 1
        await self.may_answer.wait()
        return web.Response(text="at last")

    async def _long(self, request: web.Request) -> web.Response:
        self.asked += 1
        await self.may_answer.wait()
        return web.Response(body=b"x" * 16_000_000)

    async def silent(self, address: str = STRANGER) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, local_addr=(address, 0))
        self.stack.callback(closed, writer)
        return reader

    async def speaking(self, address: str = STRANGER, text: str = "GET / HTTP/1.1\r\n") -> Connection:
        """Connect, and send a part of a request."""
        async with asyncio.timeout(10):
            name = "127.0.0.1" if self._tls is not None else None
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.server.port, ssl=self._tls, server_hostname=name, local_addr=(address, 0)
            )
        self.stack.callback(closed, writer)
        writer.write(text.encode())
        await writer.drain()
        return reader, writer

    def are_all_slow(self) -> bool:
        """Return whether all connected clients are served, and may be dropped for the next one."""
        long_ago = asyncio.get_running_loop().time() - timing.SLOW_CLIENT_SECONDS
        return not self.server._unserved and all(client.since < long_ago for client in self.server._served)

    async def answered(self, address: str = STRANGER) -> Connection:
        """Connect, get an answer, and stay connected."""
        reader, writer = await self.speaking(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(10):
            assert b"hello" in await reader.readuntil(b"hello")
        return reader, writer

    async def is_answered(self, address: str = STRANGER) -> bool:
        """Report that a new client is answered, and close its connection."""
        _, writer = await self.answered(address)
        closed(writer)
        return True


@pytest.fixture(params=["TLS", "plain"])
async def callers(request: pytest.FixtureRequest, certificates: Certificates) -> AsyncIterator[Callers]:
    tls = ServerTls(TlsSettings()) if request.param == "TLS" else None
    if tls is not None:
        tls.install(certificates.server.certificate, certificates.server.key)
    callers = Callers(tls, certificates.authority.certificate)
    await callers.server.open("127.0.0.1", 0)
    try:
        async with callers.stack:
            yield callers
    finally:
        await callers.server.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop slow clients at once if others wait."""
    monkeypatch.setattr(timing, "SLOW_CLIENT_SECONDS", 1e-6)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never drop a slow client."""
    monkeypatch.setattr(timing, "SLOW_CLIENT_SECONDS", 3600.0)
    monkeypatch.setattr(timing, "CLIENT_SECONDS", 3600.0)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait until the server ends the connection."""
    async with asyncio.timeout(10):
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass


@pytest.mark.usefixtures("patient")
async def test_silent_connections_do_not_use_up_the_limit(callers: Callers) -> None:
    for _ in range(5 * MOST):
        await callers.silent()
    assert await callers.is_answered()


@pytest.mark.usefixtures("impatient")
async def test_slow_connections_are_closed_for_new_ones(callers: Callers) -> None:
    slow = [await callers.speaking() for _ in range(OF_ADDRESS)]
    assert await callers.is_answered()
    await ended(slow[0][0])


async def test_half_a_request_is_dropped_even_if_nobody_waits(
    callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "CLIENT_SECONDS", 1.0)
    reader, _ = await callers.speaking()
    await ended(reader)
    assert not callers.server._served


async def test_half_a_second_request_is_dropped(callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "IDLE_CLIENT_SECONDS", 0.2)
    reader, writer = await callers.answered()
    writer.write(b"GET / HTTP/1.1\r\nHost:")
    await ended(reader)


async def test_a_client_that_does_not_read_its_answer_is_dropped(
    callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, writer = await callers.speaking(text="GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await until(lambda: callers.asked == 1)
    monkeypatch.setattr(timing, "CLIENT_SECONDS", 0.2)
    callers.may_answer.set()
    await until(lambda: not callers.server._served)


@pytest.mark.usefixtures("patient")
async def test_a_new_connection_waits_for_a_free_slot(callers: Callers) -> None:
    others = [await callers.speaking() for _ in range(OF_ADDRESS)]
    waiting = asyncio.create_task(callers.is_answered())
    await asyncio.wait([waiting], timeout=3 * timing.SLOW_CLIENT_CHECK_SECONDS)
    assert not waiting.done()
    closed(others[0][1])
    assert await waiting


@pytest.mark.usefixtures("impatient")
async def test_connections_with_a_pending_answer_are_not_closed(callers: Callers) -> None:
    reader, _ = await callers.speaking(text="GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    await until(lambda: callers.asked == 1)
    for _ in range(3 * MOST):
        assert await callers.is_answered()
    callers.may_answer.set()
    async with asyncio.timeout(10):
        assert b"at last" in await reader.readuntil(b"at last")
    # Clients that were never answered are dropped before a client that was answered once.
    for _ in range(3 * MOST):
        await callers.speaking()
        await until(callers.are_all_slow)
    assert not reader.at_eof()


@pytest.mark.usefixtures("impatient")
async def test_answered_connections_are_closed_for_new_ones(callers: Callers) -> None:
    for _ in range(OF_ADDRESS):
        await callers.answered()
    assert await callers.is_answered()


@pytest.mark.usefixtures("patient")
async def test_a_stranger_does_not_take_all_slots(callers: Callers) -> None:
    for _ in range(2 * MOST):
        asyncio.ensure_future(callers.speaking()).add_done_callback(lambda task: task.exception())
    await until(lambda: len(callers.server._waiting) == 2 * MOST - OF_ADDRESS)
    assert await callers.is_answered(KUBELET)


@pytest.mark.usefixtures("impatient")
async def test_the_slow_clients_of_a_greedy_address_are_closed_first(callers: Callers) -> None:
    """Even one that was answered, before a client of another address that was not."""
    probing, _ = await callers.speaking(KUBELET)
    greedy = [await callers.answered() for _ in range(OF_ADDRESS)]
    for _ in range(3 * MOST):
        assert await callers.is_answered()
    assert not probing.at_eof()
    await ended(greedy[0][0])


@pytest.mark.usefixtures("patient")
async def test_the_address_with_the_fewest_clients_is_served_first(callers: Callers) -> None:
    addresses = (STRANGER, STRANGER, "127.0.0.4", "127.0.0.5")
    strangers = [await callers.speaking(address) for address in addresses]
    await until(lambda: len(callers.server._served) == MOST)
    waiting = callers.server._waiting
    probe = asyncio.create_task(callers.is_answered(KUBELET))
    await until(lambda: len(waiting) == 1)
    newer = [asyncio.create_task(callers.is_answered()) for _ in range(3)]
    await until(lambda: len(waiting) == 1 + len(newer))
    closed(strangers[-1][1])
    async with asyncio.timeout(10):
        assert await probe
    assert not any(task.done() for task in newer)
    for _, writer in strangers:
        closed(writer)
    async with asyncio.timeout(10):
        await asyncio.gather(*newer)


@pytest.mark.usefixtures("patient")
async def test_of_too_many_waiting_connections_the_oldest_of_the_greediest_is_closed(
    callers: Callers,
) -> None:
    kubelet = await callers.silent(KUBELET)
    waiting = [await callers.silent() for _ in range(WAITING)]
    await ended(waiting[0])
    assert not any(reader.at_eof() for reader in (kubelet, *waiting[1:]))


@pytest.mark.usefixtures("patient")
async def test_closed_connections_are_forgotten(callers: Callers) -> None:
    for _ in range(3 * MOST):
        _, writer = await asyncio.open_connection("127.0.0.1", callers.server.port)
        writer.close()
    assert await callers.is_answered()
    assert len(callers.server._served) == 1


@pytest.mark.usefixtures("patient")
async def test_a_failed_handshake_or_request_frees_its_slot(callers: Callers) -> None:
    for _ in range(3 * MOST):
        reader, writer = await asyncio.open_connection("127.0.0.1", callers.server.port)
        writer.write(b"\x00\x01\r\n\r\n")
        await ended(reader)
        writer.close()
    assert await callers.is_answered()


async def test_requests_with_too_many_headers_are_refused(callers: Callers) -> None:
    fields = "".join(f"X-{index}: y\r\n" for index in range(MOST_HEADERS + 1))
    reader, _ = await callers.speaking(text=f"GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
    async with asyncio.timeout(10):
        assert (await reader.readline()).split()[1] == b"400"


@pytest.mark.usefixtures("patient")
async def test_addresses_that_keep_sending_requests_do_not_shut_out_another(callers: Callers) -> None:
    """None of them is ever slow."""
    for address in (STRANGER, STRANGER, "127.0.0.4", "127.0.0.5"):
        await callers.answered(address)
    assert len(callers.server._served) == MOST
    assert await callers.is_answered(KUBELET)


async def test_closing_the_port_drops_waiting_connections(callers: Callers) -> None:
    waiting = await callers.silent()
    await until(lambda: bool(callers.server._unserved))
    await callers.server.close()
    await ended(waiting)


@pytest.mark.usefixtures("impatient")
async def test_the_port_recovers_from_too_many_open_files(
    callers: Callers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [OSError(errno.EMFILE, "Too many open files")]
    accept = socket.socket.accept

    def full_at_first(listening: socket.socket) -> tuple[socket.socket, object]:
        if errors:
            raise errors.pop()
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", full_at_first)
    assert await callers.is_answered()
    assert "Too many open files" in caplog.text


@pytest.mark.parametrize("host", [None, "127.0.0.1", "localhost"])
async def test_hosts(host: str | None) -> None:
    server = Server([], Limits(clients=MOST, waiting=WAITING), 1.0)
    await server.open(host, 0)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.close()
    await server.close()
