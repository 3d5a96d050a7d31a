"""Limit the clients of a TLS port, so that they cannot exhaust memory or file descriptors, or block others.

A TLS connection costs 0.4 MB, which glibc keeps: 2,000 at once made a process grow from 75 MB to 930 MB for
good. So a client that has sent nothing gets no TLS connection yet, and only a limited number of the other
clients are served at a time. Clients that send nothing, or too little for too long, are dropped if others
wait.
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
from lws.config import TlsSettings

# --- TLS contexts of our servers. One SSL context lives as long as its server and presents the newest
# certificate to every new connection.


class ServerTls:
    """The TLS side of a server. No handshake succeeds before the first `install`.

    Raises ssl.SSLError for ciphers that OpenSSL does not know.
    """

    def __init__(self, policy: TlsSettings) -> None:
        self.context = _context(policy)
        self.loaded = asyncio.Event()
        """Set once a certificate has been installed."""

    def install(self, certificate: bytes, key: bytes) -> None:
        """Present this certificate (PEM, leaf first) on new connections. Open connections continue.

        Raises ValueError, and keeps the former one, if certificate and key are unreadable or do not match.
        """
        try:
            # Loaded into another context first: a bad file would leave the live context with a certificate
            # and key that do not match.
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
            _load(self.context, certificate, key)
        except ssl.SSLError as error:
            raise ValueError(
                f"certificate and key cannot be used: {error.reason or error}; "
                "both must be PEM, unencrypted, and belong together"
            ) from error
        self.loaded.set()


def _context(policy: TlsSettings) -> ssl.SSLContext:
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
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate_path, key_path, password="")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path from which OpenSSL can read the content. On Linux, private keys never reach a disk."""
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
"""Maximum number of clients not served yet: with all open files, below the common 1,024 descriptors."""

_BACKLOG = 128

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Client:
    """A client that is served.

    since: when it connected or last got an answer. was_answered: whether it got an answer before.
    """

    since: float
    task: asyncio.Task[None] | None = None
    transport: asyncio.Transport | None = None
    is_waiting: bool = False
    was_answered: bool = False

    @property
    def is_over(self) -> bool:
        if self.transport is not None:
            return self.transport.is_closing()
        return self.task is None or self.task.done()

    def end(self) -> None:
        """Abort at once, because an orderly TLS shutdown with a slow client would take too long."""
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class TlsPort:
    """A TLS port that serves at most `most` clients at a time, each by a protocol that `serve` creates."""

    def __init__(self, serve: Callable[[], asyncio.Protocol], tls: ssl.SSLContext, most: int) -> None:
        self._serve, self._tls, self._most = serve, tls, most
        self._listening: socket.socket | None = None
        # Clients that have sent nothing, oldest first.
        self._silent: dict[socket.socket, None] = {}
        # Clients that have sent something and wait to be served, oldest first.
        self._waiting: list[socket.socket] = []
        self._served: dict[_Client, None] = {}
        self._check: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._dropped = 0

    @property
    def port(self) -> int:
        if self._listening is None:
            raise RuntimeError("the port is not open")
        port: int = self._listening.getsockname()[1]
        return port

    def open(self, host: str | None, port: int) -> None:
        """Open the port of a host name or IP address, or of every interface. Raises OSError if that fails."""
        self._listening = _listening(host, port)
        self._listen(self._listening)

    def close(self) -> None:
        """Accept no more clients and drop those that are not served yet. Protocols end the served ones."""
        for timer in (self._check, self._retry):
            if timer is not None:
                timer.cancel()
        for sock in (*self._silent, *self._waiting):
            self._close(sock)
        self._silent.clear()
        self._waiting.clear()
        for client in self._served:
            if client.transport is None:
                client.end()
        if self._listening is not None:
            self._close(self._listening)
            self._listening = None

    @contextmanager
    def answering(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """Keep the connection of a client while its complete request is being answered."""
        client = next((client for client in self._served if client.transport is transport), None)
        if client is None:
            yield
            return
        client.is_waiting = True
        try:
            yield
        finally:
            client.is_waiting, client.was_answered = False, True
            client.since = asyncio.get_running_loop().time()

    def _take(self, listening: socket.socket) -> None:
        """Accept a single client, so that other callbacks of the event loop run in between."""
        loop = asyncio.get_running_loop()
        try:
            sock, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            log.warning("cannot accept clients on port %d: %s", self.port, error)
            loop.remove_reader(listening)
            self._retry = loop.call_later(timing.SLOW_CLIENT_SECONDS, self._listen, listening)
            return
        sock.setblocking(False)
        if len(self._silent) + len(self._waiting) >= MOST_WAITING:
            oldest = next(iter(self._silent)) if self._silent else self._waiting.pop(0)
            self._silent.pop(oldest, None)
            self._close(oldest)
        self._silent[sock] = None
        loop.add_reader(sock, self._on_data, sock)

    def _listen(self, listening: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listening, self._take, listening)

    def _close(self, sock: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(sock)
        sock.close()

    def _on_data(self, sock: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(sock)
        del self._silent[sock]
        if _has_disconnected(sock):
            sock.close()
            return
        self._waiting.append(sock)
        self._advance()

    def _advance(self) -> None:
        """Serve waiting clients, the newest first: if there are too many, the oldest have timed out."""
        loop = asyncio.get_running_loop()
        if self._check is not None:
            self._check.cancel()
            self._check = None
        while self._waiting and self._has_room(loop.time()):
            client = _Client(loop.time())
            self._served[client] = None
            client.task = loop.create_task(self._begin(client, self._waiting.pop()))
        if self._waiting:
            self._check = loop.call_later(timing.SLOW_CLIENT_CHECK_SECONDS, self._advance)

    def _has_room(self, now: float) -> bool:
        """Return whether one more client can be served. If necessary, drop the slowest client for it."""
        if len(self._served) < self._most:
            return True
        for client in [client for client in self._served if client.is_over]:
            del self._served[client]
        if len(self._served) < self._most:
            return True
        long_ago = now - timing.SLOW_CLIENT_SECONDS
        slow = [client for client in self._served if not client.is_waiting and client.since <= long_ago]
        if not slow:
            return False
        # Clients that got an answer go last: an API server may be about to reuse its idle connection.
        self._drop(min(slow, key=lambda client: (client.was_answered, client.since)))
        return True

    def _drop(self, client: _Client) -> None:
        client.end()
        del self._served[client]
        self._dropped += 1
        if self._dropped % self._most == 0:
            # Dropped connections are reference cycles of 0.5 MB with half a body, which would stay for long.
            gc.collect()

    async def _begin(self, client: _Client, sock: socket.socket) -> None:
        # A client's mistake is not logged as an error.
        with suppress(OSError):
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                self._serve,
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=timing.CLIENT_SECONDS,
                ssl_shutdown_timeout=timing.SLOW_CLIENT_SECONDS,
            )
            client.transport = transport


def served_by(runner: web.AppRunner) -> Callable[[], asyncio.Protocol]:
    """Return the protocol factory of an aiohttp application that is set up."""
    if runner.server is None:
        raise RuntimeError("the application is not set up")
    return runner.server


def _has_disconnected(sock: socket.socket) -> bool:
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
