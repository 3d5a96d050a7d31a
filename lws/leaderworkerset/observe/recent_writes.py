"""What we remember of our own writes between passes, beside the objects themselves; losing it costs a write,
no more.

In: what the API server returned to an apply or a create, revisions to be parsed. Out: facts for snapshots.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from lws import timing
from lws.kube.metadata import name_of, namespace_of, uid_of, version_number
from lws.kube.patches import digest, is_merged_into, with_merged
from lws.leaderworkerset.revisions.history import Recorded, parse
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.runtime.actions import Apply, Object, Plan, Reference, Status
from lws.runtime.refusals import Computed, Refusals, TakenNames
from lws.runtime.store import Store
from lws.runtime.throttle import Moving, Throttle
from lws_api.leaderworkerset.v1 import KIND

_PARSED = 4096
_CHECKED = 16384
_APPLIED = 65536
_STATUSES = 16384


class OwnStatuses:
    """What our last write left in each status, by UID, as the store keeps it: whatever else is there somebody
    else has written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left: OrderedDict[str, Object] = OrderedDict()

    def expect(self, target: Reference, patch: Object) -> Object | None:
        """A write is about to begin: the stream may tell of it before it is answered. Returns what it leads
        on from, None where that is not known.
        """
        known = self._store.get(target.kind, target.namespace, target.name)
        if known is None or known["metadata"]["uid"] != target.uid:
            return None
        # Not from what somebody else has made of it since: that is still to be put right.
        left = self._left.get(target.uid, known.get("status") or {})
        self._remember(target.uid, with_merged(left, patch["status"]))
        return left

    def written(self, stored: Object, before: Object | None, patch: Object) -> None:
        """Take in what a write led to, unless a later one was answered before it, or the answer brings what
        somebody else has written in between. before, patch: what was to be changed, and how.
        """
        if self._store.version_of(stored) > version_number(stored["metadata"].get("resourceVersion", "")):
            return
        now = self._store.kept_of(stored).get("status") or {}
        if before is not None and not is_merged_into(before, patch, now):
            return
        # What has gone before the answer came is not remembered: nobody would tell that it has gone.
        if self._store.has(stored["kind"], namespace_of(stored), name_of(stored), uid_of(stored)):
            self._remember(uid_of(stored), now)

    def forget(self, uid: str) -> None:
        """There is no such object any more."""
        self._left.pop(uid, None)

    def is_as_left(self, obj: Object) -> bool:
        """The status of an object is what we left there."""
        left = self._left.get(obj["metadata"]["uid"])
        return left is not None and left == (obj.get("status") or {})

    def is_edited(self, status: Status) -> bool:
        """Somebody else has written to the status that this one was planned for."""
        left = self._left.get(status.target.uid)
        return left is not None and status.before is not None and left != status.before

    def _remember(self, uid: str, status: Object) -> None:
        self._left[uid] = status
        self._left.move_to_end(uid)
        if len(self._left) > _STATUSES:
            self._left.popitem(last=False)


class WriteMemory:
    """One per term.

    applied: UID of an applied object → (digest of the intent, generation that it led to). An intent that
    others keep rewriting is applied once, not for ever. refusals: writes that the API server did not take.
    taken: names that creates of ours did not get. throttle: when what was written lately is written again.
    statuses: what was written to them. going: UIDs that plans under way are deleting, so that no other plan
    counts on them. moving: see `Throttle`.
    """

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.monotonic, moving: Moving | None = None
    ) -> None:
        self.applied: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self.refusals = Refusals(clock)
        self.taken = TakenNames(store)
        self.statuses = OwnStatuses(store)
        self.throttle = Throttle(clock, is_edited=self.statuses.is_edited, moving=moving)
        self.going: set[str] = set()
        self._store = store
        self._clock = clock
        self._dropped_at = float("-inf")
        self._parsed = Computed[Recorded](_PARSED)
        self._checked = Computed[str](_CHECKED)

    @property
    def drops_start_ordinal(self) -> bool:
        """A StatefulSet just came back without the `spec.ordinals.start` that we sent.

        Not for ever: API servers are upgraded.
        """
        return self._clock() - self._dropped_at < timing.DROPPED_FIELD_SECONDS

    def put(self, obj: Mapping[str, Any]) -> None:
        """Take in an object that a write of ours returned."""
        if obj["kind"] == "Status":
            return
        if obj["kind"] == "StatefulSet" and _is_of_workers(obj):
            dropped = "start" not in (obj["spec"].get("ordinals") or {})
            self._dropped_at = self._clock() if dropped else float("-inf")
        self._store.put(obj)
        # What has gone before the answer came is not remembered: nobody would tell that it has gone.
        is_noted = obj["kind"] == KIND or (obj["kind"] == "StatefulSet" and not _is_of_workers(obj))
        if is_noted and self._is_there(obj):
            self.throttle.note(obj)

    def _is_there(self, obj: Mapping[str, Any]) -> bool:
        return self._store.has(obj["kind"], namespace_of(obj), name_of(obj), uid_of(obj))

    def remember_applied(self, action: Apply, stored: Mapping[str, Any]) -> None:
        """Take in what an apply led to."""
        metadata = stored["metadata"]
        if not self._is_there(stored):
            return
        self.applied[metadata["uid"]] = (digest(action.intent), metadata.get("generation", 0))
        if len(self.applied) > _APPLIED:
            self.applied.popitem(last=False)

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
        self.applied.pop(uid, None)
        self.throttle.forget(uid)
        self.statuses.forget(uid)
        self.taken.forget(uid)
        self._parsed.forget(uid)
        self._checked.forget(uid)
        if obj["kind"] == KIND:
            self.refusals.forget_set(namespace_of(obj), name_of(obj))

    def parsed(self, revision: Object) -> Recorded:
        """The revision, decoded once: its data never changes, only its number and owners do."""
        metadata = revision["metadata"]
        return self._parsed.of(metadata["uid"], metadata["resourceVersion"], lambda: parse(revision))

    def fault_of(self, lws: Object) -> str:
        """Why the spec of a set cannot be read, empty if it can; looked at once for each generation."""
        metadata = lws["metadata"]
        return self._checked.of(metadata["uid"], metadata.get("generation", 0), lambda: spec_fault(lws))


def _is_of_workers(statefulset: Mapping[str, Any]) -> bool:
    references = statefulset["metadata"].get("ownerReferences") or ()
    return any(reference.get("controller") and reference["kind"] == "Pod" for reference in references)
