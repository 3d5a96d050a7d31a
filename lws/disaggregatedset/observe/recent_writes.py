"""What we remember between passes over DisaggregatedSets; losing it costs a read or a write, no more.

In: what the API server returned to our writes, revisions and specs to be parsed. Out: facts for snapshots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lws import timing
from lws.disaggregatedset.revisions.record import RecordedRoles, read
from lws.disaggregatedset.spec import fault_of
from lws.kube.metadata import name_of, namespace_of, uid_of
from lws.leaderworkerset.observe.recent_writes import OwnStatuses
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.runtime.actions import Object, Plan, Reference
from lws.runtime.refusals import Computed, Refusals, TakenNames
from lws.runtime.store import Store
from lws.runtime.throttle import Moving, Throttle
from lws_api.disaggregatedset.v1 import KIND

_PARSED = 4096
_CHECKED = 4096


class DisaggregatedMemory:
    """One per term. refusals: writes that the API server did not take. taken: names that creates of ours
    did not get. throttle: when statuses that were written lately are written again. statuses: what these
    writes left. moving: see `Throttle`.
    """

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.monotonic, moving: Moving | None = None
    ) -> None:
        self.refusals = Refusals(clock)
        self.taken = TakenNames(store)
        self.statuses = OwnStatuses(store)
        shortest = {KIND: timing.DISAGGREGATED_STATUS_SECONDS}
        self.throttle = Throttle(clock, shortest, self.statuses.is_edited, moving)
        self._store = store
        self._parsed = Computed[RecordedRoles](_PARSED)
        self._checked = Computed[str](_CHECKED)
        self._taken_in: Object | None = None

    def put(self, obj: Mapping[str, Any]) -> None:
        """Take in an object that a write of ours returned."""
        if obj["kind"] == "Status":
            return
        with self._taking_in(obj):
            self._store.put(obj)
        # What has gone before the answer came is not remembered: nobody would tell that it has gone.
        if not self._store.has(obj["kind"], namespace_of(obj), name_of(obj), uid_of(obj)):
            return
        if obj["kind"] == KIND:
            self.throttle.note(obj)
        else:
            self.throttle.answered(uid_of(obj))

    def gone(self, target: Reference) -> None:
        """Take in that a deletion of ours has ended an object, before the stream says so: it would be deleted
        and told again.
        """
        known = self._store.get(target.kind, target.namespace, target.name)
        if known is not None and known["metadata"]["uid"] == target.uid:
            with self._taking_in(known):
                self._store.drop(known)

    def due(self, plan: Plan) -> Plan:
        """The part of a plan that is carried out now."""
        due = self.throttle.due(plan)
        for status in plan.statuses:
            target = status.target
            if not self._store.has(target.kind, target.namespace, target.name, target.uid):
                self.throttle.forget(target.uid)
        return due

    def forget(self, obj: Object) -> None:
        """There is no such object any more."""
        uid = uid_of(obj)
        self.throttle.forget(uid)
        self.statuses.forget(uid)
        self.taken.forget(uid)
        self._parsed.forget(uid)
        self._checked.forget(uid)
        if obj["kind"] == KIND:
            self.refusals.forget_set(namespace_of(obj), name_of(obj))

    def is_ours(self, obj: Object) -> bool:
        """Whether the store tells of this very state of an object because a write of ours has returned it,
        or has ended the object, or its status is as a write of ours left it. The stream brings no state
        twice.
        """
        is_taken_in = self._taken_in is not None and _state(self._taken_in) == _state(obj)
        return is_taken_in or self.statuses.is_as_left(obj)

    @contextmanager
    def _taking_in(self, obj: Object) -> Iterator[None]:
        self._taken_in = obj
        try:
            yield
        finally:
            self._taken_in = None

    def parsed(self, revision: Object) -> RecordedRoles:
        """The revision, decoded once: its data never changes, only its number and owners do."""
        metadata = revision["metadata"]
        return self._parsed.of(metadata["uid"], metadata["resourceVersion"], lambda: read(revision))

    def fault_of(self, obj: Object) -> str:
        """Why the spec of a set or of a child cannot be read, empty if it can; looked at once for each
        generation.
        """
        metadata, check = obj["metadata"], fault_of if obj["kind"] == KIND else spec_fault
        return self._checked.of(metadata["uid"], metadata.get("generation", 0), lambda: check(obj))


def _state(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata["uid"], metadata["resourceVersion"]
