"""Count the events and bytes of the streams that every manager follows, by following them in parallel."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import orjson

from lws.leaderworkerset.tables import LEADER_WORKER_SET
from lws.runtime.client.resources import LEADERWORKERSETS, Resource
from lws_api.leaderworkerset.v1 import NAME_LABEL
from test.bench.watching import watched
from tools.localcluster.api import Api, ApiError, Call

STREAMS: tuple[Resource, ...] = (LEADERWORKERSETS, *LEADER_WORKER_SET.children)


class Taps:
    """Counters on each stream, from now on."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._events: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._closed = False
        self._lost = ""
        for resource in STREAMS:
            version = str(
                api.send(Call("GET", resource.path(), query=_query(resource)))["metadata"]["resourceVersion"]
            )
            threading.Thread(target=self._follow, args=(resource, version), daemon=True).start()

    def take(self) -> dict[str, dict[str, int]]:
        """Return the counts since the last call, by kind.

        Raise RuntimeError if some events were not counted.
        """
        if self._lost:
            raise RuntimeError(self._lost)
        with self._lock:
            counts = {
                kind: {"events": self._events[kind], "bytes": self._bytes[kind]}
                for kind in sorted(self._events)
            }
            self._events.clear()
            self._bytes.clear()
        return counts

    def list_bytes(self) -> int:
        """Return the bytes that a manager reads when it starts now."""
        return sum(
            _size(self._api.send(Call("GET", stream.path(), query=_query(stream)))) for stream in STREAMS
        )

    def close(self) -> None:
        """Stop following."""
        self._closed = True

    def _follow(self, resource: Resource, version: str) -> None:
        try:
            for event in watched(self._api, resource.path(), _query(resource), version, lambda: self._closed):
                self._count(resource.plural, event)
        except ApiError as error:
            self._lost = f"the stream of {resource.plural} cannot go on: {error}"

    def _count(self, kind: str, event: dict[str, Any]) -> None:
        with self._lock:
            self._events[kind] += 1
            self._bytes[kind] += _size(event)


def _query(resource: Resource) -> dict[str, str]:
    return {} if resource is LEADERWORKERSETS else {"labelSelector": NAME_LABEL}


def _size(document: dict[str, Any]) -> int:
    return len(orjson.dumps(document)) + 1
