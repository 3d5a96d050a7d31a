"""What we remember of our own writes between passes, beside the objects themselves; losing it costs a write,
no more.

In: what the API server returned to an apply or a create, revisions to be parsed. Out: facts for snapshots.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from lws.actions import Apply, Object
from lws.cluster.store import Store
from lws.kube.applied import digest
from lws.leaderworkerset.revisions import Recorded, parse

_PARSED = 4096
_APPLIED = 65536


class WriteMemory:
    """One per process.

    applied: UID of an applied object → (digest of the intent, generation that it led to). An intent that
    others keep rewriting is applied once, not for ever.
    drops_start_ordinal: a StatefulSet came back without the `spec.ordinals.start` that we sent.
    """

    def __init__(self, store: Store) -> None:
        self.applied: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self.drops_start_ordinal = False
        self._store = store
        self._parsed: OrderedDict[tuple[str, str], Recorded] = OrderedDict()

    def put(self, obj: Mapping[str, Any]) -> None:
        """Take in an object that a write of ours returned."""
        if obj["kind"] == "Status":
            return
        if obj["kind"] == "StatefulSet" and _is_of_workers(obj):
            self.drops_start_ordinal = "start" not in (obj["spec"].get("ordinals") or {})
        self._store.put(obj)

    def remember_applied(self, action: Apply, stored: Mapping[str, Any]) -> None:
        """Take in what an apply led to."""
        metadata = stored["metadata"]
        self.applied[metadata["uid"]] = (digest(action.intent), metadata.get("generation", 0))
        if len(self.applied) > _APPLIED:
            self.applied.popitem(last=False)

    def parsed(self, revision: Object) -> Recorded:
        """The revision, decoded once: its data never changes, only its number and owners do."""
        metadata = revision["metadata"]
        key = (metadata["uid"], metadata["resourceVersion"])
        found = self._parsed.get(key)
        if found is None:
            found = self._parsed[key] = parse(revision)
            if len(self._parsed) > _PARSED:
                self._parsed.popitem(last=False)
        return found


def _is_of_workers(statefulset: Mapping[str, Any]) -> bool:
    references = statefulset["metadata"].get("ownerReferences") or ()
    return any(reference.get("controller") and reference["kind"] == "Pod" for reference in references)
