"""Reduce groups and the leader StatefulSet to the small frozen values that rollout and status use."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import attrgetter

from lws import timing
from lws.kube import statefulsets
from lws.kube.conditions import elapsed
from lws.kube.metadata import annotations_of, labels_of, name_of
from lws.kube.pods import gate_of
from lws.kube.quantities import whole_number
from lws.leaderworkerset.pod_identity import is_of_hash_group
from lws.leaderworkerset.revisions.keys import STATEFULSET_REVISION_LABEL, key_of_template
from lws.leaderworkerset.snapshot import GroupFacts
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import REPLICAS_ANNOTATION

FIELD_MANAGER = "lws"

# Passes over the set and passes over a failing group cache states with different keys.
_CACHED_STATES = 2


# No slots: derived values are cached.
@dataclass(frozen=True)
class GroupState:
    """State of one group that has a leader pod. A group without a leader pod is missing and has no state.

    ready: leader Running, Ready and not terminating; its own workers settled, or none needed.
    formed: all objects of the group exist: the leader and, unless the size is 1, the worker StatefulSet.
    outdated: the leader or its worker StatefulSet has another revision key than the target.
    terminating: the leader is being deleted. It may still serve for a while, but never counts as ready.
    leader_ready: the leader is Running, Ready and not terminating. A StatefulSet controller sees only this.
    replaceable: the leader is not on the update revision of its StatefulSet, so a new one would differ.
    gate: the scheduling gate of the leader; empty if it has none.
    pod: name of the leader pod of a Hash group; empty in a set whose groups have indices.
    kept: the group has used up its restarts. Its leader stays terminating until a user requests a new group
    or the rollout replaces it.
    unscheduled: the scheduler has found no node for a pod of the group.
    barred: which pod must return to which node, and cannot; empty for none.
    """

    index: int
    ready: bool = False
    formed: bool = True
    outdated: bool = False
    terminating: bool = False
    leader_ready: bool = False
    replaceable: bool = False
    gate: str = ""
    kept: bool = False
    pod: str = ""
    unscheduled: bool = False
    barred: str = ""

    @cached_property
    def updated(self) -> bool:
        """Whether leader and workers exist and have the target key."""
        return self.formed and not self.outdated

    @cached_property
    def settled(self) -> bool:
        """Whether the group is ready on the target revision."""
        return self.ready and self.formed and not self.outdated

    @property
    def broken(self) -> bool:
        """Whether the group is outdated, not ready and not terminating: replacing it costs no availability.
        Time plays no role: an outdated group that is still starting counts as broken too, because replacing
        it costs nothing either. Groups on the target revision are never broken: they get time to start.
        """
        return self.outdated and not self.ready and (self.kept or not self.terminating)

    @property
    def serves_outdated(self) -> bool:
        """Whether the group is ready on another revision: replacing it costs availability."""
        return self.outdated and self.ready


@dataclass(frozen=True, slots=True)
class LeaderStatefulSet:
    """Position of a rollout, as stored in the leader StatefulSet.

    replicas, partition: as stored. last_replicas: `spec.replicas` of the set when the StatefulSet was last
    applied; None if missing or unreadable. is_current: whether its template has the target key. observed:
    whether its controller has observed the current generation. awaited: whether its controller has not
    observed the last write, but the write is recent, so that it is expected to. max_unavailable: as stored;
    None if the feature MaxUnavailableStatefulSet is off.
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
    """The revision that groups are compared with. size_of: pods per group for each recorded key.
    update_revision: the StatefulSet's own; empty before its controller's first report.
    """

    key: str
    size_of: Mapping[str, int]
    update_revision: str = ""


def group_states(facts: Iterable[GroupFacts], desired: DesiredGroups) -> tuple[GroupState, ...]:
    """Return the state of every group that has a leader pod, by index, with the size of its own revision."""
    cache_keys: dict[str | None, Hashable] = {}
    states = []
    for group in sorted(facts, key=attrgetter("index")):
        key = group.leader_key
        if key not in cache_keys:
            cache_keys[key] = (desired.key, desired.update_revision, desired.size_of.get(key or ""))
        # Most of a thousand groups have not changed since the last pass: reuse their cached states.
        state = group.states.get(cache_keys[key])
        if state is None:
            state = _group_state(group, desired)
            if len(group.states) == _CACHED_STATES:
                group.states.clear()
            group.states[cache_keys[key]] = state
        states.append(state)
    return tuple(states)


def leader_statefulset(statefulset: Object, key: str, now: datetime) -> LeaderStatefulSet:
    """Read the position of the rollout from our leader StatefulSet. key: the target revision key."""
    observed = statefulsets.is_observed(statefulset)
    applied = None if observed else statefulsets.last_applied(statefulset, FIELD_MANAGER)
    is_recent = applied is not None and elapsed(applied, now) < timing.REPORT_WITHIN
    return LeaderStatefulSet(
        replicas=statefulsets.desired_replicas(statefulset),
        partition=statefulsets.partition_of(statefulset),
        last_replicas=whole_number(annotations_of(statefulset).get(REPLICAS_ANNOTATION)),
        is_current=key_of_template(statefulset) == key,
        observed=observed,
        awaited=not observed and is_recent,
        max_unavailable=statefulsets.max_unavailable_of(statefulset),
    )


def _group_state(group: GroupFacts, desired: DesiredGroups) -> GroupState:
    terminating = group.is_leader_terminating or group.is_being_deleted
    leader_ready = group.is_leader_up and not terminating
    # If the revision of the leader is lost, its annotation shows the size.
    needs_workers = desired.size_of.get(group.leader_key or "", group.size) != 1
    counts_workers = needs_workers and group.worker_statefulset is not None
    return GroupState(
        index=group.index,
        ready=leader_ready and (group.are_workers_settled or not needs_workers),
        formed=counts_workers or not needs_workers,
        outdated=group.leader_key != desired.key or (counts_workers and group.worker_key != desired.key),
        terminating=terminating,
        leader_ready=leader_ready,
        # Without the label, nothing shows that the pod would be recreated unchanged.
        replaceable=labels_of(group.leader).get(STATEFULSET_REVISION_LABEL) != desired.update_revision,
        gate=gate_of(group.leader),
        kept=group.is_exhausted,
        pod=name_of(group.leader) if is_of_hash_group(group.leader) else "",
        unscheduled=any(wait.until is None and not wait.gate for wait in group.waits),
        barred=next((wait.words for wait in group.waits if wait.node), ""),
    )


@dataclass(frozen=True, slots=True)
class LeaderDeployment:
    """Status of the Deployment of Hash leaders: leader pods as it counts them.
    is_current: whether its controller has observed the template, and all desired leaders have its revision.
    """

    replicas: int = 0
    ready: int = 0
    updated: int = 0
    is_current: bool = True


def leader_deployment(deployment: Object, groups: Iterable[GroupState]) -> LeaderDeployment:
    """Read the status of our Deployment. groups: the groups whose leaders it controls."""
    status = deployment.get("status") or {}
    live = [group for group in groups if not group.terminating]
    is_complete = len(live) >= statefulsets.desired_replicas(deployment)
    is_updated = statefulsets.has_seen_template(deployment) and not any(group.outdated for group in live)
    return LeaderDeployment(
        replicas=int(status.get("replicas") or 0),
        ready=int(status.get("readyReplicas") or 0),
        updated=int(status.get("updatedReplicas") or 0),
        is_current=not live or (is_updated and is_complete),
    )
