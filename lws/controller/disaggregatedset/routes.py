"""Which passes over DisaggregatedSets does a change start, and for how long can each be put off?

In: one object before and after a change, and the store. Out: keys with seconds. Ownership decides, by
controller reference; labels only say whom an orphan could concern.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lws import timing
from lws.actions import Object
from lws.cluster.cache.store import Store
from lws.controller.election.election import Scope
from lws.controller.triggers.keys import Key, Route, Wake
from lws.kube.conditions import is_true
from lws.kube.metadata import controller_of, is_terminating, labels_of
from lws.leaderworkerset.status.status import AVAILABLE
from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, SCALER_KIND
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND

PASS = "disaggregatedset"
"""The kind of the keys of passes over DisaggregatedSets."""


class Routes:
    """One per engine."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def by_kind(self) -> dict[str, Route]:
        """By kind of the object that changes."""
        made = (SCALER_KIND, "ControllerRevision")
        return {
            KIND: _of_set,
            **dict.fromkeys(made, _of_child),
            CHILD_KIND: _of_leaderworkerset,
            "Service": _of_service,
            "StatefulSet": self._of_statefulset,
        }

    def keys(self, scope: Scope) -> Iterator[Key]:
        """Every set of the namespaces that are meant."""
        for obj in self._store.of_kind(KIND):
            if scope(obj["metadata"]["namespace"]):
                yield Key(PASS, obj["metadata"]["namespace"], obj["metadata"]["name"])

    def _of_statefulset(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        """Groups come and go, which the status of their LeaderWorkerSet tells a while later."""
        owner = controller_of(after or before or {})
        if owner is None or owner.get("kind") != CHILD_KIND:
            return ()
        child = self._store.get(CHILD_KIND, (after or before or {})["metadata"]["namespace"], owner["name"])
        if child is None or controller_of(child) is None:
            return ()
        has_gone = after is None or _replicas(after) < _replicas(before)
        return _woken(None, child, 0.0 if has_gone else timing.CHILD_SECONDS)


def _of_set(before: Object | None, after: Object | None) -> Iterable[Wake]:
    metadata = (after or before or {})["metadata"]
    return [(Key(PASS, metadata["namespace"], metadata["name"]), 0.0)]


def _of_child(before: Object | None, after: Object | None) -> Iterable[Wake]:
    return _woken(before, after, 0.0)


def _of_leaderworkerset(before: Object | None, after: Object | None) -> Iterable[Wake]:
    """Nothing waits that a next step waits for."""
    has_gone = after is None or is_terminating(after) or _replicas(after) < _replicas(before)
    is_awaited = has_gone or (_is_settled(after) and not _is_settled(before))
    return _woken(before, after, 0.0 if is_awaited else timing.CHILD_SECONDS)


def _of_service(before: Object | None, after: Object | None) -> Iterable[Wake]:
    """One that comes is ours, or nobody's."""
    return _woken(before, after, 0.0 if before is not None else timing.CHILD_SECONDS)


def _is_settled(child: Object | None) -> bool:
    """Its controller has acted on it as it is, and all its groups are ready."""
    status = (child or {}).get("status") or {}
    has_acted = child is not None and status.get("observedGeneration") == child["metadata"].get("generation")
    return has_acted and is_true(status.get("conditions"), AVAILABLE)


def _replicas(obj: Object | None) -> int:
    """How many groups there are, as a LeaderWorkerSet or the StatefulSet of its leaders has counted."""
    return int(((obj or {}).get("status") or {}).get("replicas") or 0)


def _woken(before: Object | None, after: Object | None, within: float) -> Iterable[Wake]:
    namespace = (after or before or {})["metadata"]["namespace"]
    names = {name for obj in (before, after) if obj is not None and (name := _owner_of(obj))}
    return [(Key(PASS, namespace, name), within) for name in sorted(names)]


def _owner_of(obj: Object) -> str:
    """The name of the set that an object concerns; empty for none."""
    owner = controller_of(obj)
    if owner is None:
        return labels_of(obj).get(NAME_LABEL, "")
    return str(owner["name"]) if owner.get("kind") == KIND else ""
