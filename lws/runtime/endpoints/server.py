"""Serve HTTP/1.1 for clients that may be anybody: the only server of the process, for all of its ports.

Nobody can exhaust memory or file descriptors, or keep others from being served. A TLS connection costs
0.4 MB, which glibc keeps: 2,000 at once made a process grow from 75 MB to 930 MB for good. So a client that
has sent nothing gets no connection yet, and only a limited number of the other clients are served at a time.
A client that sends too little for too long is dropped. If clients wait, the next one is that whose address
has the fewest served clients, and a slow client of the address that has most is dropped for it: an API server
or a kubelet does not wait for all clients of a stranger.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import cast
from weakref import WeakValueDictionary

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from lws import timing

MOST_HEADERS = 64
"""Maximum number of header fields of a request. An API server sends 7 with a review, and proxies add some."""

_LARGE_BODY_BYTES, _LARGE_AT_ONCE, _LARGE_OF_ADDRESS = 256 * 1024, 4, 2
"""Size above which a body is large, several times that of a review of a set or pod; and the maximum numbers
of requests with large bodies in memory: of all clients, and of clients with the same address.

Without a limit, 2,000 clients that stopped after 1 MB of a body made the process grow to 5.4 GB.
"""

_BACKLOG, _ACCEPTED_AT_ONCE = 1024, 32
"""Maximum number of connections that the kernel keeps for us, and of those that are accepted at a time: with
one of them beside each turn of long reviews, a probe would wait for seconds.
"""

log = logging.getLogger(__name__)


class _OurMistakes(logging.Filter):
    """Drops log lines of aiohttp about requests that are not HTTP: anybody can send any number of them. An
    `Expect` header that is no text ends in a UnicodeEncodeError.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | UnicodeEncodeError)


_of_requests = logging.getLogger(f"{__name__}.requests")
_of_requests.addFilter(_OurMistakes())


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a port.

    clients: maximum number of clients that are served at a time. waiting: maximum number of clients that are
    not served yet; with all open files, these of all ports are below the common 1,024 descriptors. body:
    maximum size of the body of a request in bytes.
    """

    clients: int
    waiting: int
    body: int = 1024


SMALL = Limits(clients=16, waiting=64)
"""The limits of ports with few clients: probes and scrapes."""


class HttpError(Exception):
    """An HTTP error in place of an answer, with a message of one line."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers

    def response(self) -> web.Response:
        return web.Response(status=self.status, text=f"{self.text}\n", headers=self.headers)


@dataclass(eq=False, slots=True)
class _Client:
    """A client that is served.

    since: when it connected, sent its last request or last got an answer. was_answered: whether it got an
    answer before.
    has_large_answer: whether the last answer was large. timer: drops it if it does nothing for too long.
    """

    address: str
    since: float
    task: asyncio.Task[None] | None = None
    protocol: RequestHandler | None = None
    timer: asyncio.TimerHandle | None = None
    is_waiting: bool = False
    was_answered: bool = False
    has_large_answer: bool = False

    @property
    def is_over(self) -> bool:
        if self.task is None or not self.task.done():
            return False
        # A connection that is closing still holds a descriptor.
        return self.protocol is None or self.protocol.transport is None

    def end(self) -> None:
        """Abort at once, because an orderly TLS shutdown with a slow client would take too long."""
        self.stop_timer()
        transport = self.protocol.transport if self.protocol is not None else None
        # Transports of uvloop are no subclasses of asyncio.WriteTransport.
        if transport is not None:
            cast(asyncio.WriteTransport, transport).abort()
        elif self.task is not None:
            self.task.cancel()

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Server:
    """Serves routes on one port, with TLS or without. Bodies of requests must not be compressed.

    tls: None for plain HTTP. grace: time in seconds for running requests at the end.
    """

    def __init__(
        self, routes: Iterable[web.RouteDef], limits: Limits, grace: float, tls: ssl.SSLContext | None = None
    ) -> None:
        self._limits, self._tls = limits, tls
        application = web.Application(client_max_size=limits.body, middlewares=[self._handle])
        application.add_routes(routes)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            shutdown_timeout=grace,
            logger=_of_requests,
            auto_decompress=False,
            lingering_time=timing.SLOW_CLIENT_SECONDS,
            # A client that is gone keeps no place among those that wait for room for a large body.
            handler_cancellation=True,
            max_headers=MOST_HEADERS,
        )
        self._listening: socket.socket | None = None
        # All clients that are not served yet, and those of them that have sent something, each with its
        # address, oldest first.
        self._unserved: dict[socket.socket, str] = {}
        self._waiting: dict[socket.socket, str] = {}
        self._served: dict[_Client, None] = {}
        self._check: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._large_of = WeakValueDictionary[str, asyncio.Semaphore]()

    @property
    def port(self) -> int:
        if self._listening is None:
            raise RuntimeError("the port is not open")
        port: int = self._listening.getsockname()[1]
        return port

    async def open(self, host: str | None, port: int) -> None:
        """Open the port of a host name or IP address, or of every interface. Raises OSError if that fails."""
        await self._runner.setup()
        self._listening = _listening(host, port)
        self._listen(self._listening)

    async def close(self) -> None:
        """Accept no more clients, drop those that are not served yet, and end the running requests."""
        for timer in (self._check, self._retry):
            if timer is not None:
                timer.cancel()
        for sock in self._unserved:
            self._close(sock)
        self._unserved.clear()
        self._waiting.clear()
        for client in self._served:
            client.stop_timer()
            if client.protocol is None or client.protocol.transport is None:
                client.end()
        if self._listening is not None:
            self._close(self._listening)
            self._listening = None
        await self._runner.cleanup()

    @asynccontextmanager
    async def received(self, request: web.Request) -> AsyncIterator[bytes]:
        """Yield the body of a request. Room for a large one is reserved until the end of the context.

        Raises HttpError if it is compressed, too large, incomplete, or does not arrive in time.
        """
        encoding = ", ".join(request.headers.getall("Content-Encoding", ()))
        if encoding.lower() not in ("", "identity"):
            why = "the body must not be compressed: send it without Content-Encoding"
            raise HttpError(415, why, {"Accept-Encoding": "identity"})
        most, size = self._limits.body, request.content_length
        # A body whose Content-Length is too large is rejected before it is read.
        if size is not None and size > most:
            raise HttpError(413, f"the body is larger than {most} bytes")
        async with AsyncExitStack() as room:
            client = self._client_of(request)
            if size is None or size > _LARGE_BODY_BYTES:
                of_address = self._large_of.setdefault(client.address, asyncio.Semaphore(_LARGE_OF_ADDRESS))
                for limit in (of_address, self._large):
                    await room.enter_async_context(limit)
            client.is_waiting, client.since = False, asyncio.get_running_loop().time()
            try:
                body = await self._read(request)
            finally:
                client.is_waiting = True
            yield body

    async def _read(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(timing.CLIENT_SECONDS):
                return await request.read()
        except TimeoutError:
            raise HttpError(408, f"the body did not arrive within {timing.CLIENT_SECONDS:.0f} s") from None
        except ConnectionError as error:
            # The body's reader keeps the error, and the error these frames with what has arrived of the body.
            traceback.clear_frames(error.__traceback__)
            raise HttpError(400, "the connection ended before the body") from None
        except web.HTTPRequestEntityTooLarge:
            raise HttpError(413, f"the body is larger than {self._limits.body} bytes") from None
        except web.RequestPayloadError as error:
            reason = " ".join(str(error).split())
            raise HttpError(400, f"the body cannot be read: {reason}") from None

    @web.middleware
    async def _handle(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        with self._answering(request) as client:
            try:
                response = await handler(request)
            except HttpError as error:
                response = error.response()
            if (response.content_length or 0) > _LARGE_BODY_BYTES:
                # The connection is closed once the client has read the answer. If it does not, it is dropped.
                response.force_close()
                client.has_large_answer = True
            return response

    @contextmanager
    def _answering(self, request: web.Request) -> Iterator[_Client]:
        """Keep the connection of a client while its request is being answered."""
        client = self._client_of(request)
        client.stop_timer()
        client.is_waiting, client.since = True, asyncio.get_running_loop().time()
        try:
            yield client
        finally:
            client.is_waiting, client.was_answered = False, True
            loop = asyncio.get_running_loop()
            client.since = loop.time()
            seconds = timing.CLIENT_SECONDS if client.has_large_answer else timing.IDLE_CLIENT_SECONDS
            client.timer = loop.call_later(seconds, self._drop, client)

    def _client_of(self, request: web.Request) -> _Client:
        found = (client for client in self._served if client.protocol is request.protocol)
        # A client may have been dropped just before its request arrived.
        return next(found, None) or _Client("", 0.0)

    def _take(self, listening: socket.socket) -> None:
        """Accept some clients, and let other callbacks of the event loop run before the next ones."""
        loop = asyncio.get_running_loop()
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                sock, peer = listening.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                log.warning("cannot accept clients on port %d: %s", self.port, error)
                loop.remove_reader(listening)
                self._retry = loop.call_later(timing.SLOW_CLIENT_SECONDS, self._listen, listening)
                return
            sock.setblocking(False)
            if len(self._unserved) >= self._limits.waiting:
                self._forget_one()
            self._unserved[sock] = peer[0]
            loop.add_reader(sock, self._on_data, sock)

    def _forget_one(self) -> None:
        """Close the oldest client that is not served yet of the address that has most of them."""
        (greedy, _), *_ = Counter(self._unserved.values()).most_common(1)
        oldest = next(sock for sock, address in self._unserved.items() if address == greedy)
        del self._unserved[oldest]
        self._waiting.pop(oldest, None)
        self._close(oldest)

    def _listen(self, listening: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listening, self._take, listening)

    def _close(self, sock: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(sock)
        sock.close()

    def _on_data(self, sock: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(sock)
        if _has_disconnected(sock):
            del self._unserved[sock]
            sock.close()
            return
        self._waiting[sock] = self._unserved[sock]
        self._advance()

    def _advance(self) -> None:
        """Serve waiting clients while there is room."""
        loop = asyncio.get_running_loop()
        if self._check is not None:
            self._check.cancel()
            self._check = None
        for client in [client for client in self._served if client.is_over]:
            client.stop_timer()
            del self._served[client]
        while self._waiting and self._has_room(self._waiting[sock := self._next()], loop.time()):
            del self._unserved[sock]
            client = _Client(self._waiting.pop(sock), loop.time())
            self._served[client] = None
            client.timer = loop.call_later(timing.CLIENT_SECONDS, self._drop, client)
            client.task = loop.create_task(self._begin(client, sock))
        if self._waiting:
            self._check = loop.call_later(timing.SLOW_CLIENT_CHECK_SECONDS, self._advance)

    def _next(self) -> socket.socket:
        """Return the next waiting client: of the address with the fewest served clients, the newest. If there
        are too many, the oldest have timed out.
        """
        served = Counter(client.address for client in self._served)
        return min(reversed(self._waiting), key=lambda sock: served[self._waiting[sock]])

    def _has_room(self, address: str, now: float) -> bool:
        """Return whether one more client of an address can be served: an address gets at most half of what
        others leave, so that a few strangers do not take all. If necessary, drop a slow client for it.
        """
        served = Counter(client.address for client in self._served)
        if served[address] < self._limits.clients - len(self._served):
            return True
        long_ago = now - timing.SLOW_CLIENT_SECONDS
        slow = [
            client
            for client in self._served
            if not client.is_waiting and self._gives_way(client, address, served, long_ago)
        ]
        if not slow:
            return False
        # Clients that got an answer go last: an API server may be about to reuse its idle connection.
        self._drop(min(slow, key=lambda client: (-served[client.address], client.was_answered, client.since)))
        return True

    def _gives_way(self, client: _Client, address: str, served: Mapping[str, int], long_ago: float) -> bool:
        """Return whether a client is dropped for a client of an address. An address of which no client is
        served gets one of several idle connections of another address at once: a few addresses that keep
        sending requests must not shut out all others.
        """
        is_slow = client.since <= long_ago and served[client.address] >= served[address]
        return is_slow or (not served[address] and served[client.address] > 1 and client.was_answered)

    def _drop(self, client: _Client) -> None:
        client.end()
        self._served.pop(client, None)

    async def _begin(self, client: _Client, sock: socket.socket) -> None:
        def protocol() -> RequestHandler:
            client.protocol = self._runner.server()  # type: ignore[misc]
            return client.protocol

        is_plain = self._tls is None
        # A client's mistake is not logged as an error.
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol,
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=None if is_plain else timing.CLIENT_SECONDS,
                ssl_shutdown_timeout=None if is_plain else timing.SLOW_CLIENT_SECONDS,
            )


def _has_disconnected(sock: socket.socket) -> bool:
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _listening(host: str | None, port: int) -> socket.socket:
    # As in Go, `::` stands for every interface.
    if host in (None, "::") and socket.has_dualstack_ipv6():
        family, dual = socket.AF_INET6, True
    else:
        family, dual = socket.AF_INET6 if ":" in (host or "") else socket.AF_INET, False
    sock = socket.create_server((host or "", port), family=family, backlog=_BACKLOG, dualstack_ipv6=dual)
    sock.setblocking(False)
    return sock
