"""Leases as an API server stores them, and clients whose requests are slow or fail.

If two clients write the same Lease, the slower one gets a 409.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lws.kube.metadata import copied
from lws.runtime.actions import Reference
from lws.runtime.errors import AlreadyExists, ClusterError, Conflict, Invalid, NotFound
from lws.runtime.leadership.lease import released
from test.unit.fake_time import now

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

Object = dict[str, Any]


class LeaseServer:
    """An API server that stores Leases by name. names: those that a former holder has released."""

    def __init__(self, *names: str) -> None:
        self._version = 100
        self.leases: dict[str, Object] = {
            name: released({"metadata": {"name": name, "resourceVersion": str(self._version)}}, NOW)
            for name in names
        }

    def holder(self, name: str) -> str:
        """Return the holder of the Lease, or "" if there is none."""
        return str(self.leases[name]["spec"]["holderIdentity"]) if name in self.leases else ""

    def get(self, name: str) -> Object:
        if name not in self.leases:
            raise NotFound(404, "NotFound", "no such lease")
        return copied(self.leases[name])

    def create(self, lease: Object) -> Object:
        if lease["metadata"]["name"] in self.leases:
            raise AlreadyExists(409, "AlreadyExists", "somebody was faster")
        return self._store(lease)

    def replace(self, lease: Object) -> Object:
        stored = self.leases.get(lease["metadata"]["name"])
        if stored is None or stored["metadata"]["resourceVersion"] != lease["metadata"].get(
            "resourceVersion"
        ):
            raise Conflict(409, "Conflict", "somebody was faster")
        return self._store(lease)

    def patch(self, name: str, operations: Sequence[Object]) -> Object:
        """Apply a JSON patch as a whole or not at all, with the operations that are used on Leases."""
        lease = self.get(name)
        for operation in operations:
            *parents, key = [
                token.replace("~1", "/").replace("~0", "~") for token in operation["path"][1:].split("/")
            ]
            container: Any = lease
            for parent in parents:
                container = container.get(parent)
            if container is None or (operation["op"] != "add" and key not in container):
                raise Invalid(422, "Invalid", f"{operation['op']} of {operation['path']}: there is nothing")
            if operation["op"] == "test" and container[key] != operation["value"]:
                raise Invalid(422, "Invalid", f"{operation['path']} is {container[key]!r}")
            if operation["op"] == "add":
                container[key] = operation["value"]
            elif operation["op"] == "remove":
                del container[key]
        return self._store(lease)

    def _store(self, lease: Object) -> Object:
        self._version += 1
        stored = copied(lease)
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.leases[lease["metadata"]["name"]] = stored
        return copied(stored)


class LeaseClient:
    """A process's connection to the server.

    delay: a function that draws the seconds of a request or response on its way. trouble: the error that all
    requests raise, or only requests for the Lease `troubled`.
    """

    def __init__(self, server: LeaseServer) -> None:
        self.server = server
        self.delay: Callable[[], float] = lambda: 0.0
        self.trouble: ClusterError | None = None
        self.troubled: str | None = None
        self.requests = 0

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=now())

    async def get(self, kind: str, namespace: str, name: str) -> Object:
        return await self._carry(name, lambda: self.server.get(name))

    async def create(self, lease: Object) -> Object:
        return await self._carry(lease["metadata"]["name"], lambda: self.server.create(lease))

    async def replace(self, lease: Object) -> Object:
        return await self._carry(lease["metadata"]["name"], lambda: self.server.replace(lease))

    async def patch(self, target: Reference, operations: Sequence[Object]) -> Object:
        return await self._carry(target.name, lambda: self.server.patch(target.name, operations))

    async def _carry(self, name: str, request: Callable[[], Object]) -> Object:
        self.requests += 1
        await self._travel(name)
        answer = request()
        await self._travel(name)
        return answer

    async def _travel(self, name: str) -> None:
        await asyncio.sleep(self.delay())
        if self.trouble is not None and self.troubled in (None, name):
            raise self.trouble
