"""Reduce groups and the leader StatefulSet to the small frozen values that rollout and status use."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import attrgetter

from lws import timing
from lws.kube import statefulsets
from lws.kube.metadata import annotations_of, is_terminating, labels_of
from lws.kube.pods import gate_of
from lws.kube.quantities import INT32, whole_number
from lws.leaderworkerset.revisions.keys import STATEFULSET_REVISION_LABEL, key_of_template
from lws.leaderworkerset.snapshot import GroupFacts
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import REPLICAS_ANNOTATION, SIZE_ANNOTATION

FIELD_MANAGER = "lws"

_INDEX = attrgetter("index")
# Two kinds of passes cache states with different keys: those of the set and those of a failing group.
_ASKERS = 2


# No slots: derived values are cached.
@dataclass(frozen=True)
class GroupState:
    """One group that has a leader pod. A group without one is missing and has no state.

    ready: leader Running, Ready and not terminating; its own workers settled, or none needed.
    formed: all its objects exist: the leader and, unless its size is 1, its worker StatefulSet.
    outdated: the leader or its worker StatefulSet has another revision key than the target.
    terminating: the leader is being deleted; it may serve for a while, but never counts as ready.
    leader_ready: the leader is Running, Ready and not terminating; a StatefulSet controller sees no more.
    replaceable: the leader is not on the update revision of the leader StatefulSet: a new one would differ.
    gate: the scheduling gate of the leader; empty if it has none.
    """

    index: int
    ready: bool = False
    formed: bool = True
    outdated: bool = False
    terminating: bool = False
    leader_ready: bool = False
    replaceable: bool = False
    gate: str = ""

    @cached_property
    def updated(self) -> bool:
        """Leader and workers exist and have the target key."""
        return self.formed and not self.outdated

    @cached_property
    def settled(self) -> bool:
        """Ready and on the target revision."""
        return self.ready and self.formed and not self.outdated

    @property
    def broken(self) -> bool:
        """Outdated, not ready and not terminating: replacing it costs no availability.

        Time plays no role: an outdated group that is still starting counts as broken too, and replacing it
        costs nothing either. Groups on the target revision are never broken: they get time to start.
        """
        return self.outdated and not self.ready and not self.terminating

    @property
    def serves_outdated(self) -> bool:
        """Ready on another revision: replacing it costs availability."""
        return self.outdated and self.ready


@dataclass(frozen=True, slots=True)
class LeaderStatefulSet:
    """The position of a rollout, as stored in the leader StatefulSet.

    replicas, partition: as stored.
    last_replicas: `spec.replicas` of the set when it was last applied; None if missing or unreadable.
    is_current: its template has the target key.
    observed: its controller has observed the current generation.
    awaited: it has not, but the last write is recent, so that it is expected to.
    max_unavailable: as stored, None if the feature MaxUnavailableStatefulSet is off.
    """

    replicas: int
    partition: int
    last_replicas: int | None = None
    is_current: bool = True
    observed: bool = True
    awaited: bool = False
    max_unavailable: int | None = None


@dataclass(frozen=True, slots=True)
class DesiredGroups:
    """The revision that groups are compared with.

    key: the target revision key. size_of: pods per group for each recorded key. update_revision: name of the
    leader StatefulSet's own update revision, empty before its controller's first report.
    """

    key: str
    size_of: Mapping[str, int]
    update_revision: str = ""


def group_states(facts: Iterable[GroupFacts], wanted: DesiredGroups) -> tuple[GroupState, ...]:
    """The state of every group that has a leader pod, by index. Its size is the one of its own revision."""
    marks: dict[str | None, Hashable] = {}
    states = []
    for group in sorted(facts, key=_INDEX):
        key = group.leader_key
        if key not in marks:
            marks[key] = (wanted.key, wanted.update_revision, wanted.size_of.get(key or ""))
        # Of a thousand groups, few have changed since the last pass: reuse the cached state of the others.
        state = group.judged.get(marks[key])
        if state is None:
            state = _group_state(group, wanted)
            if len(group.judged) == _ASKERS:
                group.judged.clear()
            group.judged[marks[key]] = state
        states.append(state)
    return tuple(states)


def leader_statefulset(statefulset: Object, key: str, now: datetime) -> LeaderStatefulSet:
    """Read the position from our leader StatefulSet; `key` is the target revision key."""
    observed = statefulsets.is_observed(statefulset)
    return LeaderStatefulSet(
        replicas=statefulsets.wanted_replicas(statefulset),
        partition=statefulsets.partition_of(statefulset),
        last_replicas=whole_number(annotations_of(statefulset).get(REPLICAS_ANNOTATION)),
        is_current=key_of_template(statefulset) == key,
        observed=observed,
        awaited=not observed and _is_report_due(statefulset, now),
        max_unavailable=statefulsets.max_unavailable_of(statefulset),
    )


def _group_state(group: GroupFacts, wanted: DesiredGroups) -> GroupState:
    terminating = group.leader_terminating or group.going
    leader_ready = group.leader_up and not terminating
    needs_workers = _size(group, wanted.size_of) != 1
    counts_workers = needs_workers and group.workers is not None
    return GroupState(
        index=group.index,
        ready=leader_ready and (group.workers_settled or not needs_workers),
        formed=counts_workers or not needs_workers,
        outdated=group.leader_key != wanted.key or (counts_workers and group.worker_key != wanted.key),
        terminating=terminating,
        leader_ready=leader_ready,
        # Without the label, nothing shows that the pod would be recreated unchanged.
        replaceable=labels_of(group.leader).get(STATEFULSET_REVISION_LABEL) != wanted.update_revision,
        gate=gate_of(group.leader),
    )


def _size(group: GroupFacts, size_of: Mapping[str, int]) -> int | None:
    """Size in the leader's revision, or if that is lost in its annotations; None if unknown."""
    size = size_of.get(group.leader_key or "")
    return size if size is not None else whole_number(annotations_of(group.leader).get(SIZE_ANNOTATION))


def _is_report_due(statefulset: Object, now: datetime) -> bool:
    applied = statefulsets.last_applied(statefulset, FIELD_MANAGER)
    has_reported = statefulsets.observed_generation_of(statefulset) > 0
    return has_reported and applied is not None and now - applied < timing.REPORT_WITHIN


# --- Find unready or cheaper groups that a scale-down keeps. StatefulSets remove the highest index first,
# ready or not. `ordinals.start` could only remove the lowest indices, and would change the names of later
# groups.


DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
"""Pods with the lowest cost should be deleted first (KEP-2255); 0 by default."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A group that is kept while a better one is deleted. why: a few words."""

    index: int
    why: str


def leftovers(groups: Iterable[GroupState], leaders: Mapping[int, Object], replicas: int) -> list[Leftover]:
    """Groups below `replicas` that are not ready, or have a lower deletion cost than a deleted ready one.

    leaders: their pods, by index. Empty if no ready group is deleted.
    """
    states = tuple(groups)
    deleted_costs = [
        _cost(leaders.get(group.index)) for group in states if group.index >= replicas and group.ready
    ]
    if not deleted_costs:
        return []
    kept = []
    for group in sorted(states, key=lambda state: state.index):
        leader = leaders.get(group.index)
        if group.index >= replicas or leader is None or is_terminating(leader):
            continue
        cost = _cost(leader)
        if not group.ready:
            kept.append(Leftover(group.index, "not ready"))
        elif cost < max(deleted_costs):
            kept.append(Leftover(group.index, f"pod-deletion-cost {cost}"))
    return kept


def _cost(leader: Object | None) -> int:
    cost = annotations_of(leader).get(DELETION_COST_ANNOTATION) if leader is not None else None
    return whole_number(cost, least=-INT32) or 0
