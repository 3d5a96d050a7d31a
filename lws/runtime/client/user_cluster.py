"""Requests of commands: lists of one namespace, patches by a field manager, and dry runs.

They serve the kinds in `resources`, return objects as the server sent them, and raise `ClusterError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubernetes.aio.client.configuration import Configuration

from lws.runtime.actions import Object, Reference
from lws.runtime.client.connection import APPLY, JSON_PATCH, MERGE, Cluster, pages
from lws.runtime.client.resources import DISAGGREGATED_SETS, ROLE_SCALERS

_STRICT = {"fieldManager": "kubectl", "dryRun": "All", "fieldValidation": "Strict"}
"""Query of a dry run that rejects unknown fields, as kubectl does."""


class UserCluster(Cluster):
    """A connection with a user's rights. It holds no Lease, and each call waits for its response."""

    def __init__(self, configuration: Configuration, user_agent: str) -> None:
        super().__init__(configuration, user_agent)
        self.learn(DISAGGREGATED_SETS, ROLE_SCALERS)

    async def listed(
        self, kind: str, namespace: str, selector: str = "", fields: str = ""
    ) -> list[dict[str, Any]]:
        """Return all objects of a kind in a namespace that match a label and a field selector, with kind and
        version.
        """
        resource = self._resources[kind]
        selectors = {"labelSelector": selector, "fieldSelector": fields}
        query = {name: value for name, value in selectors.items() if value}
        # Items of a list lack kind and version.
        typed = {"apiVersion": resource.api_version, "kind": kind}
        objects = []
        async for page in pages(self, resource, query, namespace=namespace):
            objects += [{**typed, **item} for item in page.get("items") or ()]
        return objects

    async def json_patch(
        self, target: Reference, operations: Sequence[Object], manager: str, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Send a JSON patch (RFC 6902) as the field manager `manager`. A failed test raises Invalid."""
        return await self._patch(target, operations, JSON_PATCH, _query(manager, dry_run))

    async def merge_patch(
        self, target: Reference, patch: Object, manager: str, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Send a JSON merge patch (RFC 7386) as the field manager `manager`.

        With a resourceVersion in the reference, a concurrent change raises Conflict.
        """
        if target.resource_version:
            metadata = {**patch.get("metadata", {}), "resourceVersion": target.resource_version}
            patch = {**patch, "metadata": metadata}
        return await self._patch(target, patch, MERGE, _query(manager, dry_run))

    async def try_create(self, obj: Object) -> dict[str, Any]:
        """Return the object that a create would store (dry run)."""
        path = self._resources[obj["kind"]].path(obj["metadata"]["namespace"])
        return await self._request("POST", path, body=obj, query=_STRICT)

    async def try_merge(self, target: Reference, patch: Object) -> dict[str, Any]:
        """Return the object that a merge patch would store (dry run)."""
        return await self._patch(target, patch, MERGE, _STRICT)

    async def try_apply(self, intent: Object, *, force: bool) -> dict[str, Any]:
        """Return the object that `kubectl apply --server-side` would store (dry run)."""
        query = {**_STRICT, "force": "true" if force else "false"}
        return await self._patch(Reference.to(intent), intent, APPLY, query)


def _query(manager: str, dry_run: bool) -> dict[str, str]:
    return {"fieldManager": manager, **({"dryRun": "All"} if dry_run else {})}
