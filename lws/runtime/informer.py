"""Feed changes into the store: one stream per kind of child, and a check of kopf's streams of workloads.

The `Watch` of the kubernetes client is not used. It fails at events longer than its buffer, and it builds a
model of each object, which takes longer than the rest of the processing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lws import timing
from lws.kube.metadata import uid_of, version_number
from lws.runtime.client.connection import Cluster, pages
from lws.runtime.client.resources import Resource, Workload
from lws.runtime.errors import ApiError, ClusterError, Gone, Throttled, api_error, decoded
from lws.runtime.store import Store

# --- Detect that the cluster went back to an older state, as it does if etcd is restored from a backup.


class RolledBack(ClusterError):
    """A consistent read was older than an earlier one, so the cached state may never have existed."""


class Rollback:
    """Records whether a rollback was detected. Each engine has its own record, which is discarded with it."""

    def __init__(self) -> None:
        self._noticed = asyncio.Event()
        self._error = RolledBack("")

    @property
    def is_rolled_back(self) -> bool:
        """Whether a rollback was detected: nothing that was read before may be used."""
        return self._noticed.is_set()

    async def wait(self) -> None:
        """Raise RolledBack once a rollback is detected."""
        await self._noticed.wait()
        raise self._error

    def compare(self, subject: str, version: str, read: int, cached: int) -> None:
        """Compare an object in a consistent list as of `version` with the newest known version of the object.

        Raises RolledBack if the list should contain the known (`cached`) version but contains an older one
        (`read`): a restored etcd may continue its revision numbers although its objects are old.
        """
        if read < cached <= version_number(version):
            self._report_rollback(subject, read, cached)

    def check(self, subject: str, version: str, newest: int) -> int:
        """Return the resourceVersion of a consistent read as a number; 0 if it is not a number.

        Raises RolledBack if the read is older than `newest`, the newest version of this resource that was
        seen before the read began.
        """
        read = version_number(version)
        if 0 < read < newest:
            self._report_rollback(subject, read, newest)
        return read

    def _report_rollback(self, subject: str, read: int, newest: int) -> None:
        self._noticed.set()
        self._error = RolledBack(
            f"{subject}: the API server shows resourceVersion {read} after {newest}: etcd was restored from "
            "a backup, and writes stop until everything is relisted"
        )
        raise self._error


log = logging.getLogger(__name__)

# A decoded page takes ten times the memory of what is kept of it, and all streams list at the same time.
_PAGE = "100"


@dataclass(frozen=True, slots=True)
class Source:
    """What all streams share, such as the record that is notified if a list is older than an earlier one."""

    cluster: Cluster
    rollback: Rollback = field(default_factory=Rollback)
    clock: Callable[[], float] = time.monotonic


class Informer:
    """Keeps the store current with one collection, apart from objects of streams with `other_labels`."""

    def __init__(
        self,
        source: Source,
        resource: Resource,
        selector: str,
        store: Store,
        other_labels: Collection[str] = (),
    ) -> None:
        self.resource = resource
        self.listed = asyncio.Event()
        self._cluster, self._rollback, self._clock = source.cluster, source.rollback, source.clock
        self._query = {"labelSelector": selector} if selector else {}
        self._store = store
        self._other_labels = other_labels
        self._heard_at = self._read_at = self._clock()
        self._version = ""
        self._newest = 0
        self._has_heard = False

    @property
    def seconds_silent(self) -> float:
        """Seconds since the last object, bookmark, page of a list or error.

        Pages count: a slow API server may take longer for a list than a watch may be silent. Errors count: an
        API server that does not respond is not a fault of this process.
        """
        return self._clock() - self._heard_at

    @property
    def seconds_behind(self) -> float:
        """Seconds since the last object, bookmark or list: the maximum age of the stored objects."""
        return self._clock() - self._read_at

    async def refresh(self) -> None:
        """Bring the store up to date with everything that the API server had stored before the call.

        The watch continues. Raises ClusterError.
        """
        await self._read()

    async def run(self) -> None:
        """List and watch indefinitely.

        A broken connection is resumed, and an error response causes a new list. The delay before the next
        attempt grows while nothing is received.
        """
        failures, delay = 0, 0.0
        while True:
            self._has_heard = False
            began, retry_after = self._clock(), 0.0
            try:
                if not self._version:
                    self._version = await self._read()
                    self._read_at = self._clock()
                    self.listed.set()
                await self._watch()
            except ClusterError as error:
                level = logging.INFO if isinstance(error, Gone) else logging.WARNING
                log.log(level, "%s: %s", self.resource.plural, error.message)
                self._heard_at = self._clock()
                retry_after = error.retry_after or 0.0
                if isinstance(error, ApiError):
                    # Only an overloaded server can resume the watch from this version later.
                    self._version = self._version if isinstance(error, Throttled) else ""
            # A proxy may cut idle streams, which must not increase the backoff.
            has_lasted = self._clock() - began > max(delay, timing.STEADY_STREAM_SECONDS)
            failures = 0 if self._has_heard or has_lasted else failures + 1
            delay = max(retry_after, timing.STREAM_BACKOFF.after(failures) * random.uniform(0.5, 1.0))
            await asyncio.sleep(delay)

    async def _read(self) -> str:
        """List all objects with consistent reads, store them, and return the version of the list."""
        uids: set[str] = set()
        newest = self._newest
        page = await self._page("")
        first = page["metadata"]["resourceVersion"]
        self._newest = max(self._newest, self._rollback.check(self.resource.plural, first, newest))
        # The server prepares the next page while this one is processed.
        while token := page["metadata"].get("continue"):
            page, _ = await asyncio.gather(self._page(token), self._store_page(page, uids))
        await self._store_page(page, uids)
        version: str = page["metadata"]["resourceVersion"]
        self._store.retain(self.resource.kind, uids, version, self._other_labels)
        return version

    async def _page(self, token: str) -> dict[str, Any]:
        query = {**self._query, "limit": _PAGE, **({"continue": token} if token else {})}
        page = await self._cluster.list_page(self.resource, query)
        self._heard_at = self._clock()
        return page

    async def _store_page(self, page: dict[str, Any], uids: set[str]) -> None:
        """Store the objects of a page and remove them from the page, to limit memory."""
        items = page.pop("items", None) or []
        items.reverse()
        while items:
            item = items.pop()
            # Items of a list lack the kind, unlike objects in events.
            item["kind"], item["apiVersion"] = self.resource.kind, self.resource.api_version
            metadata = item["metadata"]
            uids.add(metadata["uid"])
            self._rollback.compare(
                self.resource.plural,
                page["metadata"]["resourceVersion"],
                version_number(metadata.get("resourceVersion", "")),
                self._store.version_of(item),
            )
            self._store.put(item)

    async def _watch(self) -> None:
        query = {
            **self._query,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timing.WATCH_SECONDS),
        }
        async with self._cluster.watch(self.resource, query, timing.SILENT_WATCH_SECONDS) as stream:
            async for line in _lines(stream):
                self._store_event(decoded(line, f"a line of the watch of {self.resource.plural}"))
                self._heard_at = self._read_at = self._clock()
                self._has_heard = True

    def _store_event(self, event: Mapping[str, Any]) -> None:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            raise api_error(int(obj.get("code") or 500), obj, "the watch ended with an error", None)
        if kind == "DELETED":
            self._store.drop(obj)
        elif kind != "BOOKMARK":
            self._store.put(obj)
        self._version = obj["metadata"]["resourceVersion"]
        self._newest = max(self._newest, version_number(self._version))


async def _lines(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split a stream into lines of any length, because one object may be larger than the reader's buffer."""
    pending: list[bytes] = []
    async for chunk in stream:
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            pending.append(chunk)
            continue
        for line in b"".join((*pending, head)).split(b"\n"):
            if line:
                yield line
        pending = [tail]


def informers_of(source: Source, store: Store, workloads: Iterable[Workload]) -> dict[str, Informer]:
    """Create the streams of all kinds of children, by name: one for each kind and label.

    Kinds that are workloads themselves are omitted, because their objects come from kopf.
    """
    labels: defaultdict[Resource, list[str]] = defaultdict(list)
    for workload in workloads:
        for child in workload.children:
            labels[child].append(workload.label)
    for workload in workloads:
        labels.pop(workload.resource, None)
    return {
        child.plural if label == of_child[0] else f"{child.plural} with {label}": Informer(
            source, child, label, store, frozenset(of_child) - {label}
        )
        for child, of_child in labels.items()
        for label in of_child
    }


class KopfStream:
    """Compares the store with the API server at intervals to check whether kopf's stream of a kind is alive.

    kopf does not report that its first list is complete, that a watch is silent, or which objects were
    deleted during an interruption.
    """

    def __init__(self, source: Source, store: Store, resource: Resource) -> None:
        self.resource = resource
        self._cluster, self._rollback, self._clock = source.cluster, source.rollback, source.clock
        self._store = store
        self._heard_at = self._behind_since = self._clock()
        # As of the last comparison: how long the store has lacked the same number of versions.
        self._seconds_behind = 0.0
        self._newest = 0
        self.listed = asyncio.Event()

    @property
    def seconds_silent(self) -> float:
        """Seconds since the last page of a comparison, or, if that is longer, without progress of the stream.

        A comparison that takes long shows nothing about the stream before it ends. An API server that does
        not respond resets the count, because that is not a fault of this process.
        """
        return max(self._clock() - self._heard_at, self._seconds_behind)

    async def refresh(self) -> None:
        """Wait until the store is as new as the API server was before the call. Raises ClusterError."""
        pause = timing.CATCH_UP.first
        behind = await self._find_missed(None)
        while behind:
            await asyncio.sleep(pause)
            pause = timing.CATCH_UP.following(pause)
            behind = await self._find_missed(behind)

    async def run(self, interval: float) -> None:
        """Compare indefinitely, at short intervals until the first agreement and while the objects differ."""
        plural = self.resource.plural
        behind: Mapping[str, int] = {}
        failures = 0
        while True:
            pause = timing.CATCH_UP.longest if self.listed.is_set() else timing.CATCH_UP.first
            try:
                before, behind = behind, await self._find_missed(behind or None)
                failures = 0
                self._record_progress(before, behind)
                if not behind:
                    self.listed.set()
                    pause = interval
                elif self._seconds_behind > interval:
                    seconds = self._seconds_behind
                    log.warning("%s: the stream is behind the API server for %.0f s", plural, seconds)
            except ClusterError as error:
                log.warning("%s: %s", plural, error.message)
                failures += 1
                self._record_progress({}, {})
                backoff = timing.STREAM_BACKOFF.after(failures)
                pause = max(timing.CATCH_UP.longest, backoff, error.retry_after or 0.0)
            await asyncio.sleep(pause)

    def _record_progress(self, before: Mapping[str, int], behind: Mapping[str, int]) -> None:
        """Record the versions that the store lacked before and after a comparison."""
        self._heard_at = self._clock()
        if not before or len(behind) < len(before):
            self._behind_since = self._heard_at
        self._seconds_behind = self._heard_at - self._behind_since

    async def _find_missed(self, awaited: Mapping[str, int] | None) -> Mapping[str, int]:
        """Compare the store with the API server, and return the versions that the store lacks, by UID.

        Objects that are no longer listed are dropped: kopf relists after an interruption but does not report
        what was deleted meanwhile.

        awaited: the versions to look for; None for all that are listed now. Under constant writes the store
        never catches up with the newest list, so later lists only show which objects are no longer awaited.
        """
        kind, plural = self.resource.kind, self.resource.plural
        listed: dict[str, int] = {}
        version, newest = "", self._newest
        async for page in pages(self._cluster, self.resource, {}, metadata_only=True):
            for item in page.get("items") or ():
                listed[item["metadata"]["uid"]] = int(item["metadata"]["resourceVersion"])
            self._heard_at = self._clock()
            version = page["metadata"]["resourceVersion"]
            read = self._rollback.check(plural, version, newest)
            self._newest = max(self._newest, read)
        self._store.retain(kind, listed.keys(), version)
        stored = {uid_of(obj): int(obj["metadata"]["resourceVersion"]) for obj in self._store.of_kind(kind)}
        for uid, read in listed.items():
            self._rollback.compare(plural, version, read, stored.get(uid, 0))
        expected = listed if awaited is None else {uid: awaited[uid] for uid in awaited if uid in listed}
        return {uid: read for uid, read in expected.items() if stored.get(uid, -1) < read}
