"""Record how long a manager takes from an event of a stream to the request that follows it.

`record` wraps the methods of the store and the connection of a manager in this process. Two delays are
measured, in seconds: from a restarted container of a worker to the request that deletes its leader, and from
a new leader to the request for its workers' StatefulSet. Neither includes the time in which the manager waits
for the API server to store a record that must come first.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lws.runtime.client.connection import Cluster
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import WORKER_INDEX_LABEL

FAILED, MADE = "failed", "made"


@dataclass(frozen=True)
class Own:
    """The reaction to one event.

    at: the time.monotonic() of the event. kind: FAILED or MADE. name: the leader. waited: elapsed seconds.
    spent: CPU seconds that the thread used meanwhile for any work.
    """

    at: float
    kind: str
    name: str
    waited: float
    spent: float


@dataclass
class Recorder:
    """A recorder of events and the requests that follow them.

    clock: elapsed seconds. thread_clock: CPU seconds of the calling thread.
    """

    clock: Callable[[], float] = time.monotonic
    thread_clock: Callable[[], float] = time.thread_time
    found: list[Own] = field(default_factory=list)
    _heard: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    # When each status write was sent, and when it was answered.
    _answers: list[tuple[float, float]] = field(default_factory=list)

    def heard(self, obj: Mapping[str, Any]) -> None:
        """Record that the store is given an object."""
        if obj.get("kind") != "Pod":
            return
        metadata = obj["metadata"]
        index = metadata.get("labels", {}).get(WORKER_INDEX_LABEL)
        now = self.clock(), self.thread_clock()
        if index == "0" and metadata["uid"] not in self._seen:
            self._seen.add(metadata["uid"])
            self._heard[MADE, metadata["name"]] = now
        elif index not in (None, "0") and _has_restarted(obj) and f"{metadata['uid']}!" not in self._seen:
            self._seen.add(f"{metadata['uid']}!")
            self._heard[FAILED, metadata["name"].rpartition("-")[0]] = now

    def requested(self, kind: str, name: str) -> None:
        """Record that the request which follows the event of this kind and leader is sent."""
        heard = self._heard.pop((kind, name), None)
        if heard is None:
            return
        now, since = self.clock(), heard[0]
        away = sum(end - max(began, since) for began, end in self._answers if since < end)
        spent = self.thread_clock() - heard[1]
        self.found.append(Own(since, kind, name, now - since - away, spent))

    def answered(self, began: float) -> None:
        """Record that the API server has now answered a status write that was sent at `began`."""
        self._answers = [*self._answers[-99:], (began, self.clock())]

    def write(self, path: Path) -> None:
        """Write one event per line."""
        lines = (
            f"{event.at} {event.kind} {event.name} {event.waited} {event.spent}\n" for event in self.found
        )
        path.write_text("".join(lines))


def record() -> Recorder:
    """Record from now on, for every store and connection of this process."""
    recorder = Recorder()
    put, delete, create, merge = Store.put, Cluster.delete, Cluster.create, Cluster.merge

    @functools.wraps(put)
    def putting(store: Store, obj: Mapping[str, Any]) -> None:
        recorder.heard(obj)
        put(store, obj)

    @functools.wraps(delete)
    async def deleting(cluster: Cluster, target: Any, *rest: Any, **options: Any) -> dict[str, Any]:
        if target.kind == "Pod":
            recorder.requested(FAILED, target.name)
        return await delete(cluster, target, *rest, **options)

    @functools.wraps(create)
    async def creating(cluster: Cluster, obj: Any) -> dict[str, Any]:
        if obj["kind"] == "StatefulSet":
            recorder.requested(MADE, obj["metadata"]["name"])
        return await create(cluster, obj)

    @functools.wraps(merge)
    async def merging(
        cluster: Cluster, target: Any, patch: Any, subresource: str = "", **options: Any
    ) -> dict[str, Any]:
        began = recorder.clock()
        stored = await merge(cluster, target, patch, subresource=subresource, **options)
        if subresource == "status":
            recorder.answered(began)
        return stored

    Store.put = putting  # type: ignore[method-assign]
    Cluster.delete, Cluster.create = deleting, creating  # type: ignore[method-assign]
    Cluster.merge = merging  # type: ignore[method-assign]
    return recorder


def read(path: Path) -> list[Own]:
    """Return the events that `write` has written."""
    lines = (line.split() for line in path.read_text().splitlines())
    return [
        Own(float(at), kind, name, float(waited), float(spent)) for at, kind, name, waited, spent in lines
    ]


def figures(events: Iterable[Own], kind: str, since: float) -> dict[str, float]:
    """Return the delays of events of one kind after `since`, elapsed and in CPU time, in milliseconds.

    The result is empty without events.
    """
    mine = [event for event in events if event.kind == kind and event.at >= since]
    by_name = {"inside": [event.waited for event in mine], "inside, CPU": [event.spent for event in mine]}
    return {
        f"{name} p{100 * share:.0f}": 1000 * sorted(values)[min(len(values) - 1, int(share * len(values)))]
        for name, values in by_name.items()
        for share in (0.5, 0.99)
        if values
    }


def _has_restarted(pod: Mapping[str, Any]) -> bool:
    return any(status.get("restartCount") for status in pod.get("status", {}).get("containerStatuses") or ())
