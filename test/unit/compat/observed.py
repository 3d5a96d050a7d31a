"""Observe and plan a stored state as the controller would, with the real observer and without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.observe.observer import Observer
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.plan import plan as plan_set
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Plan
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import Resource
from lws.runtime.errors import NotFound
from lws.runtime.store import Store

Object = dict[str, Any]

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class StoredObjects:
    """The API that the observer uses, answered from a list of objects."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._objects = list(objects)

    async def get(self, kind: str, namespace: str, name: str) -> Object:
        for obj in self._objects:
            if obj["kind"] == kind and obj["metadata"]["name"] == name:
                return obj
        raise NotFound(404, "NotFound", f"no {kind} {name}")

    async def list_page(
        self, resource: Resource, query: Mapping[str, str], metadata_only: bool = False, namespace: str = ""
    ) -> Object:
        assert not query
        items = [obj for obj in self._objects if obj["kind"] == resource.kind]
        # Items of a list have neither kind nor version.
        return {
            "items": [{key: obj[key] for key in obj if key not in ("kind", "apiVersion")} for obj in items]
        }


class Observed:
    """A state as the streams have delivered it.

    late: objects that the streams have not delivered yet.
    """

    def __init__(self, objects: Iterable[Object], name: str = "web", late: Iterable[Object] = ()) -> None:
        self._name = name
        self._objects = list(objects)
        missing = list(late)
        store = Store(lambda before, after: None, TABLES)
        for obj in self._objects:
            if obj not in missing:
                store.put(obj)
        self._observer = Observer(cast(Cluster, StoredObjects(self._objects)), store, SetWrites(store))

    async def of_set(self) -> SetSnapshot:
        snapshot = await self._observer.observe_set("default", self._name, NOW)
        assert snapshot is not None
        return snapshot

    async def of_group(self, index: int) -> GroupSnapshot:
        snapshot = await self._observer.observe_group("default", f"{self._name}-{index}", NOW)
        assert snapshot is not None
        return snapshot

    async def plan_set(self) -> Plan:
        return plan_set(await self.of_set())

    async def plan_groups(self) -> dict[int, Plan]:
        """Return the plan of every group that has a leader pod, by index."""
        pods = [obj for obj in self._objects if obj["kind"] == "Pod"]
        leaders = [
            pod
            for pod in pods
            if pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
        ]
        indices = sorted(int(pod["metadata"]["name"].rpartition("-")[2]) for pod in leaders)
        return {index: plan_group(await self.of_group(index)) for index in indices}
