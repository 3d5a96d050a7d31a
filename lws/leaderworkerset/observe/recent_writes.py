"""Record our own writes between passes over LeaderWorkerSets and their groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from cachetools import FIFOCache

from lws import timing
from lws.kube.metadata import controller_of, uid_of
from lws.kube.nodes import node_of
from lws.kube.patches import digest
from lws.leaderworkerset.fields import value_at
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.reading import parse
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.runtime.actions import Apply, Create, Object
from lws.runtime.recent_writes import RecentWrites
from lws.runtime.store import Store
from lws.runtime.throttle import ActiveSets
from lws_api.leaderworkerset.v1 import KIND

_APPLIED = 65536


class SetWrites(RecentWrites[Recorded]):
    """Record of our own writes to LeaderWorkerSets and their objects. applied: digest of the last intent and
    the resulting generation, by UID of the applied object. If other clients change the result, the intent is
    still applied only once. deleting: UIDs of pods that passes are deleting.
    """

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.monotonic, active: ActiveSets | None = None
    ) -> None:
        super().__init__(store, KIND, parse, spec_fault, clock, active=active)
        self.applied = FIFOCache[str, tuple[str, int]](_APPLIED)
        self.deleting: set[str] = set()
        self._dropped_at = float("-inf")

    @property
    def drops_start_ordinal(self) -> bool:
        """Whether the API server recently dropped the `spec.ordinals.start` of a StatefulSet. This expires,
        because API servers are upgraded.
        """
        return self.clock() - self._dropped_at < timing.DROPPED_FIELD_SECONDS

    def put(self, obj: Mapping[str, Any]) -> None:
        """Store an object that one of our writes returned."""
        if obj["kind"] == "Status":
            return
        self._store.put(obj)
        is_of_workers = obj["kind"] == "StatefulSet" and (controller_of(obj) or {}).get("kind") == "Pod"
        is_noted = obj["kind"] in (KIND, "StatefulSet") and not is_of_workers
        if is_noted and self._is_stored(obj):
            self.throttle.record_write(obj)

    def drop(self, answer: Mapping[str, Any]) -> None:
        """Drop a pod that one of our deletions removed, if it never had a node.

        Only the last state of a pod proves that it never ran. If the stream breaks before it reports the
        deletion, the list that follows does not contain the pod. answer: the response to a deletion after
        which the object no longer exists; empty if there was none.
        """
        if answer.get("kind") == "Pod" and not node_of(answer):
            self._store.drop(answer)

    def record_apply(self, action: Apply, stored: Mapping[str, Any]) -> None:
        """Record the intent of an apply and the generation of the object that it returned."""
        metadata = stored["metadata"]
        if not self._is_stored(stored):
            return
        self.applied[metadata["uid"]] = (digest(action.intent), metadata.get("generation", 0))

    def record_create(self, action: Create, stored: Mapping[str, Any]) -> None:
        """Record whether the API server kept the start ordinal of a StatefulSet that we created. Responses to
        other writes do not show that: a user may have removed the field.
        """
        start = ("spec", "ordinals", "start")
        if value_at(action.intent, start) is not None:
            is_dropped = value_at(stored, start) is None
            self._dropped_at = self.clock() if is_dropped else float("-inf")

    def forget(self, obj: Object) -> None:
        """Drop the records of a deleted object."""
        super().forget(obj)
        self.applied.pop(uid_of(obj), None)
