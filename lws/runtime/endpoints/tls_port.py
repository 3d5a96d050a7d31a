"""Limit the clients of a port with TLS, so that they cannot exhaust memory or file descriptors, or keep
others waiting.

A connection with TLS costs 0.4 MB, which glibc keeps: 2,000 at once made a process grow from 75 MB to 930 MB
for good. So a client that has sent nothing costs only a descriptor, and few of the others are served at a
time. Clients that send nothing, or too little for too long, make room for the next.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from lws import timing

# --- TLS contexts of our servers. One SSL context lives as long as its server and presents the newest
# certificate to every new connection.


@dataclass(frozen=True, slots=True)
class TlsPolicy:
    """Requirements for clients.

    minimum_version: TLS 1.2 or 1.3. ciphers: OpenSSL names, for TLS 1.2 only; empty means OpenSSL's default.
    """

    minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: tuple[str, ...] = ()


class ServerTls:
    """The TLS side of a server. No handshake succeeds before the first `install`.

    context: for the server. Raises ssl.SSLError for ciphers that OpenSSL does not know.
    """

    def __init__(self, policy: TlsPolicy) -> None:
        self.context = _context(policy)
        self._loaded = asyncio.Event()

    async def loaded(self) -> None:
        """Return once a certificate has been installed."""
        await self._loaded.wait()

    def install(self, certificate: bytes, key: bytes) -> None:
        """Present this certificate (PEM, leaf first) on new connections; open ones continue.

        Raises ValueError, and keeps the former one, if certificate and key are unreadable or do not match.
        """
        try:
            # A bad file would leave the live context with a certificate and key that do not match.
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
            _load(self.context, certificate, key)
        except ssl.SSLError as error:
            raise ValueError(
                f"certificate and key cannot be used: {error.reason or error}; "
                "both must be PEM, unencrypted, and belong together"
            ) from error
        self._loaded.set()


def _context(policy: TlsPolicy) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = policy.minimum_version
    # Renegotiation costs the server far more than the client.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if policy.ciphers:
        context.set_ciphers(":".join(policy.ciphers))
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with _as_file(certificate) as certificate_path, _as_file(key) as key_path:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate_path, key_path, password="")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path from which OpenSSL can read the content; on Linux no private key is written to disk."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("lws-tls")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        # Only this user can read the directory, and it is deleted right after loading.
        with tempfile.TemporaryDirectory(prefix="lws-tls-") as directory:
            path = Path(directory, "pem")
            path.write_bytes(content)
            yield str(path)


MOST_WAITING = 512
"""Clients that are not served yet. Together with all other open files below the common limit of 1,024."""

_BACKLOG = 128

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Talk:
    """A client that is served. since: when it connected or last got an answer."""

    since: float
    task: asyncio.Task[None] | None = None
    transport: asyncio.Transport | None = None
    is_answered: bool = False
    was_answered: bool = False

    @property
    def is_over(self) -> bool:
        if self.transport is not None:
            return self.transport.is_closing()
        return self.task is None or self.task.done()

    def end(self) -> None:
        """Abort at once: an orderly TLS shutdown with a slow client would take too long."""
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class TlsPort:
    """Opens a port. serve: creates a protocol per client. most: limit of clients served at a time."""

    def __init__(self, serve: Callable[[], asyncio.Protocol], tls: ssl.SSLContext, most: int) -> None:
        self._serve, self._tls, self._most = serve, tls, most
        self._listening: socket.socket | None = None
        self._silent: dict[socket.socket, None] = {}
        self._spoken: list[socket.socket] = []
        self._talks: dict[_Talk, None] = {}
        self._look: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._ended = 0

    @property
    def port(self) -> int:
        """The open port."""
        if self._listening is None:
            raise RuntimeError("the port is not open")
        port: int = self._listening.getsockname()[1]
        return port

    def open(self, host: str | None, port: int) -> None:
        """host: None means every interface. Raises OSError if the port cannot be opened."""
        self._listening = _listening(host, port)
        self._listen(self._listening)

    def close(self) -> None:
        """Accept no more clients and drop those that are not served yet; `serve` handles the others."""
        for timer in (self._look, self._again):
            if timer is not None:
                timer.cancel()
        for sock in (*self._silent, *self._spoken):
            self._forget(sock)
        self._silent.clear()
        self._spoken.clear()
        for talk in self._talks:
            if talk.transport is None:
                talk.end()
        if self._listening is not None:
            self._forget(self._listening)
            self._listening = None

    @contextmanager
    def answering(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """The request is complete and the client waits for the answer: keep its connection meanwhile."""
        talk = next((candidate for candidate in self._talks if candidate.transport is transport), None)
        if talk is None:
            yield
            return
        talk.is_answered = True
        try:
            yield
        finally:
            talk.is_answered, talk.was_answered = False, True
            talk.since = asyncio.get_running_loop().time()

    def _take(self, listening: socket.socket) -> None:
        """Accept one client, so that other callbacks of the loop run in between."""
        loop = asyncio.get_running_loop()
        try:
            sock, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            log.warning("no caller can be accepted at port %d: %s", self.port, error)
            loop.remove_reader(listening)
            self._again = loop.call_later(timing.SLOW_CLIENT_SECONDS, self._listen, listening)
            return
        sock.setblocking(False)
        if len(self._silent) + len(self._spoken) >= MOST_WAITING:
            self._forget_the_oldest()
        self._silent[sock] = None
        loop.add_reader(sock, self._speaks, sock)

    def _listen(self, listening: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listening, self._take, listening)

    def _forget_the_oldest(self) -> None:
        if self._silent:
            sock = next(iter(self._silent))
            del self._silent[sock]
        else:
            sock = self._spoken.pop(0)
        self._forget(sock)

    def _forget(self, sock: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(sock)
        sock.close()

    def _speaks(self, sock: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(sock)
        del self._silent[sock]
        if _has_left(sock):
            sock.close()
            return
        self._spoken.append(sock)
        self._advance()

    def _advance(self) -> None:
        """Serve waiting clients, newest first: if there are too many, the oldest have timed out already."""
        loop = asyncio.get_running_loop()
        if self._look is not None:
            self._look.cancel()
            self._look = None
        while self._spoken and self._has_room(loop.time()):
            talk = _Talk(loop.time())
            self._talks[talk] = None
            talk.task = loop.create_task(self._begin(talk, self._spoken.pop()))
        if self._spoken:
            self._look = loop.call_later(timing.SLOW_CLIENT_CHECK_SECONDS, self._advance)

    def _has_room(self, now: float) -> bool:
        if len(self._talks) < self._most:
            return True
        for talk in [candidate for candidate in self._talks if candidate.is_over]:
            del self._talks[talk]
        if len(self._talks) < self._most:
            return True
        long_ago = now - timing.SLOW_CLIENT_SECONDS
        slow = [
            candidate
            for candidate in self._talks
            if not candidate.is_answered and candidate.since <= long_ago
        ]
        if not slow:
            return False
        # An API server may be about to reuse an idle connection.
        self._end(min(slow, key=lambda candidate: (candidate.was_answered, candidate.since)))
        return True

    def _end(self, slow: _Talk) -> None:
        slow.end()
        del self._talks[slow]
        self._ended += 1
        if self._ended % self._most == 0:
            # Ended connections are reference cycles, 0.5 MB each with half a body, and would stay for long.
            gc.collect()

    async def _begin(self, talk: _Talk, sock: socket.socket) -> None:
        # A client's mistake is not logged as an error.
        with suppress(OSError):
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                self._serve,
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=timing.CLIENT_SECONDS,
                ssl_shutdown_timeout=timing.SLOW_CLIENT_SECONDS,
            )
            talk.transport = transport


def served_by(runner: web.AppRunner) -> Callable[[], asyncio.Protocol]:
    """The protocol factory of an aiohttp application that is set up."""
    if runner.server is None:
        raise RuntimeError("the application is not set up")
    return runner.server


def _has_left(sock: socket.socket) -> bool:
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _listening(host: str | None, port: int) -> socket.socket:
    if host is None and socket.has_dualstack_ipv6():
        family, dual = socket.AF_INET6, True
    else:
        family, dual = socket.AF_INET6 if ":" in (host or "") else socket.AF_INET, False
    sock = socket.create_server((host or "", port), family=family, backlog=_BACKLOG, dualstack_ipv6=dual)
    sock.setblocking(False)
    return sock
