"""Retry a write to a set while its controller keeps writing its status.

Raises a `Refusal` if the spec has changed since it was read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from lws.cli.refusal import Refusal
from lws.cli.session import Session
from lws.runtime.actions import Object
from lws.runtime.errors import Conflict, Invalid

_ATTEMPTS = 10

Write = Callable[[Object], Awaitable[dict[str, Any]]]


async def write_unless_changed(session: Session, lws: Object, write: Write) -> dict[str, Any]:
    """Write; again with the set as it is then, as long as nothing but its status was changed in between."""
    read, metadata = lws, lws["metadata"]
    for _ in range(_ATTEMPTS):
        try:
            return await write(read)
        except (Conflict, Invalid):
            # A JSON patch whose test fails is Invalid, and the server does not say more.
            fresh = await session.cluster.get(lws["kind"], metadata["namespace"], metadata["name"])
            if fresh["metadata"]["resourceVersion"] == read["metadata"]["resourceVersion"]:
                raise
            if _written_by_users(fresh) != _written_by_users(lws):
                break
            read = fresh
    name = metadata["name"]
    raise Refusal(f"set {name} was changed by somebody else just now: look at it, then try again")


def _written_by_users(lws: Object) -> tuple[str, int, object]:
    """What users write."""
    metadata = lws["metadata"]
    return metadata["uid"], metadata.get("generation", 0), metadata.get("annotations")
