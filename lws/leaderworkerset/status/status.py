"""Build the status of a set: counters, conditions, and Events for conditions that become true.

Upstream defines the types and reasons of conditions, the messages of true ones and the notes of Events.
Available excludes Progressing and UpdateInProgress, and nothing else ends these two. A condition that was
never true is absent, except Degraded. A condition that becomes False keeps its reason: its message says why.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lws.kube.conditions import Condition, becomes_true, find, is_true, with_condition, without_condition
from lws.kube.metadata import is_controlled_by, name_of, uid_of
from lws.kube.patches import merge_patch
from lws.kube.pods import NodeWait, has_gate
from lws.kube.quantities import is_integer, whole_number
from lws.leaderworkerset.group_records import current_members, failed, out_of_restarts
from lws.leaderworkerset.pod_identity import MOST_GROUP_NUMBER, group_id
from lws.leaderworkerset.rollout.groups import LeaderDeployment
from lws.leaderworkerset.rollout.state import RolloutState
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.leaderworkerset.status.problems import LAST_PROGRESS, PROGRESSING, STALLED, Pace, stalled_condition
from lws.leaderworkerset.status.summary import READY, Summary, blocking_problem, summarise
from lws.runtime.actions import ROLLING, Announce, Figures, Object, Problem, Reference, Tally
from lws_api.leaderworkerset.v1 import GROUP_REPLACEMENT_GATE, KIND, NAME_LABEL, WORKER_INDEX_LABEL

AVAILABLE = "Available"
UPDATE_IN_PROGRESS = "UpdateInProgress"
REPLICA_FAILURE = "ReplicaFailure"
DEGRADED = "Degraded"
RECONCILING = "Reconciling"

_TRUE = {
    AVAILABLE: Condition(AVAILABLE, True, "AllGroupsReady", "All replicas are ready"),
    PROGRESSING: Condition(PROGRESSING, True, "GroupsProgressing", "Replicas are progressing"),
    UPDATE_IN_PROGRESS: Condition(
        UPDATE_IN_PROGRESS, True, "GroupsUpdating", "Rolling Upgrade is in progress"
    ),
}
_STOPPED = "Automatic recovery is stopped for one or more replicas"
_REPORTED_BY_FAILED = "The condition Failed names the groups that have used up spec.maxGroupRestarts"
_NOT_EXHAUSTED = "No replica has exhausted its restart budget"
_DEGRADED = Condition(DEGRADED, True, "ReplicaRestartBudgetExceeded", _STOPPED)
_STUCK = Condition(
    STALLED, True, "GroupRestartsExhausted", "Groups that are not ready have used up their restarts"
)
_STOPPED_CONDITIONS = (
    Condition(AVAILABLE, False, _DEGRADED.reason, "Not all replicas are ready"),
    Condition(PROGRESSING, False, _DEGRADED.reason, _STOPPED),
    Condition(UPDATE_IN_PROGRESS, False, _DEGRADED.reason, "No rolling update is in progress"),
)
# The limit of metav1.Condition.
_LONGEST_MESSAGE = 32768
# The note of an Event is limited to 1 KiB.
_LONGEST_NOTE = 900


# No slots: derived facts are cached.
@dataclass(frozen=True)
class StatusInput:
    """What a pass has observed and decided, as far as it determines the status.

    rollout: the groups, and how far the rollout may go.
    revisions: the fields that name revisions, and the collision count; None keeps the stored value.
    problems: problems of the set, worst first.
    position: the position of the rollout to record; None to keep the stored one.
    has_moved: whether this pass moves the rollout.
    scheduling: the condition of `spec.scheduling`; None without that field.
    prewarm: the record of prewarming; empty without one.
    started: number of groups that have started, by revision key; empty if it is not recorded.
    """

    snapshot: SetSnapshot
    rollout: RolloutState
    revisions: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    position: Mapping[str, Any] | None = None
    has_moved: bool = False
    scheduling: Condition | None = None
    prewarm: Mapping[str, Any] = field(default_factory=dict)
    started: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def existing(self) -> int:
        """`status.replicas` of the leader StatefulSet or Deployment of the set; 0 without one."""
        leaders = self.snapshot.leaders
        if leaders is None or not is_controlled_by(leaders, uid_of(self.snapshot.lws)):
            return 0
        return int((leaders.get("status") or {}).get("replicas") or 0)

    @cached_property
    def out_of_restarts(self) -> tuple[int, ...]:
        """Indices of groups that have used up `spec.maxGroupRestarts`."""
        return out_of_restarts(self.snapshot)

    @cached_property
    def exhausted(self) -> tuple[int, ...]:
        """Indices of groups that have used up their restarts by upstream's rules."""
        return tuple([group.index for group in self.snapshot.groups if group.is_exhausted])

    @property
    def waits(self) -> tuple[NodeWait, ...]:
        """Waits for a node, of pods of groups that are not ready."""
        waiting = [group for group in self.snapshot.groups if group.waits]
        ready = self.rollout.ready
        return tuple(wait for group in waiting if group.index not in ready for wait in group.waits)


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Status of a set, and what it takes to write it.

    intended: the whole status. patch: JSON merge patch from the stored status; None if that is up to date.
    announce: Events for conditions that become true. due_in: seconds until the set is stalled if nothing
    happens; None if it is already stalled, or cannot be.
    """

    intended: Mapping[str, Any]
    patch: Mapping[str, Any] | None
    announce: tuple[Announce, ...] = ()
    due_in: float | None = None


@dataclass(frozen=True, slots=True)
class _Scope:
    """Counts of the desired groups.
    is_updating: whether a group from `floor` on is outdated. is_degraded: whether a group has used up its
    restarts by upstream's rules. is_stopped: whether all groups that are not ready have. is_stuck: the same,
    also by `spec.maxGroupRestarts`. is_done: False while counts of a Deployment may be those of other groups
    than the desired ones.
    """

    replicas: int
    ready: int
    updated: int
    is_updating: bool
    is_degraded: bool = False
    is_stopped: bool = False
    is_stuck: bool = False
    is_done: bool = True

    @property
    def true_conditions(self) -> tuple[str, ...]:
        """Conditions that are True by these counts. The first is the one to announce."""
        if self.is_stopped:
            return ()
        if self.is_updating:
            return (UPDATE_IN_PROGRESS, PROGRESSING)
        return (AVAILABLE,) if self.is_done and self.ready == self.replicas else (PROGRESSING,)


def set_status(observed: StatusInput) -> SetStatus:
    """Build the whole status, because conditions that depend on each other change together."""
    lws = observed.snapshot.lws
    stored: Mapping[str, Any] = lws.get("status") or {}
    generation = lws["metadata"].get("generation", 0)
    scope = _scope(observed)
    blocked_by = blocking_problem(name_of(lws), "; ".join(problem.message for problem in observed.problems))
    summary = summarise(observed.rollout, blocked_by)
    pace = _pace(observed, scope, summary)
    last_progress = pace.last_progress(lws)
    due_in = pace.due_in(last_progress)
    before = stored.get("conditions") or []
    desired = (*_conditions(before, scope), _degraded(observed), *failure(observed.problems))
    ended = frozenset(observed.out_of_restarts)
    ids = [group_id(group.leader) for group in observed.snapshot.groups if group.index in ended]
    desired = (*desired, *failed(before, ids), *filter(None, (observed.scheduling,)))
    desired = (*desired, *((_STUCK,) if scope.is_stuck else ()))
    reasons = [*(problem.message for problem in observed.problems), *map(str, summary.unsettled)]
    conditions = conditions_after(before, desired, pace, due_in, reasons, generation)
    fields = {
        **_counters(lws, observed),
        **_recorded(stored, observed),
        "prewarm": dict(observed.prewarm),
        "started": dict(observed.started),
        "groups": summary.stored(lws["metadata"]["name"]),
        LAST_PROGRESS: last_progress,
        "observedGeneration": generation,
        "conditions": conditions,
    }
    # Readers treat zero as absent, and upstream stores it so. Null marks a stored field that is unreadable.
    intended = {
        name: value
        for name, value in {**stored, **fields}.items()
        if value is not None and (value or name not in fields)
    }
    patch = merge_patch(stored, intended)
    if patch is not None and patch.keys() <= {"members"} and not any((patch.get("members") or {}).values()):
        # Removing the members of deleted groups can wait for the next write.
        patch = None
    announce = tuple(_announcements(lws, scope, before, conditions, intended))
    return SetStatus(intended, patch, announce, due_in or None)


def _pace(observed: StatusInput, scope: _Scope, summary: Summary) -> Pace:
    snapshot = observed.snapshot
    prewarm_before = (snapshot.lws.get("status") or {}).get("prewarm") or {}
    return Pace(
        deadline=snapshot.spec.progress_deadline,
        now=snapshot.now,
        is_progressing=PROGRESSING in scope.true_conditions,
        is_paused=observed.rollout.paused,
        has_moved=observed.has_moved or observed.prewarm != prewarm_before,
        settled=summary.counts.get(READY, 0),
        waits=observed.waits,
        is_prewarming=bool(observed.rollout.prewarming),
    )


def _recorded(stored: Mapping[str, Any], observed: StatusInput) -> dict[str, Any]:
    """Return facts that cannot be observed again: members, restarts, position of the rollout. Passes over
    groups count restarts. Restarts of groups that are no longer desired are removed here.
    """
    rollout, restarts = observed.rollout, stored.get("restarts") or {}
    existing = {group.index for group in rollout.groups} if restarts else set()
    indices = {
        name: index for name in restarts if (index := whole_number(name, most=MOST_GROUP_NUMBER)) is not None
    }
    end: float = rollout.replicas
    if rollout.deployment is not None:
        # A Hash group that is recreated gets another number, and takes over the restarts of its predecessor.
        live = [group for group in rollout.groups if not group.terminating]
        is_complete = len(live) >= rollout.replicas and not any(group.gate for group in live)
        end = 0 if is_complete else math.inf
    restarts = {name: restarts[name] for name, index in indices.items() if index in existing or index < end}
    current = current_members(observed.snapshot, rollout.ready)
    members = {str(index): str(uids) for index, uids in sorted(current.items())}
    position = {"rollout": dict(observed.position)} if observed.position is not None else {}
    return {"members": members, "restarts": restarts, **position}


def _counters(lws: Object, observed: StatusInput) -> dict[str, Any]:
    """Return the counters, which include the surge, and the names of the revisions."""
    deployment = observed.rollout.deployment
    ready = deployment.ready if deployment is not None else len(observed.rollout.ready)
    return {
        "replicas": observed.existing,
        "readyReplicas": ready,
        "updatedReplicas": _updated(observed),
        "hpaPodSelector": f"{NAME_LABEL}={lws['metadata']['name']},{WORKER_INDEX_LABEL}=0",
        **{name: value for name, value in observed.revisions.items() if value is not None},
    }


def _updated(observed: StatusInput) -> int:
    """Return the number of groups on the target revision. During a surge, the number stays below the desired
    number until all desired groups are settled: otherwise Kueue considers the rollout complete and deletes
    the surge pods that still replace others.
    """
    rollout = observed.rollout
    if rollout.deployment is not None:
        return rollout.deployment.updated
    updated, desired = sum([group.updated for group in rollout.groups]), rollout.replicas
    settled = sum([group.settled for group in rollout.groups if group.index < desired])
    is_surge_needed = observed.existing > desired and settled < desired
    return min(updated, desired - 1) if is_surge_needed else updated


def _scope(observed: StatusInput) -> _Scope:
    rollout, replicas = observed.rollout, observed.rollout.replicas
    ended = {*observed.exhausted, *observed.out_of_restarts}
    if rollout.deployment is not None:
        return _hash_scope(observed, rollout.deployment, ended)
    desired = [group for group in rollout.groups if group.index < replicas]
    ready = sum([group.ready for group in desired])
    is_updating = any([group.outdated and group.index >= rollout.floor for group in desired])
    stopped = {index for index in observed.exhausted if index < replicas}
    # Such a group may be ready until its pods are deleted.
    lasting = ready - (sum([group.ready and group.index in stopped for group in desired]) if stopped else 0)
    stuck = sum([not group.ready and group.index in ended for group in desired])
    unready = replicas - ready
    return _Scope(
        replicas=replicas,
        ready=ready,
        updated=sum([group.updated for group in desired]),
        is_updating=is_updating,
        is_degraded=bool(stopped),
        is_stopped=0 < len(stopped) == replicas - lasting and not is_updating,
        is_stuck=0 < stuck == unready and not is_updating,
    )


def _hash_scope(observed: StatusInput, deployment: LeaderDeployment, ended: set[int]) -> _Scope:
    """Return the counts of a set with Hash groups. ended: numbers of groups that have used up their restarts.

    The Deployment does not count these groups, except those whose leader still runs. It counts their
    successors, whose leaders stay gated.
    """
    replicas, ready = observed.rollout.replicas, min(deployment.ready, deployment.updated)
    is_done = observed.rollout.is_done
    is_updating = not is_done and any(
        [group.outdated and not group.terminating for group in observed.rollout.groups]
    )
    missing, stopped, stuck = max(replicas, deployment.replicas) - ready, len(observed.exhausted), 0
    if ended:
        facts = observed.snapshot.groups
        gated = {group.index for group in facts if has_gate(group.leader, GROUP_REPLACEMENT_GATE)}
        unready = {group.index for group in observed.rollout.groups if not group.ready}
        stuck = len(unready & ended) if unready <= ended | gated else 0
    return _Scope(
        replicas=replicas,
        ready=ready,
        updated=deployment.updated,
        is_updating=is_updating,
        is_degraded=stopped > 0,
        is_stopped=0 < stopped >= missing and not is_updating,
        is_stuck=0 < missing <= stuck and not is_updating,
        is_done=is_done and deployment.replicas <= replicas,
    )


def _conditions(stored: Sequence[Mapping[str, Any]], scope: _Scope) -> Iterator[Condition]:
    """Yield the three conditions. Unless the set is degraded, True ones come first, and a condition that was
    never True is left out.
    """
    if scope.is_degraded:
        for condition in _STOPPED_CONDITIONS:
            yield _TRUE[condition.type] if condition.type in scope.true_conditions else condition
        return
    # An update ends only when all groups are ready again, including those below `floor`.
    is_ending = is_true(stored, UPDATE_IN_PROGRESS) and AVAILABLE not in scope.true_conditions
    if not stored and scope.replicas and PROGRESSING not in scope.true_conditions:
        # Groups that are ready at the first status were created before it, as Events reported.
        yield _false(PROGRESSING, scope)
    for type_ in scope.true_conditions:
        yield _TRUE[type_]
    for type_ in (AVAILABLE, PROGRESSING, UPDATE_IN_PROGRESS):
        if type_ in scope.true_conditions or find(stored, type_) is None:
            continue
        is_still_true = type_ == UPDATE_IN_PROGRESS and is_ending
        yield _TRUE[type_] if is_still_true else _false(type_, scope)


def _false(type_: str, scope: _Scope) -> Condition:
    if type_ == PROGRESSING:
        why = "No group is being created or replaced"
    elif type_ == UPDATE_IN_PROGRESS:
        why = "No group is waiting to be updated"
    elif scope.ready < scope.replicas:
        why = f"{scope.ready} of {scope.replicas} groups are ready"
    else:
        why = f"All groups are ready, {scope.updated} of {scope.replicas} groups are on the target revision"
    return Condition(type_, False, _TRUE[type_].reason, why)


def _degraded(observed: StatusInput) -> Condition:
    """Return Degraded, which is True if a group has used up upstream's limit of restarts. The condition
    Failed reports `spec.maxGroupRestarts`.
    """
    if observed.exhausted:
        return _DEGRADED
    message = _REPORTED_BY_FAILED if observed.out_of_restarts else _NOT_EXHAUSTED
    return Condition(DEGRADED, False, "AsExpected", message)


def failure(problems: Sequence[Problem]) -> Iterator[Condition]:
    """Yield the condition ReplicaFailure if there are problems. problems: worst first."""
    if problems:
        message = "; ".join(problem.message for problem in problems)[:_LONGEST_MESSAGE]
        yield Condition(REPLICA_FAILURE, True, problems[0].reason, message)


def conditions_after(
    before: Sequence[Mapping[str, Any]],
    desired: Iterable[Condition],
    pace: Pace,
    due_in: float | None,
    reasons: Iterable[str],
    generation: int,
) -> list[dict[str, Any]]:
    """Return all conditions after a pass: the desired ones, Stalled, and Reconciling while groups are created
    or replaced and the set is not stalled.

    before: conditions as stored. reasons: why groups are not settled, for Stalled. Stalled is absent until it
    is true once, and without a deadline. kstatus does not know Progressing: without Reconciling it considers
    a set in a rollout finished.
    """
    by_type = {condition.type: condition for condition in desired}
    is_due = due_in == 0 or find(before, STALLED) is not None
    if STALLED not in by_type and pace.deadline is not None and is_due:
        by_type[STALLED] = stalled_condition(pace, due_in, "; ".join(reasons)[:_LONGEST_NOTE])
    conditions: Sequence[Mapping[str, Any]] = before
    for condition in by_type.values():
        conditions = with_condition(conditions, condition, generation, pace.now)
    for type_ in (REPLICA_FAILURE, STALLED):
        if type_ not in by_type:
            conditions = without_condition(conditions, type_)
    progressing = find(conditions, PROGRESSING)
    if progressing is None or progressing.get("status") != "True" or is_true(conditions, STALLED):
        return without_condition(conditions, RECONCILING)
    reason, message = (str(progressing.get(field, "")) for field in ("reason", "message"))
    return with_condition(conditions, Condition(RECONCILING, True, reason, message), generation, pace.now)


def stall_events(
    obj: Object, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> Iterator[Announce]:
    """Yield the Event for Stalled becoming true."""
    if (stall := becomes_true(STALLED, before, after)) is not None:
        yield Announce(Reference.to(obj), STALLED, "Update", stall["message"], "Warning")


def _announcements(
    lws: Object,
    scope: _Scope,
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    intended: Mapping[str, Any],
) -> Iterator[Announce]:
    # One Event for all conditions that have become true.
    new = _DEGRADED if is_true(after, DEGRADED) and not is_true(before, DEGRADED) else None
    if new is None and any(not is_true(before, type_) for type_ in scope.true_conditions):
        new = _TRUE[scope.true_conditions[0]]
    if new is not None:
        ready = intended.get("readyReplicas", 0)
        note = f"{new.message}, with {ready} groups ready of total {scope.replicas} groups"
        yield Announce(regarding=Reference.to(lws), reason=new.reason, action="Update", note=note)
    # Events of the groups have reported that they are stuck.
    if not scope.is_stuck:
        yield from stall_events(lws, before, after)


# --- Decide whether a change of the status can be batched with later ones. `lws.runtime.throttle` decides how
# long. Conditions, generations, names of revisions and groups above `spec.replicas` are never delayed.


# Fields that change with every group that becomes ready, moves or is deleted. The last such change comes with
# a condition, or satisfies `has_shrunk`.
_PROGRESS = frozenset(
    {
        "replicas",
        "readyReplicas",
        "updatedReplicas",
        "members",
        "groups",
        LAST_PROGRESS,
        "conditions",
        "prewarm",
    }
)


def can_wait(
    stored: Mapping[str, Any], patch: Mapping[str, Any], progress: Collection[str] = _PROGRESS
) -> bool:
    """Return whether the patch only reports progress. progress: names of the fields that report it."""
    if not patch.keys() <= set(progress):
        return False
    if not (patch.get("prewarm") or {}).keys() <= {"nodes", "ended"}:
        return False
    return "conditions" not in patch or _significant(patch["conditions"]) == _significant(
        stored.get("conditions")
    )


def has_shrunk(stored: Mapping[str, Any], patch: Mapping[str, Any], desired: int) -> bool:
    """Return whether the last surplus group is deleted, which no condition shows: the set stays Available.
    Autoscalers read the number of groups: batched, the last of fifty sets that were scaled down at once
    reported it after 13 s. desired: number of groups, the surge included.
    """
    before, after = stored.get("replicas"), patch.get("replicas", desired + 1) or 0
    return is_integer(before) and before > desired == after


def has_surged(stored: Mapping[str, Any], patch: Mapping[str, Any], replicas: int) -> bool:
    """Return whether there are more groups above `replicas` than the stored status shows. While fewer than
    `replicas` groups are updated, Kueue keeps pods of the surge gated until the status shows them.
    """
    after = {**stored, **patch}
    existing, updated = _count(after, "replicas"), _count(after, "updatedReplicas")
    is_needed_again = updated < replicas <= _count(stored, "updatedReplicas")
    return existing > replicas and (existing > _count(stored, "replicas") or is_needed_again)


def is_first_status(stored: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Return whether this is the first status, and only reports that groups are being created."""
    conditions = _significant(patch.get("conditions"))
    true = {type_ for type_, status, _ in conditions if status == "True"}
    return not stored and true - {RECONCILING} == {PROGRESSING}


def _count(status: Mapping[str, Any], field: str) -> int:
    count = status.get(field)
    return count if is_integer(count) else 0


def _significant(conditions: Any) -> list[tuple[str, ...]]:
    """Return type and status of conditions, and the reasons of those that are True."""
    return [
        (
            condition["type"],
            condition["status"],
            condition.get("reason", "") if condition["status"] == "True" else "",
        )
        for condition in conditions or ()
    ]


# --- Numbers of a set for metrics, and their names.


DESIRED, READY_GROUPS, UPDATED, BY_STATE = "desired", "ready", "updated", "by state"
FAILED, STUCK = "failed", "stalled"
DELAYED = "delayed"
"""A group whose recreation waits for the end of its backoff."""
RECREATED, SPURIOUS = "recreated", "spurious"
"""RECREATED: groups that this process has deleted to recreate them. SPURIOUS: groups that were replaced for a
revision equal to their own.
"""

CONTAINER_RESTARTED, DISRUPTION, MISSING_REVISION = "ContainerRestarted", "Disruption", "MissingRevision"
POD_DELETED, POD_FAILED, POD_REPLACED, ROLLOUT = "PodDeleted", "PodFailed", "PodReplaced", "Rollout"
RECREATION_REASONS = (
    CONTAINER_RESTARTED,
    DISRUPTION,
    MISSING_REVISION,
    POD_DELETED,
    POD_FAILED,
    POD_REPLACED,
    ROLLOUT,
)
"""Reasons for recreating a group."""


def figures_of(lws: Object, status: Mapping[str, Any], replicas: int, failed: int) -> Figures:
    """Return the numbers of a set. status: the intended status. replicas: number of desired groups. failed:
    number of groups that have used up their restarts.
    """
    conditions = status.get("conditions")
    rolling = is_true(conditions, UPDATE_IN_PROGRESS)
    numbers: dict[tuple[str, str], float] = {
        (DESIRED, ""): replicas,
        (READY_GROUPS, ""): status.get("readyReplicas", 0),
        (UPDATED, ""): status.get("updatedReplicas", 0),
        (FAILED, ""): failed,
        (STUCK, ""): lacks_progress(conditions),
        (ROLLING, ""): rolling,
    }
    counts = (status.get("groups") or {}).get("counts") or {}
    numbers |= {(BY_STATE, state): count for state, count in counts.items()}
    started = (find(conditions, UPDATE_IN_PROGRESS) or {}).get("lastTransitionTime") if rolling else None
    revision = status.get("updateRevision") or ""
    return Figures(KIND, lws["metadata"]["name"], numbers, revision, started or "")


def lacks_progress(conditions: Sequence[Mapping[str, Any]] | None) -> bool:
    """Return whether the set is stalled by its deadline; stuck groups have their own metric and alert."""
    return is_true(conditions, STALLED) and (find(conditions, STALLED) or {}).get("reason") != _STUCK.reason


def starts_of(groups: Iterable[GroupFacts], ready: Collection[int]) -> dict[str, str]:
    """Return the creation time of the leaders of groups with `ready` indices, "" for other groups, by UID."""
    return {group.uid: group.created if group.index in ready else "" for group in groups}


def recreation_tally(lws: Object, reason: str) -> Tally:
    """Count a group that is recreated. reason: one of `RECREATION_REASONS`."""
    return Tally(KIND, lws["metadata"]["name"], RECREATED, reason)


def spurious_replacement_tally(lws: Object) -> Tally:
    """Count a group that was replaced for a revision equal to its own."""
    return Tally(KIND, lws["metadata"]["name"], SPURIOUS)


def delay_figures(lws: Object) -> Figures:
    """Report a group whose recreation is delayed."""
    return Figures(KIND, lws["metadata"]["name"], {(DELAYED, ""): 1})
