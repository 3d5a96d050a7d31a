"""The client of the API server: asynchronous, raw JSON in and out. Every request passes through it.

Configuration, credentials and TLS come from the kubernetes client (`transport.py`). Its API classes are not
used: they build a model of each object, which takes many times longer than decoding, and they cannot fence
writes.

It serves the kinds in `resources`, returns objects as the server sent them, and raises `ClusterError`.
"""

from __future__ import annotations

import asyncio
import copy
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import aiohttp
import orjson
from kubernetes.aio.client.configuration import Configuration

from lws import timing
from lws.runtime.actions import Object, Propagation, Reference, Verbatim
from lws.runtime.client.resources import RESOURCES, Resource, namespace_in
from lws.runtime.client.transport import Request, Transport
from lws.runtime.errors import ApiError, NotLeading, Unreachable, decoded, error_of


async def raise_for(response: aiohttp.ClientResponse) -> None:
    """Raise the exception for a response with an error status."""
    if response.status >= 400:
        raise error_of(response.status, await response.read(), response.headers.get("Retry-After"))


# --- Limit the rate of writes by a token bucket (`clientConnection.qps` and `.burst`), and the rate of Lease
# renewals by another one.


# Number of attempts if managers write the same Lease at the same moment.
_ATTEMPTS = 5


class RateLimit:
    """A token bucket that gains `qps` tokens per second and holds at most `burst`."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._clock = clock
        self._tokens = self._burst
        self._filled_at = clock()

    async def acquire(self) -> None:
        """Take one token. Waiting callers are served in order."""
        self._fill()
        self._tokens -= 1.0
        if self._tokens < 0.0:
            await asyncio.sleep(-self._tokens / self._qps)

    def try_acquire(self) -> bool:
        """Take one token if there is one."""
        self._fill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now


def renewal_rate(shards: int, retry_period: float, clock: Callable[[], float] = time.monotonic) -> RateLimit:
    """Return the rate limit for one manager's Leases: twice the number of writes in each retry period.

    A manager holds at most `shards` Leases of shards. The membership Lease may need several attempts.
    """
    writes = 2 * (shards + _ATTEMPTS)
    return RateLimit(writes / retry_period, writes, clock)


# --- Tell the time of the API server. The clock of this machine may be wrong, and may jump.


class ServerClock:
    """The time of the API server, by the `Date` of its responses and a monotonic clock.

    Objects have creation and deletion times of that clock, and managers record times of it. So times that
    passes compare come from one clock, on whatever machine the manager runs. wall: the time until the first
    response, as a Unix time. monotonic: a clock in seconds.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.monotonic = monotonic
        self._offset = wall() - monotonic()

    def now(self) -> float:
        """Return the Unix time."""
        return self.monotonic() + self._offset

    def record(self, sent: float, date: str | None) -> None:
        """Record the `Date` of a response. sent: the reading of `monotonic` before its request was sent.

        The date is in whole seconds, so the time is only corrected as far as it contradicts the date.
        """
        seconds = _seconds_of(date) if date else None
        if seconds is not None:
            self._offset = max(self._offset, seconds - self.monotonic())
            self._offset = min(self._offset, seconds + 1.0 - sent)


@lru_cache(maxsize=16)
def _seconds_of(date: str) -> float | None:
    """Return the Unix time of an HTTP date; None if it is not one."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


FIELD_MANAGER = "lws"

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

# Share of the time for a write that connecting, and the request on its way, may take.
_ON_THE_WAY = 0.2
# With this status or a higher one, the API server or a proxy may have abandoned a running write.
_SERVER_ERRORS = 500


MayWrite = Callable[[str], bool]
"""A function that reports whether this process may write to a namespace, called right before a write."""


TimeLeft = Callable[[str], float]
"""A function that returns the seconds within which a write to a namespace must end, called as it begins."""


def _unlimited(namespace: str) -> float:
    return math.inf


def anywhere(namespace: str) -> bool:
    """Return a fence that always allows writes."""
    return True


@dataclass(slots=True)
class _Fence:
    """The check whether a request may be sent.

    seconds: a function that returns the time within which the API server must end the request; None if that
    is not limited. sent: the request, once it was sent.
    """

    may_write: MayWrite = anywhere
    namespace: str = ""
    seconds: Callable[[], float] | None = None
    sent: aiohttp.ClientRequest | None = None


_FENCE: ContextVar[_Fence] = ContextVar("fence")


class _FencedRequest(Request):
    """Checks the fence once there is a connection, because connecting may outlast the Lease."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        fence = _FENCE.get()
        if not fence.may_write(fence.namespace):
            raise NotLeading("the Lease is not held or not fresh: nothing was written")
        if fence.seconds is not None:
            # If a connection breaks, aiohttp repeats a PUT or DELETE by another request.
            if fence.sent not in (None, self):
                raise Unreachable(f"{self.method} {self.url}: the connection broke before the response")
            # Computed for each attempt: `Transport` repeats a request with new credentials. The API server
            # counts from the arrival of the request, and reads 0 as no limit.
            milliseconds = max(1, round(1000 * fence.seconds()))
            self.url = self.url.update_query(timeout=f"{milliseconds}ms")
        fence.sent = self
        return await super().send(conn)


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of a request in addition to method and path. timeout: None for the default."""

    query: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    data: bytes | None = None
    timeout: aiohttp.ClientTimeout | None = None


_PLAIN = _Options()


class Cluster:
    """The connection to one API server. Objects are plain JSON data, and no request is retried here.

    on_response: a function that is called with the method and the status of every response. clock: corrected
    by every response.
    """

    def __init__(
        self,
        configuration: Configuration,
        user_agent: str,
        rate: RateLimit | None = None,
        on_response: Callable[[str, int], None] = lambda method, status: None,
        clock: ServerClock | None = None,
    ) -> None:
        self.configuration = configuration
        self._clock = clock or ServerClock()
        self._may_write: MayWrite = anywhere
        self._time_left: TimeLeft = _unlimited
        # By namespace: until when its last write without a response may arrive. All clones share this.
        self._unanswered: dict[str, float] = {}
        self._resources = dict(RESOURCES)
        self._on_response = on_response
        self._rate = rate
        self._user_agent = user_agent
        self._timeout = aiohttp.ClientTimeout(total=timing.REQUEST_SECONDS)
        self._transport = Transport(configuration)
        self._session = self._transport.session(_FencedRequest)

    def fenced(self, may_write: MayWrite, time_left: TimeLeft = _unlimited) -> Cluster:
        """Return the same connection for writes of a leader. It raises NotLeading if `may_write` is false.

        A write that takes longer than the time left is abandoned, also by the API server: it must not arrive
        after the next leader has listed.
        """
        clone = copy.copy(self)
        clone._may_write, clone._time_left = may_write, time_left
        return clone

    def may_arrive(self, is_meant: Callable[[str], bool]) -> bool:
        """Return whether a fenced write without a response may still be stored in one of these namespaces."""
        now = asyncio.get_running_loop().time()
        for expired in [namespace for namespace, until in self._unanswered.items() if until <= now]:
            del self._unanswered[expired]
        return any(map(is_meant, self._unanswered))

    def paced(self, rate: RateLimit | None) -> Cluster:
        """Return the same connection with another rate limit; None for no limit."""
        clone = copy.copy(self)
        clone._rate = rate
        return clone

    def session_of_another_client(self) -> aiohttp.ClientSession:
        """Return a session to the same API server for another client, which must close it."""
        return self._transport.session_of_another_client(self._user_agent)

    @property
    def now(self) -> datetime:
        """The time of the API server."""
        return datetime.fromtimestamp(self._clock.now(), UTC)

    async def close(self) -> None:
        await self._session.close()

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Return one object, read live."""
        return await self._request("GET", self._resources[kind].path(namespace, name))

    async def version(self) -> str:
        """Return the Kubernetes version of the server. The request also checks that the server responds."""
        return str((await self._request("GET", "/version")).get("gitVersion", "unknown"))

    def learn(self, *resources: Resource) -> None:
        """Add resources by kind, for all clones."""
        self._resources.update({resource.kind: resource for resource in resources})

    async def exists(self, path: str) -> bool:
        """Return whether the server serves this path, for example a group and version or a collection."""
        async with self._respond("GET", path) as response:
            if response.status != 404:
                await raise_for(response)
            return response.status == 200

    async def list_page(
        self, resource: Resource, query: Mapping[str, str], metadata_only: bool = False, namespace: str = ""
    ) -> dict[str, Any]:
        """Return one page of a collection, of all namespaces or of one.

        It contains `items`, `metadata.resourceVersion` and `metadata.continue`.
        """
        accept = "application/json"
        if metadata_only:
            accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        path = resource.path(namespace)
        return await self._request("GET", path, query=query, headers={"Accept": accept})

    @asynccontextmanager
    async def watch(
        self, resource: Resource, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the body of a watch, newline-delimited JSON. Silence of so many seconds ends it."""
        timeout = aiohttp.ClientTimeout(total=None, connect=timing.REQUEST_SECONDS, sock_read=silence)
        options = _Options({**query, "watch": "1"}, timeout=timeout)
        async with self._respond("GET", resource.path(), options) as response:
            await raise_for(response)
            yield response.content.iter_any()

    async def create(self, obj: Object) -> dict[str, Any]:
        """POST an object."""
        path = self._resources[obj["kind"]].path(obj["metadata"].get("namespace", ""))
        return await self._request("POST", path, body=obj, query={"fieldManager": FIELD_MANAGER})

    async def replace(self, obj: Object) -> dict[str, Any]:
        """PUT an object. Its resourceVersion, if it has one, must be the current one."""
        metadata = obj["metadata"]
        path = self._resources[obj["kind"]].path(metadata.get("namespace", ""), metadata["name"])
        return await self._request("PUT", path, body=obj, query={"fieldManager": FIELD_MANAGER})

    async def apply(self, intent: Object, force: bool) -> dict[str, Any]:
        """Server-side apply of a whole intent."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        return await self._patch(Reference.to(intent), intent, APPLY, query)

    async def merge(
        self, target: Reference, patch: Object, subresource: str = "", is_strategic: bool = False
    ) -> dict[str, Any]:
        """Send a JSON merge patch. A UID in the reference protects other objects of the same name.

        A strategic merge patch (`is_strategic`) merges lists by key and exists only for built-in kinds.
        """
        if target.uid:
            patch = {**patch, "metadata": {**patch.get("metadata", {}), "uid": target.uid}}
        content_type = STRATEGIC_MERGE if is_strategic else MERGE
        return await self._patch(target, patch, content_type, {"fieldManager": FIELD_MANAGER}, subresource)

    async def patch(self, target: Reference, operations: Sequence[Object]) -> dict[str, Any]:
        """Send a JSON patch (RFC 6902). A failed test raises Invalid.

        The patch is applied to the current object, so there are no conflicts.
        """
        return await self._patch(target, operations, JSON_PATCH, {"fieldManager": FIELD_MANAGER})

    async def delete(
        self,
        target: Reference,
        propagation: Propagation,
        grace_seconds: int | None = None,
        version: str = "",
    ) -> dict[str, Any]:
        """Delete the object with this name, UID and resourceVersion. The UID and the version may be empty.

        Return the object if it is terminating, or the last state of a pod; otherwise a Status.
        """
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        options["propagationPolicy"] = propagation
        if target.uid:
            options["preconditions"] = {"uid": target.uid}
        if version:
            options["preconditions"] = {**options.get("preconditions", {}), "resourceVersion": version}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self._request(
            "DELETE", self._resources[target.kind].path(target.namespace, target.name), body=options
        )

    async def _patch(
        self,
        target: Reference,
        body: Object | Sequence[Object],
        content_type: str,
        query: Mapping[str, str],
        subresource: str = "",
    ) -> dict[str, Any]:
        path = self._resources[target.kind].path(target.namespace, target.name, subresource)
        headers = {"Content-Type": content_type}
        return await self._request("PATCH", path, body=body, query=query, headers=headers)

    async def _request(
        self,
        method: str,
        path: str,
        body: Object | Sequence[Object] | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        if method != "GET" and self._rate is not None:
            await self._rate.acquire()
        if method == "GET":
            return await self._answer(method, path, _Options(query, headers), _Fence())
        data = orjson.dumps(body, default=_encode, option=orjson.OPT_PASSTHROUGH_DATACLASS)
        options = _Options(query, headers, data)
        return await self._write(method, path, options, _Fence(self._may_write, namespace_in(path)))

    async def _write(self, method: str, path: str, options: _Options, fence: _Fence) -> dict[str, Any]:
        seconds = self._time_left(fence.namespace)
        if seconds == math.inf:
            return await self._answer(method, path, options, fence)
        # Never 0, which means no timeout to aiohttp. If no time is left, the fence rejects the write.
        remaining = min(max(seconds, 0.001), timing.REQUEST_SECONDS)
        waiting = _ON_THE_WAY * remaining
        timeout = aiohttp.ClientTimeout(total=remaining, connect=waiting, ceil_threshold=math.inf)
        clock = asyncio.get_running_loop().time
        until = clock() + remaining
        # The clock of the Lease, unlike that of the event loop, includes suspensions of the machine.
        fence.seconds = lambda: (
            (1 - _ON_THE_WAY) * min(until - clock(), self._time_left(fence.namespace), timing.REQUEST_SECONDS)
        )
        try:
            return await self._answer(method, path, replace(options, timeout=timeout), fence)
        except (Unreachable, ApiError, asyncio.CancelledError) as error:
            # A webhook that cannot be called also causes a 500, but then nothing is stored.
            is_final = isinstance(error, ApiError) and (error.status < _SERVER_ERRORS or error.is_refusal)
            if fence.sent is not None and not is_final:
                self._unanswered[fence.namespace] = max(until, self._unanswered.get(fence.namespace, until))
            raise

    async def _answer(self, method: str, path: str, options: _Options, fence: _Fence) -> dict[str, Any]:
        async with self._respond(method, path, options, fence) as response:
            await raise_for(response)
            return decoded(await response.read(), f"{method} {path} at {self.configuration.host}")

    @asynccontextmanager
    async def _respond(
        self, method: str, path: str, options: _Options = _PLAIN, fence: _Fence | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {
            "User-Agent": self._user_agent,
            "Accept": "application/json",
            "Content-Type": "application/json",
            **(options.headers or {}),
        }
        timeout = options.timeout or self._timeout
        sent = self._clock.monotonic()
        try:
            _FENCE.set(fence or _Fence())
            async with self._session.request(
                method,
                path.lstrip("/"),
                params=dict(options.query or {}),
                headers=headers,
                data=options.data,
                timeout=timeout,
            ) as response:
                self._clock.record(sent, response.headers.get("Date"))
                self._on_response(method, response.status)
                yield response
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            # aiohttp's message contains the repr of the TLS context.
            reason = re.sub(r" ssl:<[^>]*>", "", str(error)) or type(error).__name__
            if isinstance(error, aiohttp.SocketTimeoutError):
                reason = f"nothing received for {timeout.sock_read:g} s"
            raise Unreachable(f"{method} {path} at {self.configuration.host}: {reason}") from error


def _encode(value: object) -> object:
    if isinstance(value, Verbatim):
        return orjson.Fragment(value.text)
    raise TypeError(f"{type(value).__name__} is not JSON")


# --- Read a large collection page by page.


_PAGE = "500"


async def pages(
    cluster: Cluster,
    resource: Resource,
    query: Mapping[str, str],
    *,
    namespace: str = "",
    metadata_only: bool = False,
) -> AsyncIterator[dict[str, Any]]:
    """Yield the pages of a collection, of all namespaces or of one (see `Cluster.list_page`).

    Raises ClusterError: Gone if reading takes longer than the server keeps the version of the first page.
    """
    page_query = {**query, "limit": _PAGE}
    while True:
        page = await cluster.list_page(resource, page_query, metadata_only=metadata_only, namespace=namespace)
        yield page
        token = (page.get("metadata") or {}).get("continue")
        if not token:
            return
        page_query["continue"] = token
