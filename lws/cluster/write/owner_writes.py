"""Give an object an owner or take it away, without robbing anybody who is faster.

In: a `SetOwner`. Out: the object as it is stored then; `Overtaken` where it is not as the plan saw it any
more.

A list of owners can only be replaced as a whole. So the new list is made from the object as it is at this
moment, and the write carries the version of that read: between the two nobody can add or lose an owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lws.actions import Object, SetOwner
from lws.cluster.client.connection import Cluster
from lws.cluster.errors import Conflict, NotFound, Overtaken
from lws.kube.metadata import controller_of, is_terminating, metadata_of
from lws.kube.ownership import owners_with, owners_without


async def write_owner(cluster: Cluster, action: SetOwner, see: Callable[[Mapping[str, Any]], None]) -> Object:
    """The object with its new owners. see: told what was read where that is another one than was planned for;
    the next plan must know it.
    """
    live = await _read(cluster, action)
    if not _is_as_planned(live, action):
        see(live)
        raise Overtaken(f"{action.target} has another owner, or is another one or going")
    known = metadata_of(live).get("ownerReferences") or []
    owners = owners_with(live, action.owner) if action.is_owner else owners_without(live, action.owner)
    if not action.patch and _is_same(known, owners):
        return live
    version = live["metadata"]["resourceVersion"]
    patch = {**action.patch, "metadata": {"ownerReferences": owners, "resourceVersion": version}}
    try:
        return await cluster.merge(action.target, patch)
    except (Conflict, NotFound) as error:
        live = await _read(cluster, action)
        if live["metadata"]["resourceVersion"] == version:
            # Webhooks answer 409 too.
            raise
        see(live)
        raise Overtaken(f"{action.target} was changed at the same time") from error


async def _read(cluster: Cluster, action: SetOwner) -> Object:
    target = action.target
    try:
        return await cluster.get(target.kind, target.namespace, target.name)
    except NotFound as error:
        raise Overtaken(f"{target} is gone") from error


def _is_as_planned(live: Object, action: SetOwner) -> bool:
    controller = controller_of(live)
    is_free = controller is None or controller.get("uid") == action.owner["uid"]
    return is_free and live["metadata"]["uid"] == action.target.uid and not is_terminating(live)


def _is_same(known: list[Any], owners: list[Mapping[str, Any]]) -> bool:
    return len(known) == len(owners) and all(owner in known for owner in owners)
