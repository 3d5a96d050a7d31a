"""Proxy, TLS and credentials for the API server, shared by all clients in this process.

HTTP sessions are built from a configuration of the kubernetes client. Each request uses the newest proxy, CA
and token.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException
from yarl import URL

from lws import timing
from lws.runtime.errors import ClusterError, Unreachable, error_of

# --- Keep credentials current: load new ones before they expire, and after the API server rejects them.


# As early as the kubernetes client, but at most a fifth of the remaining lifetime.
_EARLY_SHARE = 0.2


class UserConfiguration(Configuration):
    """A configuration from a kubeconfig. impersonation: the headers for impersonation."""

    impersonation: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long credentials are valid: seconds until newer ones may exist, and until these expire."""

    reload_in: float = math.inf
    left: float = math.inf

    @classmethod
    def ending_in(cls, seconds: float) -> Lifetime:
        """Return the lifetime of credentials that expire after so many seconds."""
        return cls(seconds - min(timing.CREDENTIALS_EARLY_SECONDS, seconds * _EARLY_SHARE), seconds)


Load = Callable[[Configuration], Awaitable[Lifetime]]


class Renewal:
    """The `refresh_api_key_hook` of one configuration.

    The hooks of the kubernetes client run within the request that needs them. This hook renews credentials in
    the background while they are valid: a Lease is lost after ten seconds, a plugin may take longer.
    """

    def __init__(self, load: Load, clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._reload_at = self._end_at = math.inf
        self._tried_at = -math.inf
        self._failure: str | None = None
        self._running: asyncio.Task[None] | None = None

    async def begin(self, configuration: Configuration) -> None:
        """Load credentials for the first time, and then act as the hook. Raises the errors of loading."""
        self._record(await self._load(configuration))
        # The type of the attribute is inferred from a None in the client's constructor.
        configuration.refresh_api_key_hook = self  # type: ignore[assignment]

    async def __call__(self, configuration: Configuration) -> None:
        """Renew credentials that may be outdated before a request. Raises Unreachable if none are valid."""
        now = self._clock()
        if now < self._reload_at:
            return
        renewal = self._renew(configuration)
        if now >= self._end_at:
            await asyncio.shield(renewal)
            if self._failure is not None:
                raise Unreachable(f"no credentials for the API server: {self._failure}")

    async def after_refusal(self, configuration: Configuration) -> None:
        """Reload the credentials after the API server rejected them (401), even if they have not expired."""
        if self._clock() >= self._tried_at + timing.CREDENTIALS_RETRY_SECONDS or self._running is not None:
            await asyncio.shield(self._renew(configuration))

    def _renew(self, configuration: Configuration) -> asyncio.Task[None]:
        """Start a renewal for all callers, unless one is running."""
        if self._running is None:
            self._tried_at = self._clock()
            self._running = asyncio.get_running_loop().create_task(self._load_again(configuration))
        return self._running

    async def _load_again(self, configuration: Configuration) -> None:
        try:
            async with asyncio.timeout(timing.CREDENTIALS_SECONDS):
                lifetime = await self._load(configuration)
            self._record(lifetime)
            self._failure = None
        except Exception as error:
            # For invalid files and plugins, the kubernetes client may raise any exception.
            timed_out = isinstance(error, TimeoutError)
            timeout = f"no answer within {timing.CREDENTIALS_SECONDS:g} s" if timed_out else ""
            self._failure = timeout or " ".join(str(error).split()) or type(error).__name__
            self._reload_at = self._clock() + timing.CREDENTIALS_RETRY_SECONDS
            log.warning("credentials for the API server cannot be renewed: %s", self._failure)
        finally:
            self._running = None

    def _record(self, lifetime: Lifetime) -> None:
        now = self._clock()
        self._reload_at, self._end_at = now + max(lifetime.reload_in, 1.0), now + lifetime.left


_AUTHORIZATION, _UNAUTHORIZED, _TOO_MANY = "Authorization", 401, 429
_IMPERSONATION = "impersonate-"
_BUFFER_BYTES = 2**21


class NotAuthenticated(aiohttp.ClientConnectionError):
    """There are no credentials, or the API server rejects them."""


class Request(aiohttp.ClientRequest):
    """A request whose TLS context and server name are set just before it is sent."""

    def secure(self, context: ssl.SSLContext, server_name: str | None) -> None:
        """Set TLS context and server name, so that connections of an earlier TLS context are not reused."""
        self._ssl = context
        self.server_hostname = server_name


class Transport:
    """The state that all sessions to one API server share.

    Raises ClusterError for an unusable proxy, OSError for unreadable certificates.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self.base = URL(configuration.host.rstrip("/") + "/")
        self._server = _server(self.base)
        # Determined once: aiohttp's `trust_env` takes a thread per request, knows no CIDR, and sends
        # passwords from ~/.netrc.
        self._proxy = proxy_for(self.base, configuration.proxy, os.environ)
        self._trust = Trust(configuration)

    def session(self, request_class: type[Request]) -> aiohttp.ClientSession:
        """Return a session for our own requests, to paths below `base`."""
        return aiohttp.ClientSession(
            base_url=self.base, request_class=request_class, middlewares=(self._send,), **self._options()
        )

    def session_of_another_client(self, user_agent: str) -> aiohttp.ClientSession:
        """Return a session, which the caller closes, for a client that retries only after a missing response.

        To it, a rejection of credentials or of too many requests looks like a missing response.
        """
        return aiohttp.ClientSession(
            headers={"User-Agent": user_agent},
            request_class=Request,
            middlewares=(_wait_if_throttled, _hide_rejection, self._send),
            **self._options(),
        )

    def _options(self) -> dict[str, Any]:
        connector = aiohttp.TCPConnector(limit=0)
        return {"connector": connector, "proxy": self._proxy, "read_bufsize": _BUFFER_BYTES}

    async def _send(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if _server(request.url) != self._server:
            # A redirect to another host must not get our token.
            return await send(request)
        former = await self._sign(request)
        response = await _answer(request, send)
        renewal = self._configuration.refresh_api_key_hook
        if response.status != _UNAUTHORIZED or not isinstance(renewal, Renewal):
            return response
        if self._identity() == former:
            await renewal.after_refusal(self._configuration)
        if self._identity() == former:
            return response
        response.close()
        await self._sign(request)
        return await _answer(request, send)

    async def _sign(self, request: aiohttp.ClientRequest) -> tuple[Any, ...]:
        """Add credentials to a request, and return their identity."""
        configuration = self._configuration
        try:
            token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        except (ConfigException, OSError, Unreachable) as error:
            raise NotAuthenticated(str(error)) from error
        request.headers.pop(_AUTHORIZATION, None)
        # Token files end with a newline, which kubectl strips too.
        if token and (token := token.strip()):
            if not token.isprintable():
                raise NotAuthenticated("the token contains invalid characters")
            request.headers[_AUTHORIZATION] = token
        for name in [name for name in request.headers if name.lower().startswith(_IMPERSONATION)]:
            request.headers.popall(name, None)
        if isinstance(configuration, UserConfiguration):
            request.headers.extend(configuration.impersonation)
        assert isinstance(request, Request)
        request.secure(self._trust.context, configuration.tls_server_name)
        return self._identity()

    def _identity(self) -> tuple[Any, ...]:
        configuration = self._configuration
        return dict(configuration.api_key), configuration.cert_file, configuration.key_file


def _server(url: URL) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of a URL. The default port is explicit."""
    return url.scheme, url.host, url.port


async def _answer(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    try:
        return await send(request)
    except RuntimeError as error:
        # uvloop briefly takes the descriptor of a failed connection for one in use (MagicStack/uvloop#653),
        # for example when an API server dies during handshakes.
        if not str(error).startswith("File descriptor "):
            raise
        raise aiohttp.ClientConnectionError(str(error)) from error


async def _hide_rejection(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Raise an error as for a missing response if the API server rejects credentials."""
    response = await send(request)
    if response.status == _UNAUTHORIZED:
        response.close()
        raise NotAuthenticated(f"{request.method} {request.url.origin()}: the credentials are rejected (401)")
    return response


async def _wait_if_throttled(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Wait as a Retry-After header requests, then raise an error as for a missing response.

    kopf would wait for a day if a proxy requested it, and its stream would end at an invalid number.
    """
    response = await send(request)
    if response.status == _TOO_MANY:
        error = error_of(_TOO_MANY, await response.read(), response.headers.get("Retry-After"))
        await asyncio.sleep(error.retry_after or 0.0)
        raise aiohttp.ClientConnectionError(
            f"{request.method} {request.url.origin()}: too many requests (429)"
        )
    return response


log = logging.getLogger(__name__)


_Stamp = tuple[str, int, int, int] | None


class Trust:
    """The TLS context of a configuration, as the kubernetes client creates it once.

    It is recreated after a CA was rotated or a certificate was renewed. Raises OSError (ssl.SSLError) if the
    first context cannot be created.
    """

    def __init__(self, configuration: Configuration, clock: Callable[[], float] = time.monotonic) -> None:
        self._configuration = configuration
        self._clock = clock
        self._stamps = self._read_stamps()
        self._checked_at = clock()
        self._context: ssl.SSLContext = RESTClientObject(configuration).ssl_context

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a new connection. If changed files cannot be used, the former context stays."""
        now = self._clock()
        has_same_files = self._files() == tuple(stamp and stamp[0] for stamp in self._stamps)
        if now < self._checked_at + timing.TRUST_SECONDS and has_same_files:
            return self._context
        self._checked_at = now
        stamps = self._read_stamps()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = RESTClientObject(self._configuration).ssl_context
                log.info("certificates for the API server have changed and were reloaded")
            except (OSError, ValueError) as error:
                # The files may be incomplete. The next write changes the stamps again.
                log.warning("certificates for the API server cannot be used: %s", error)
        return self._context

    def _files(self) -> tuple[str | None, ...]:
        configuration = self._configuration
        return configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file

    def _read_stamps(self) -> tuple[_Stamp, ...]:
        return tuple(None if path is None else _stamp(path) for path in self._files())


def _stamp(path: str) -> _Stamp:
    """Return a value that changes with the file: Kubernetes volumes replace a link, other tools the file."""
    try:
        status = os.stat(path)
    except OSError:
        return path, 0, 0, 0
    return path, status.st_ino, status.st_mtime_ns, status.st_size


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_VARIABLES = {"http": ("HTTP_PROXY", "http_proxy"), "https": ("HTTPS_PROXY", "https_proxy")}
_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_SCHEMES = frozenset({"http", "https"})


def proxy_for(server: URL, configured: str | None, environment: Mapping[str, str]) -> URL | None:
    """Return the proxy for requests to `server`; None for a direct connection.

    `configured`, the `proxy-url` of the kubeconfig, takes precedence. The environment is read as by Go
    programs, so that kubectl uses the same proxy: the kubernetes client and aiohttp know no CIDR in NO_PROXY.
    Raises ClusterError for an unusable proxy.
    """
    if configured:
        return _parsed(configured, "proxy-url of the kubeconfig")
    name, value = _first(environment, _VARIABLES.get(server.scheme, ()))
    if not value or not needs_proxy(server, _first(environment, _EXCEPTIONS)[1]):
        return None
    return _parsed(value, name)


def needs_proxy(server: URL, exceptions: str) -> bool:
    """Return whether requests to `server` use the proxy, by the comma-separated list in $NO_PROXY.

    A part is `*`; an address; a CIDR; a domain, which includes its subdomains; or a domain with a leading dot
    or `*.`, for its subdomains only. Addresses and domains may end with a port.
    """
    host = (server.host or "").lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    parts = filter(None, (part.strip().lower() for part in exceptions.split(",")))
    return not any(_matches(part, host, server.port, address) for part in parts)


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    return next(((name, environment[name]) for name in names if environment.get(name)), ("", ""))


def _matches(part: str, host: str, port: int | None, address: _Address | None) -> bool:
    if part == "*":
        return True
    if "/" in part:
        with suppress(ValueError):
            return address is not None and address in ipaddress.ip_network(part, strict=False)
    name, its_port = _split(part)
    if its_port and its_port != str(port):
        return False
    exact = _address(name)
    if exact is not None:
        return exact == address
    domain = name.removeprefix("*").rstrip(".")
    return domain != "" and (host.endswith(f".{domain.removeprefix('.')}") or host == domain)


def _split(part: str) -> tuple[str, str]:
    """Return name and port of `name`, `name:port`, an IPv6 address, `[address]` or `[address]:port`."""
    if part.startswith("["):
        name, _, tail = part[1:].partition("]")
        return name, tail.removeprefix(":")
    name, colon, port = part.partition(":")
    return (part, "") if ":" in port else (name, port if colon else "")


def _address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _parsed(value: str, source: str) -> URL:
    """Parse a proxy URL as Go does: a URL without a scheme is an HTTP proxy."""
    try:
        proxy = URL(value if "://" in value else f"http://{value}")
        usable = bool(proxy.host) and proxy.scheme in _SCHEMES
    except ValueError:
        usable = False
    if not usable:
        # The URL may contain a password.
        address = value.rpartition("@")[2]
        raise ClusterError(
            f"the API server cannot be reached through the proxy {address} ({source}): it must be "
            f"http://HOST:PORT or https://HOST:PORT"
        )
    return proxy
