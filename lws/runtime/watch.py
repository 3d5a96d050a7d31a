"""Feed changes into the store: workloads from kopf, their children from informers."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import kopf

from lws import timing
from lws.runtime.actions import Object
from lws.runtime.client.connection import pages
from lws.runtime.client.resources import Resource, Workload
from lws.runtime.errors import ClusterError
from lws.runtime.informer import Informer, Source
from lws.runtime.store import Store

log = logging.getLogger(__name__)


def informers_of(source: Source, store: Store, workloads: Iterable[Workload]) -> dict[str, Informer]:
    """One stream by name for each kind of child, with a label selector. Kinds that are workloads themselves
    come from kopf.
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


def register(registry: kopf.OperatorRegistry, store: Store, resource: Resource) -> None:
    """Let kopf put a kind of workload into the store.

    Only `on.event`: kopf's other handlers write annotations and finalizers to users' objects.
    """

    @kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)
    async def take(event: kopf.RawEvent, **_: Any) -> None:
        if event["type"] == "DELETED":
            store.drop(event["object"])
        else:
            store.put(event["object"])


class KopfStream:
    """Compares the store with the API server at intervals, to see whether kopf's stream of a kind is alive.

    kopf does not report that its first list is complete, that a watch is silent, or which objects were
    deleted during an interruption.
    """

    def __init__(self, source: Source, store: Store, resource: Resource) -> None:
        self.resource = resource
        self._cluster, self._rollback, self._clock = source.cluster, source.rollback, source.clock
        self._store = store
        self._agreed_at = self._clock()
        self._newest = 0
        self.listed = asyncio.Event()

    @property
    def silent_for(self) -> float:
        """Seconds since the store last agreed with the API server about the existing objects. An API server
        that does not answer resets it, because that is no fault of this process.
        """
        return self._clock() - self._agreed_at

    async def refresh(self) -> None:
        """Return once the store has every object in the version that was stored before the call, or later.
        Raises ClusterError.
        """
        pause = timing.CATCH_UP.first
        behind = await self._behind(None)
        while behind:
            await asyncio.sleep(pause)
            pause = timing.CATCH_UP.following(pause)
            behind = await self._behind(behind)

    async def run(self, interval: float) -> None:
        """Compare indefinitely: at short intervals until the first agreement and while they differ."""
        plural = self.resource.plural
        behind: Mapping[str, int] | None = None
        while True:
            pause = timing.CATCH_UP.longest if self.listed.is_set() else timing.CATCH_UP.first
            try:
                behind = await self._behind(behind or None)
                if not behind:
                    self._agreed_at = self._clock()
                    self.listed.set()
                    pause = interval
                elif self.silent_for > interval:
                    seconds = self.silent_for
                    log.warning("%s: the stream is behind the API server for %.0f s", plural, seconds)
            except ClusterError as error:
                log.warning("%s: %s", plural, error.message)
                self._agreed_at = self._clock()
                pause = timing.CATCH_UP.longest
            await asyncio.sleep(pause)

    async def _behind(self, awaited: Mapping[str, int] | None) -> Mapping[str, int]:
        """By UID, the versions that the store lacks: of those awaited, or (None) of all listed now.

        Under constant writes the store never catches up with the newest list, so later lists only show which
        objects are not awaited any more. Objects that are no longer listed are dropped: kopf relists after an
        interruption but does not report what was deleted meanwhile.
        """
        kind, plural = self.resource.kind, self.resource.plural
        listed: dict[str, int] = {}
        version, newest = "", self._newest
        async for page in pages(self._cluster, self.resource, {}, metadata_only=True):
            for item in page.get("items") or ():
                listed[item["metadata"]["uid"]] = int(item["metadata"]["resourceVersion"])
            version = page["metadata"]["resourceVersion"]
            read = self._rollback.check(plural, version, newest)
            self._newest = max(self._newest, read)
        self._store.retain(kind, listed.keys(), version)
        stored = {_uid(obj): _version(obj) for obj in self._store.of_kind(kind)}
        for uid, read in listed.items():
            self._rollback.compare(plural, version, read, stored.get(uid, 0))
        wanted = listed if awaited is None else {uid: awaited[uid] for uid in awaited if uid in listed}
        return {uid: read for uid, read in wanted.items() if stored.get(uid, -1) < read}


def _uid(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
