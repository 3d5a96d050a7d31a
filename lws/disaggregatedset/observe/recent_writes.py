"""Remember the manager's own writes between passes over DisaggregatedSets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lws import timing
from lws.disaggregatedset.revisions.record import RecordedRoles, read, template_hash
from lws.disaggregatedset.spec import fault_of
from lws.kube.metadata import uid_of
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.runtime.actions import Object, Reference
from lws.runtime.recent_writes import RecentWrites
from lws.runtime.refusals import Computed
from lws.runtime.store import Store
from lws.runtime.throttle import ActiveSets
from lws_api.disaggregatedset.v1 import KIND

_CHILDREN = 4096


class DisaggregatedMemory(RecentWrites[RecordedRoles]):
    """Remembers which changes of the store result from the manager's own writes."""

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.monotonic, active: ActiveSets | None = None
    ) -> None:
        shortest = {KIND: timing.DISAGGREGATED_STATUS_SECONDS}
        super().__init__(store, KIND, read, _fault_of, clock, shortest, active)
        # The object that is being stored or dropped because of one of our writes.
        self._written: Object | None = None
        self._templates = Computed[str](_CHILDREN)

    def forget(self, obj: Object) -> None:
        """Drop the records of a deleted object."""
        super().forget(obj)
        self._templates.forget(uid_of(obj))

    def template_hash_of(self, child: Object) -> str:
        """Return the hash of a child's template, computed once per generation."""
        metadata, spec = child["metadata"], child["spec"]
        return self._templates.of(metadata["uid"], metadata.get("generation", 0), lambda: template_hash(spec))

    def put(self, obj: Mapping[str, Any]) -> None:
        """Store an object that the response to one of our writes contains."""
        if obj["kind"] == "Status":
            return
        with self._storing(obj):
            self._store.put(obj)
        if not self._is_stored(obj):
            return
        if obj["kind"] == KIND:
            self.throttle.record_write(obj)
        else:
            self.throttle.record_arrival(uid_of(obj))

    def drop(self, target: Reference) -> None:
        """Drop an object that we deleted before the stream reports the deletion. Otherwise the next pass
        would delete it again and report that.
        """
        stored = self._store.get(target.kind, target.namespace, target.name)
        if stored is not None and stored["metadata"]["uid"] == target.uid:
            with self._storing(stored):
                self._store.drop(stored)

    def is_ours(self, obj: Object) -> bool:
        """Return whether this change results from one of our writes: the write returned or deleted the
        object, or the status is as our last write left it.

        The stream delivers no state twice.
        """
        is_returned = self._written is not None and _state(self._written) == _state(obj)
        return is_returned or self.statuses.is_as_written(obj)

    @contextmanager
    def _storing(self, obj: Object) -> Iterator[None]:
        self._written = obj
        try:
            yield
        finally:
            self._written = None


def _fault_of(obj: Object) -> str:
    """Explain why a DisaggregatedSet or a child cannot be read; empty if it can."""
    return fault_of(obj) if obj["kind"] == KIND else spec_fault(obj)


def _state(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata["uid"], metadata["resourceVersion"]
