"""Which passes over DisaggregatedSets does a change start?

In: one object before and after a change, the store, and whether the change is a write of ours. Out: keys,
each with the seconds for which the pass can be put off. Ownership decides, by controller reference; labels
only say whom an orphan could concern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lws import timing
from lws.actions import Object
from lws.cluster.cache.store import Store
from lws.controller.disaggregatedset.delays import Delays, groups_of, is_report
from lws.controller.disaggregatedset.tables import CHILDREN
from lws.controller.election.election import Scope
from lws.controller.triggers.keys import Key, Route, Wake
from lws.kube.metadata import controller_of, is_terminating, labels_of
from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, SCALER_KIND
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND

PASS = "disaggregatedset"
"""The kind of the keys of passes over DisaggregatedSets."""


def _by_others(obj: Object) -> bool:
    """Where nothing is known of writes of ours."""
    return False


class Routes:
    """One per engine. is_ours: whether a state of an object came with a write of passes over
    DisaggregatedSets.
    """

    def __init__(self, store: Store, is_ours: Callable[[Object], bool] = _by_others) -> None:
        self._store = store
        self._is_ours = is_ours
        self._delays = Delays(store, is_ours)

    @property
    def by_kind(self) -> dict[str, Route]:
        """By kind of the object that changes."""
        return {
            KIND: self._of_set,
            SCALER_KIND: self._of_scaler,
            "ControllerRevision": self._of_revision,
            CHILD_KIND: self._of_leaderworkerset,
            "Service": self._of_service,
            "StatefulSet": self._of_statefulset,
            "Pod": self._of_pod,
        }

    def keys(self, scope: Scope) -> Iterator[Key]:
        """Every set of the namespaces that are meant."""
        for obj in self._store.of_kind(KIND):
            if scope(obj["metadata"]["namespace"]):
                yield Key(PASS, obj["metadata"]["namespace"], obj["metadata"]["name"])

    def _of_set(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        if self._is_own_report(before, after):
            return ()
        metadata = (after or before or {})["metadata"]
        return [(Key(PASS, metadata["namespace"], metadata["name"]), 0.0)]

    def _of_revision(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        """What follows from one that we have made or pruned is in the same plan, or comes at once anyway."""
        is_changed = before is not None and after is not None
        is_news = is_changed or not self._is_ours(after or before or {})
        return self._woken(before, after, 0.0 if is_news else timing.CHILD_REPORT_SECONDS)

    def _of_service(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        """No step waits for one, whether we or others made it or deleted it."""
        if self._is_ours(after or before or {}):
            return self._woken(before, after, timing.CHILD_REPORT_SECONDS)
        return self._woken(before, after, 0.0 if before is not None else timing.CHILD_SECONDS)

    def _of_statefulset(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        """Groups come and go, which the status of their LeaderWorkerSet tells a while later."""
        owner = controller_of(after or before or {})
        if owner is None or owner.get("kind") != CHILD_KIND:
            return ()
        child = self._store.get(CHILD_KIND, (after or before or {})["metadata"]["namespace"], owner["name"])
        if child is None or controller_of(child) is None:
            return ()
        has_gone = after is None or groups_of(after) < groups_of(before)
        delay = self._delays.of_groups_gone(child) if has_gone else timing.CHILD_REPORT_SECONDS
        return self._woken(None, child, delay)

    def _of_pod(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        """Leader pods are what groups are counted by, and their stream may be behind that of StatefulSets:
        without this a step waited for 5 to 10 s.
        """
        owner = controller_of(before) if before is not None and after is None else None
        if before is None or owner is None or owner["kind"] != "StatefulSet":
            return ()
        namespace = before["metadata"]["namespace"]
        of_leaders = controller_of(
            self._store.get("StatefulSet", namespace, owner["name"]) or {"metadata": {}}
        )
        child = self._store.get(CHILD_KIND, namespace, (of_leaders or {}).get("name", ""))
        return () if child is None else self._woken(None, child, timing.CHILD_SECONDS)

    def _of_scaler(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        return () if self._is_own_report(before, after) else self._woken(before, after, 0.0)

    def _is_own_report(self, before: Object | None, after: Object | None) -> bool:
        """What a pass has just said itself tells it nothing."""
        return before is not None and after is not None and self._is_ours(after) and is_report(before, after)

    def _of_leaderworkerset(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        if _is_no_news(before, after):
            return ()
        return self._woken(before, after, self._delays.of(before, after))

    def _woken(self, before: Object | None, after: Object | None, within: float) -> Iterable[Wake]:
        """Of a set that is gone, or that the garbage collector takes down, nothing is decided."""
        namespace = (after or before or {})["metadata"]["namespace"]
        names = {name for obj in (before, after) if obj is not None and (name := _owner_of(obj))}
        owning = {name: self._store.get(KIND, namespace, name) for name in sorted(names)}
        return [
            (Key(PASS, namespace, name), within)
            for name, obj in owning.items()
            if obj is not None and not is_terminating(obj)
        ]


def _is_no_news(before: Object | None, after: Object | None) -> bool:
    """Of a LeaderWorkerSet only what passes over sets and groups remember has changed."""
    if before is None or after is None:
        return False
    return is_report(before, after) and CHILDREN.is_same(before, after)


def _owner_of(obj: Object) -> str:
    """The name of the set that an object concerns; empty for none."""
    owner = controller_of(obj)
    if owner is None:
        return labels_of(obj).get(NAME_LABEL, "")
    return str(owner["name"]) if owner.get("kind") == KIND else ""
