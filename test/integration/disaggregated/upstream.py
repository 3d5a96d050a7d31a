"""Play upstream's controller: create on a real API server the DisaggregatedSet that a state describes.

The LeaderWorkerSets come first, without an owner, so that they get their pods. The set that controls them
follows, with its other objects.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lws_api.disaggregatedset.v1 import KIND
from test.harness.groups import name_of, settle
from test.harness.world import SET, World

Object = dict[str, Any]

_UID = "uid-of-the-set"


@dataclass
class UpstreamController:
    """Plays one state in one namespace."""

    world: World
    objects: list[Object] = field(default_factory=list)

    @property
    def cluster(self) -> UpstreamController:
        """Return the object that states are written to."""
        return self

    def add(self, obj: Mapping[str, Any]) -> Object:
        """Add an object, as the cluster in memory does."""
        added: Object = copy.deepcopy(dict(obj))
        added["metadata"]["namespace"] = self.world.namespace
        if added["kind"] == KIND:
            added["metadata"]["uid"] = _UID
        self.objects.append(added)
        return added

    def change(self, obj: Object, status: Object) -> None:
        """Change an object, as the cluster in memory does."""
        obj["status"] = status

    def bring_up(self) -> None:
        """Create the children, and wait for their groups."""
        for lws in self._of(SET):
            metadata = {key: value for key, value in lws["metadata"].items() if key != "ownerReferences"}
            self.world.create({**lws, "metadata": metadata})
        settle(self.world, *map(name_of, self._of(SET)))

    def control(self) -> None:
        """Create the set, and make it the controller of all its objects."""
        (described,) = self._of(KIND)
        created = self.world.create(_without_server_fields(described))
        uid = created["metadata"]["uid"]
        for lws in self._of(SET):
            owners = _owned(lws, uid)["metadata"]["ownerReferences"]
            self.world.patch(SET, name_of(lws), {"metadata": {"ownerReferences": owners}})
        for obj in self.objects:
            if obj["kind"] not in (KIND, SET):
                self.world.create(_owned(obj, uid))
                self._write_status(obj)
        self._write_status(described)

    def _write_status(self, obj: Object) -> None:
        if status := obj.get("status"):
            path = f"{self.world.path(obj['kind'], name_of(obj))}/status"
            self.world.api.merge(path, {"status": status})

    def _of(self, kind: str) -> list[Object]:
        return [obj for obj in self.objects if obj["kind"] == kind]


def _owned(obj: Object, uid: str) -> Object:
    owners = [{**reference, "uid": uid} for reference in obj["metadata"]["ownerReferences"]]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": owners}}


def _without_server_fields(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "uid"}
    return {**obj, "metadata": metadata}
