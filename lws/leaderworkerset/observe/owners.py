"""Report whether the controllers of foreign objects still exist, as far as the store knows.

An owner of a kind that is not watched is assumed to exist.
"""

from __future__ import annotations

from lws.kube.metadata import controller_of, labels_of
from lws.runtime.actions import Object
from lws.runtime.store import Store
from lws.runtime.workloads import Workload


class Owners:
    """Looks for owners in the store. workload: the one that the objects would belong to."""

    def __init__(self, store: Store, workload: Workload) -> None:
        self._store = store
        self._workload = workload
        self._watched = {workload.resource.kind, *workload.owners}

    def alive(self, *objects: Object | None) -> frozenset[str]:
        """UIDs of the controllers that live."""
        return frozenset(
            owner["uid"]
            for obj in objects
            if obj is not None and (owner := controller_of(obj)) is not None and self._is_alive(obj, owner)
        )

    def _is_alive(self, obj: Object, owner: Object) -> bool:
        if owner["kind"] not in self._watched:
            return True
        known = self._store.get(owner["kind"], obj["metadata"]["namespace"], owner["name"])
        if known is not None:
            return bool(known["metadata"]["uid"] == owner["uid"])
        # The kind itself is all watched, and whatever has the label; any other owner may live unseen.
        workload = self._workload
        return owner["kind"] != workload.resource.kind and workload.label not in labels_of(obj)
