"""The TLS port on loopback, with two slots, and clients that are silent, slow or too many."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from lws import timing
from lws.config import TlsSettings
from lws.runtime.certificates.serving_certificate import Certificates
from lws.runtime.endpoints import tls_port
from lws.runtime.endpoints.tls_port import ServerTls, TlsPort

MOST = 2


class Echo(asyncio.Protocol):
    """A protocol that sends back what it receives."""

    def __init__(self, transports: list[asyncio.BaseTransport]) -> None:
        self._transports = transports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transports.append(transport)

    def data_received(self, data: bytes) -> None:
        transport = self._transports[-1]
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(data)


def closed(writer: asyncio.StreamWriter) -> None:
    """Abort the connection without a close message."""
    writer.close()
    writer.transport.abort()


class Callers:
    """The port and its clients."""

    def __init__(self, port: TlsPort, authority: bytes, served: list[asyncio.BaseTransport]) -> None:
        self.port, self.served = port, served
        self.stack = AsyncExitStack()
        self._tls = ssl.create_default_context(cadata=authority.decode())

    async def silent(self) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port.port)
        self.stack.callback(writer.close)
        return reader

    async def speaking(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port.port, ssl=self._tls)
        self.stack.callback(closed, writer)
        return reader, writer

    async def connection(self, index: int) -> asyncio.BaseTransport:
        """Return the transport of a client once the port knows it, which is a moment after it is served."""
        await until(lambda: len(self.served) > index)
        transport = self.served[index]
        await until(lambda: any(connection.transport is transport for connection in self.port._served))
        return transport

    async def is_answered(self) -> bool:
        """Report whether a new client is answered, and close its connection."""
        async with asyncio.timeout(10):
            reader, writer = await self.speaking()
            writer.write(b"hello")
            answer = await reader.readexactly(5)
            closed(writer)
            return answer == b"hello"


@pytest.fixture
async def callers(certificates: Certificates) -> AsyncIterator[Callers]:
    tls = ServerTls(TlsSettings())
    tls.install(certificates.server.certificate, certificates.server.key)
    served: list[asyncio.BaseTransport] = []
    port = TlsPort(lambda: Echo(served), tls.context, MOST)
    port.open("127.0.0.1", 0)
    result = Callers(port, certificates.authority.certificate, served)
    try:
        async with result.stack:
            yield result
    finally:
        port.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop slow clients at once."""
    monkeypatch.setattr(timing, "SLOW_CLIENT_SECONDS", 1e-6)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never drop a slow client."""
    monkeypatch.setattr(timing, "SLOW_CLIENT_SECONDS", 3600.0)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


@pytest.mark.usefixtures("patient")
async def test_silent_connections_do_not_use_up_the_limit(callers: Callers) -> None:
    for _ in range(5 * MOST):
        await callers.silent()
    assert await callers.is_answered()


@pytest.mark.usefixtures("impatient")
async def test_slow_connections_are_closed_for_new_ones(callers: Callers) -> None:
    slow = [await callers.speaking() for _ in range(MOST)]
    assert await callers.is_answered()
    async with asyncio.timeout(10):
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await slow[0][0].readexactly(1)


@pytest.mark.usefixtures("patient")
async def test_a_new_connection_waits_for_a_free_slot(callers: Callers) -> None:
    others = [await callers.speaking() for _ in range(MOST)]
    waiting = asyncio.create_task(callers.is_answered())
    await asyncio.wait([waiting], timeout=3 * timing.SLOW_CLIENT_CHECK_SECONDS)
    assert not waiting.done()
    closed(others[0][1])
    assert await waiting


@pytest.mark.usefixtures("impatient")
async def test_connections_with_a_pending_answer_are_not_closed(callers: Callers) -> None:
    speaking = await callers.speaking()
    with callers.port.answering(await callers.connection(0)):
        for _ in range(3 * MOST):
            assert await callers.is_answered()
    # Clients that were never answered are dropped before a client that was answered once.
    for _ in range(3 * MOST):
        await callers.speaking()
    assert not callers.served[0].is_closing()
    speaking[1].close()


@pytest.mark.usefixtures("impatient")
async def test_answered_connections_are_closed_for_new_ones(callers: Callers) -> None:
    for index in range(MOST):
        await callers.speaking()
        with callers.port.answering(await callers.connection(index)):
            pass
    assert await callers.is_answered()


@pytest.mark.usefixtures("patient")
async def test_the_oldest_of_too_many_waiting_connections_is_closed(
    callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_port, "MOST_WAITING", 3)
    waiting = [await callers.silent() for _ in range(4)]
    async with asyncio.timeout(10):
        assert await waiting[0].read() == b""
    assert not any(reader.at_eof() for reader in waiting[1:])


@pytest.mark.usefixtures("patient")
async def test_closed_connections_are_forgotten(callers: Callers) -> None:
    for _ in range(3 * MOST):
        _, writer = await asyncio.open_connection("127.0.0.1", callers.port.port)
        writer.close()
    assert await callers.is_answered()
    assert len(callers.served) == 1


@pytest.mark.usefixtures("patient")
async def test_a_failed_handshake_frees_its_slot(callers: Callers) -> None:
    for _ in range(3 * MOST):
        reader, writer = await asyncio.open_connection("127.0.0.1", callers.port.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(10):
            await reader.read()
        writer.close()
    assert await callers.is_answered()


async def test_closing_the_port_drops_waiting_connections(callers: Callers) -> None:
    waiting = await callers.silent()
    await until(lambda: bool(callers.port._silent))
    callers.port.close()
    async with asyncio.timeout(10):
        assert await waiting.read() == b""


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
async def test_hosts(certificates: Certificates, host: str | None) -> None:
    tls = ServerTls(TlsSettings())
    tls.install(certificates.server.certificate, certificates.server.key)
    port = TlsPort(asyncio.Protocol, tls.context, MOST)
    port.open(host, 0)
    _, writer = await asyncio.open_connection("127.0.0.1", port.port)
    writer.close()
    port.close()
