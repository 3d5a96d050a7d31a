"""What we remember between passes over DisaggregatedSets; losing it costs a read or a write, no more.

In: what the API server returned to our writes, revisions and specs to be parsed. Out: facts for snapshots.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from lws import timing
from lws.actions import Object
from lws.cluster.cache.store import Store
from lws.cluster.write.refusals import Refusals
from lws.cluster.write.taken_names import TakenNames
from lws.cluster.write.throttle import Throttle
from lws.disaggregatedset.revisions.record import Recorded, read
from lws.disaggregatedset.spec import fault_of
from lws.leaderworkerset.revisions.shape import spec_fault
from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL

_PARSED = 4096
_CHECKED = 4096


class DisaggregatedMemory:
    """One per process. refusals: writes that the API server did not take. taken: names that creates of ours
    did not get. throttle: when statuses that were written lately are written again.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self.refusals = Refusals(NAME_LABEL, clock)
        self.taken = TakenNames(store)
        self.throttle = Throttle(clock, {KIND: timing.DISAGGREGATED_STATUS_SECONDS})
        self._store = store
        self._parsed: OrderedDict[tuple[str, str], Recorded] = OrderedDict()
        self._checked: OrderedDict[tuple[str, int], str] = OrderedDict()

    def put(self, obj: Mapping[str, Any]) -> None:
        """Take in an object that a write of ours returned."""
        if obj["kind"] == "Status":
            return
        self.refusals.forget(obj)
        if obj["kind"] == KIND:
            self.throttle.note(obj)
        self._store.put(obj)

    def parsed(self, revision: Object) -> Recorded:
        """The revision, decoded once: its data never changes, only its number and owners do."""
        key = (revision["metadata"]["uid"], revision["metadata"]["resourceVersion"])
        known = self._parsed.get(key)
        if known is None:
            known = read(revision)
            _keep(self._parsed, key, known, _PARSED)
        return known

    def fault_of(self, obj: Object) -> str:
        """Why the spec of a set or of a child cannot be read, empty if it can; looked at once for each
        generation.
        """
        key = (obj["metadata"]["uid"], obj["metadata"].get("generation", 0))
        known = self._checked.get(key)
        if known is not None:
            return known
        fault = fault_of(obj) if obj["kind"] == KIND else spec_fault(obj)
        _keep(self._checked, key, fault, _CHECKED)
        return fault


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    """The oldest goes."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
