"""One stream of one kind: list, watch, resume, list again when the server forgot where we were.

In: a resource, narrowed on the server by a label. Out: objects into a `Sink`, for ever, and how fresh the
stream is.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import aiohttp
import orjson

from lws.cluster.connection import Cluster
from lws.cluster.errors import ApiError, ClusterError, Gone, api_error
from lws.cluster.resources import Resource

log = logging.getLogger(__name__)

_PAGE = "500"
# The server ends a watch after this long; a bookmark comes about once a minute.
_WATCH_SECONDS = "290"
_SILENCE_SECONDS = 90.0
_FIRST_DELAY, _LONGEST_DELAY = 0.2, 15.0


class Sink(Protocol):
    """Who takes in what a stream tells."""

    def put(self, obj: Mapping[str, Any]) -> None: ...

    def drop(self, obj: Mapping[str, Any]) -> None: ...

    def replace(self, kind: str, objects: Iterable[Mapping[str, Any]], version: str) -> None: ...


class Informer:
    """Keeps a sink current with one collection. `run` never returns by itself."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        selector: str,
        sink: Sink,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource = resource
        self.listed = asyncio.Event()
        self._cluster = cluster
        self._query = {"labelSelector": selector} if selector else {}
        self._sink = sink
        self._clock = clock
        self._heard_at = clock()
        self._version = ""

    @property
    def silent_for(self) -> float:
        """Seconds since the stream last said anything: an object, a bookmark or a list."""
        return self._clock() - self._heard_at

    async def run(self) -> None:
        """List and watch for ever; every failure is retried, the same place of the stream first."""
        failures = 0
        while True:
            try:
                if not self._version:
                    await self._list()
                failures = 0
                await self._watch()
            except Gone:
                log.info("%s: the watch is too old to resume, listing again", self.resource.plural)
                self._version = ""
            except ClusterError as error:
                failures += 1
                delay = _delay(failures, error)
                log.warning("%s: %s; trying again in %.1f s", self.resource.plural, error.message, delay)
                await asyncio.sleep(delay)

    async def _list(self) -> None:
        objects: list[Mapping[str, Any]] = []
        query = {**self._query, "limit": _PAGE}
        while True:
            page = await self._cluster.list_page(self.resource, query)
            # Items of a list come without the kind that they have in an event.
            for item in page.get("items") or ():
                item["kind"], item["apiVersion"] = self.resource.kind, self.resource.api_version
                objects.append(item)
            token = page["metadata"].get("continue")
            if not token:
                break
            query["continue"] = token
        version: str = page["metadata"]["resourceVersion"]
        self._sink.replace(self.resource.kind, objects, version)
        self._version = version
        self._heard_at = self._clock()
        self.listed.set()

    async def _watch(self) -> None:
        query = {
            **self._query,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": _WATCH_SECONDS,
        }
        async with self._cluster.watch(self.resource, query, _SILENCE_SECONDS) as stream:
            async for line in _lines(stream):
                self._heard_at = self._clock()
                self._take(orjson.loads(line))

    def _take(self, event: Mapping[str, Any]) -> None:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            raise api_error(int(obj.get("code") or 500), obj, "the watch ended with an error", None)
        if kind == "DELETED":
            self._sink.drop(obj)
        elif kind != "BOOKMARK":
            self._sink.put(obj)
        self._version = obj["metadata"]["resourceVersion"]


async def _lines(stream: aiohttp.StreamReader) -> Any:
    """Lines of any length: one object may be larger than the reader's buffer."""
    rest = b""
    async for chunk in stream.iter_any():
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            rest += chunk
            continue
        for line in (rest + head).split(b"\n"):
            if line:
                yield line
        rest = tail


def _delay(failures: int, error: ClusterError) -> float:
    wanted = error.retry_after if isinstance(error, ApiError) and error.retry_after is not None else 0.0
    delay: float = min(_FIRST_DELAY * 2 ** min(failures - 1, 10), _LONGEST_DELAY)
    return max(wanted, delay * random.uniform(0.5, 1.0))
