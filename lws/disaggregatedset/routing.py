"""Map changes of objects to passes over DisaggregatedSets, each with the seconds it may be delayed.

The controller reference decides to which set an object belongs; labels show which may adopt an orphan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lws import timing
from lws.disaggregatedset.tables import CHILDREN
from lws.kube.conditions import is_true
from lws.kube.metadata import controller_of, is_terminating, labels_of, name_of, namespace_of
from lws.leaderworkerset import fields
from lws.leaderworkerset.status.status import AVAILABLE, REPLICA_FAILURE
from lws.runtime.actions import Key, Object, Route, Wake
from lws.runtime.leadership.election import Scope
from lws.runtime.store import Store
from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, REVISION_LABEL, SCALER_KIND, SLICE_LABEL
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND

PASS = "disaggregatedset"
"""The kind in the queue keys of passes over DisaggregatedSets."""


class DisaggregatedRouting:
    """The routes of one engine; `is_ours` reports whether our passes wrote this state of an object."""

    def __init__(self, store: Store, is_ours: Callable[[Object], bool] = lambda obj: False) -> None:
        self._store = store
        self._is_ours = is_ours

    @property
    def routes(self) -> dict[str, Route]:
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
        """Yield the key of every set in these namespaces."""
        for obj in self._store.of_kind(KIND):
            if scope(obj["metadata"]["namespace"]):
                yield Key(PASS, obj["metadata"]["namespace"], obj["metadata"]["name"])

    def _of_set(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        if self._is_own_report(before, after):
            return ()
        metadata = (after or before or {})["metadata"]
        return [(Key(PASS, metadata["namespace"], metadata["name"]), 0.0)]

    def _of_revision(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        """Trigger a pass at once if a revision was changed, or if another client created or deleted it. Our
        own creates and deletes can wait: either the same plan contains the next step, or a pass follows at
        once anyway.
        """
        is_changed = before is not None and after is not None
        is_news = is_changed or not self._is_ours(after or before or {})
        return self._woken(before, after, 0.0 if is_news else timing.CHILD_REPORT_SECONDS)

    def _of_service(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        """Trigger a pass at once if another client changed or deleted a Service. Other changes can wait,
        because no step waits for a Service.
        """
        if self._is_ours(after or before or {}):
            return self._woken(before, after, timing.CHILD_REPORT_SECONDS)
        return self._woken(before, after, 0.0 if before is not None else timing.CHILD_SECONDS)

    def _of_statefulset(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        """Trigger a pass: leader StatefulSets show created and deleted groups earlier than the status."""
        owner = controller_of(after or before or {})
        if owner is None or owner.get("kind") != CHILD_KIND:
            return ()
        child = self._store.get(CHILD_KIND, (after or before or {})["metadata"]["namespace"], owner["name"])
        if child is None or controller_of(child) is None:
            return ()
        has_lost_groups = after is None or groups_of(after) < groups_of(before)
        delay = self.delay_of_groups_gone(child) if has_lost_groups else timing.CHILD_REPORT_SECONDS
        return self._woken(None, child, delay)

    def _of_pod(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        """Trigger a pass when a leader pod is deleted. Groups are counted by their leader pods, and the
        stream of pods may lag behind the stream of StatefulSets. Without this route a step waited for 5 to
        10 s.
        """
        if before is None or after is not None:
            return ()
        namespace, owner = before["metadata"]["namespace"], controller_of(before)
        for kinds in (("ReplicaSet",), ("StatefulSet", "Deployment")):
            if owner is not None and owner["kind"] in kinds:
                stored = self._store.get(owner["kind"], namespace, owner["name"])
                owner = controller_of(stored) if stored is not None else None
        if owner is None or owner["kind"] != CHILD_KIND:
            return ()
        child = self._store.get(CHILD_KIND, namespace, owner["name"])
        return () if child is None else self._woken(None, child, timing.CHILD_SECONDS)

    def _of_scaler(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        return () if self._is_own_report(before, after) else self._woken(before, after, 0.0)

    def _is_own_report(self, before: Object | None, after: Object | None) -> bool:
        """Return whether the change is a status that a pass has just written."""
        return before is not None and after is not None and self._is_ours(after) and is_report(before, after)

    def _of_leaderworkerset(self, before: Object | None, after: Object | None) -> Iterable[Wake]:
        is_report_only = before is not None and after is not None and is_report(before, after)
        if is_report_only and CHILDREN.is_same(before or {}, after or {}):
            # Only the records of other passes have changed.
            return ()
        return self._woken(before, after, self.delay(before, after))

    def _woken(self, before: Object | None, after: Object | None, within: float) -> Iterable[Wake]:
        """Return the keys of the object's sets, except sets that are deleted or terminating."""
        namespace = (after or before or {})["metadata"]["namespace"]
        names = {name for obj in (before, after) if obj is not None and (name := _owner_of(obj))}
        owning = {name: self._store.get(KIND, namespace, name) for name in sorted(names)}
        return [
            (Key(PASS, namespace, name), within)
            for name, obj in owning.items()
            if obj is not None and not is_terminating(obj)
        ]

    def delay(self, before: Object | None, after: Object | None) -> float:
        """Return the seconds by which the pass may be delayed after a change of a LeaderWorkerSet."""
        if after is None or (is_terminating(after) and not is_terminating(before or {})):
            return 0.0
        if before is None or not is_report(before, after):
            is_adopted = before is not None and controller_of(before) != controller_of(after)
            can_wait = self._is_ours(after) and not is_adopted
            delay = timing.CHILD_REPORT_SECONDS if can_wait else timing.CHILD_SECONDS
            # The response to our own write may contain concurrent changes, for which no further event
            # follows.
            return delay if before is None else min(delay, self._of_report(before, after))
        return self._of_report(before, after)

    def delay_of_groups_gone(self, child: Object) -> float:
        """Return the delay after groups of a child were deleted: one pass serves all siblings' losses."""
        return 0.0 if self._is_last(child, self._has_no_surplus) else timing.CHILD_SECONDS

    def _has_no_surplus(self, child: Object) -> bool:
        return bool(groups_of(self._leaders_of(child)) <= fields.REPLICAS.effective_in(child))

    def _of_report(self, before: Object, after: Object) -> float:
        if groups_of(after) < groups_of(before) and self._leaders_of(after) is None:
            # There is no StatefulSet that shows deleted groups earlier.
            return 0.0
        # A LeaderWorkerSet that was available and has observed a lower count waits for groups to be deleted.
        has_grown = not _has_acted(before) and groups_of(after) > groups_of(before)
        if _is_available(after) and (has_grown or not is_true(_conditions(before), AVAILABLE)):
            return 0.0 if self._is_last(after, _is_available) else timing.CHILD_REPORT_SECONDS
        has_begun = _serves(after) and not _serves(before) and self._is_last(after, _serves)
        # A group is no longer ready although the desired number of groups has not changed.
        has_lost = _is_available(before) and not is_true(_conditions(after), AVAILABLE)
        was_failing, is_failing = (is_true(_conditions(state), REPLICA_FAILURE) for state in (before, after))
        is_urgent = has_begun or has_lost or was_failing != is_failing
        return timing.CHILD_SECONDS if is_urgent else timing.CHILD_REPORT_SECONDS

    def _leaders_of(self, child: Object) -> Object | None:
        return self._store.get("StatefulSet", namespace_of(child), name_of(child))

    def _is_last(self, child: Object, is_there: Callable[[Object], bool]) -> bool:
        """Return whether all other roles of the child's slice and revision fulfil the condition too. The
        steps of these roles are taken together.

        A role that does not exist yet may wait for this one (startAfter), so the result is then true.
        """
        owner, slice_and_revision = controller_of(child) or {}, _slice_and_revision(child)
        siblings = [
            sibling
            for sibling in self._store.controlled_by(owner.get("uid", ""), CHILD_KIND)
            if _slice_and_revision(sibling) == slice_and_revision and not is_terminating(sibling)
        ]
        owning = self._store.get(KIND, child["metadata"]["namespace"], owner.get("name", ""))
        roles = (owning or {}).get("spec", {}).get("roles") or ()
        return len(siblings) < len(roles) or all(
            sibling is child or is_there(sibling) for sibling in siblings
        )


def _owner_of(obj: Object) -> str:
    """Return the name of the set to which an object belongs; empty if there is none."""
    owner = controller_of(obj)
    if owner is None:
        return labels_of(obj).get(NAME_LABEL, "")
    return str(owner["name"]) if owner.get("kind") == KIND else ""


_SPECIFIED = ("generation", "labels", "annotations", "ownerReferences", "deletionTimestamp")


def is_report(before: Object, after: Object) -> bool:
    """Return whether only the status of an object has changed."""
    old, new = before["metadata"], after["metadata"]
    return all(old.get(name) == new.get(name) for name in _SPECIFIED)


def groups_of(obj: Object | None) -> int:
    """Return the number of groups in the status of a LeaderWorkerSet or of its leader StatefulSet."""
    return int(((obj or {}).get("status") or {}).get("replicas") or 0)


def _slice_and_revision(child: Object) -> tuple[str | None, str | None]:
    labels = labels_of(child)
    return labels.get(SLICE_LABEL), labels.get(REVISION_LABEL)


def _conditions(child: Object) -> list[Object]:
    conditions: list[Object] = (child.get("status") or {}).get("conditions") or []
    return conditions


def _has_acted(child: Object) -> bool:
    observed = (child.get("status") or {}).get("observedGeneration")
    return bool(observed == child["metadata"].get("generation"))


def _is_available(child: Object) -> bool:
    """Return whether the child's controller has seen the present generation and all groups are ready."""
    return _has_acted(child) and is_true(_conditions(child), AVAILABLE)


def _serves(child: Object) -> bool:
    """Return whether a group of the child is ready or no group is desired."""
    ready = (child.get("status") or {}).get("readyReplicas")
    return bool(ready) or not fields.REPLICAS.effective_in(child)
