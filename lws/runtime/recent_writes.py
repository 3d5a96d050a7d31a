"""Record our own writes between passes over one kind of workload. A lost record costs a write or a read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from cachetools import FIFOCache

from lws.kube.metadata import name_of, namespace_of, uid_of, version_number
from lws.kube.patches import is_merged_into, with_merged
from lws.runtime.actions import Object, Plan, Reference, Status
from lws.runtime.refusals import Computed, Faults, Refusals, TakenNames
from lws.runtime.store import Store
from lws.runtime.throttle import ActiveSets, Throttle

_PARSED = 4096
_STATUSES = 16384

_Revision = TypeVar("_Revision")


class WrittenStatuses:
    """The result of our last write to each status, to detect changes by other clients.

    Statuses are recorded by UID, and trimmed as in the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written = FIFOCache[str, Object](_STATUSES)

    def record_sent(self, target: Reference, patch: Object) -> Object | None:
        """Record a write before it is sent, and return the status that it is based on; None if unknown.

        The stream may deliver the result before the response.
        """
        stored = self._store.get(target.kind, target.namespace, target.name)
        if stored is None or stored["metadata"]["uid"] != target.uid:
            return None
        # Based on our last write, so that changes by other clients since then are still detected.
        before = self._written.get(target.uid, stored.get("status") or {})
        self._written[target.uid] = with_merged(before, patch["status"])
        return before

    def record_stored(self, stored: Object, before: Object | None, patch: Object) -> None:
        """Record the response to a write of a patch, which is based on the status `before`.

        Nothing is recorded if the store has a later version, or the response contains a concurrent change.
        """
        if self._store.version_of(stored) > version_number(stored["metadata"].get("resourceVersion", "")):
            return
        now = self._store.trimmed(stored).get("status") or {}
        if before is not None and not is_merged_into(before, patch, now):
            return
        # An object deleted before the response is not recorded: no later event would remove its record.
        if self._store.has(stored["kind"], namespace_of(stored), name_of(stored), uid_of(stored)):
            self._written[uid_of(stored)] = now

    def forget(self, uid: str) -> None:
        """Drop the record of a deleted object."""
        self._written.pop(uid, None)

    def is_as_written(self, obj: Object) -> bool:
        """Return whether the status of an object is as our last write left it."""
        written = self._written.get(obj["metadata"]["uid"])
        return written is not None and written == (obj.get("status") or {})

    def is_edited(self, status: Status) -> bool:
        """Return whether another client changed the status that this write is based on."""
        written = self._written.get(status.target.uid)
        return written is not None and status.before is not None and written != status.before


class RecentWrites(Generic[_Revision]):
    """The records of one term for one kind of workload.

    parse: a function that decodes a revision. fault: a function that returns why the spec of a set cannot be
    read; empty if it can. shortest, active: as for `Throttle`.

    Attributes: `refusals`, rejected writes; `taken`, objects that have names which our creates need;
    `throttle`, delays for writes after recent ones; `statuses`, our last writes to statuses; `clock`, a
    monotonic clock in seconds.
    """

    def __init__(
        self,
        store: Store,
        kind: str,
        parse: Callable[[Object], _Revision],
        fault: Callable[[Object], str],
        clock: Callable[[], float] = time.monotonic,
        shortest: Mapping[str, float] | None = None,
        active: ActiveSets | None = None,
    ) -> None:
        self.refusals = Refusals(clock)
        self.taken = TakenNames(store)
        self.statuses = WrittenStatuses(store)
        self.throttle = Throttle(clock, shortest, self.statuses.is_edited, active)
        self._store = store
        self.clock = clock
        self._kind, self._parse = kind, parse
        self._parsed = Computed[_Revision](_PARSED)
        self._checked = Faults(fault)

    def _is_stored(self, obj: Object) -> bool:
        """Return whether an object is stored. If it is not, no later event would remove a record of it."""
        return self._store.has(obj["kind"], namespace_of(obj), name_of(obj), uid_of(obj))

    def due(self, plan: Plan) -> Plan:
        """Return the part of a plan to carry out now."""
        due_plan = self.throttle.due(plan)
        for status in plan.statuses:
            target = status.target
            if not self._store.has(target.kind, target.namespace, target.name, target.uid):
                self.throttle.forget(target.uid)
        return due_plan

    def forget(self, obj: Object) -> None:
        """Drop the records of a deleted object."""
        uid = uid_of(obj)
        self.throttle.forget(uid)
        self.statuses.forget(uid)
        self.taken.forget(uid)
        self._parsed.forget(uid)
        self._checked.forget(uid)
        if obj["kind"] == self._kind:
            self.refusals.forget_set(namespace_of(obj), name_of(obj))

    def parsed(self, revision: Object) -> _Revision:
        """Return a revision, decoded once per version: its data is immutable, its number is not."""
        metadata = revision["metadata"]
        return self._parsed.of(metadata["uid"], metadata["resourceVersion"], lambda: self._parse(revision))

    def fault_of(self, obj: Object) -> str:
        """Return why the spec of a set cannot be read; empty if it can. Each generation is checked once."""
        return self._checked.fault_of(obj)
