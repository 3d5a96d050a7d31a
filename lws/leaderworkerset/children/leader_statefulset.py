"""Plan the leader StatefulSet of a set: create it, update it, replace leaders, and retry rejected pods.

Writes are ordered so that a crash loses nothing: first the revision, then the groups to delete, the position
of the rollout in the status, and the StatefulSet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lws import timing
from lws.kube import patches
from lws.kube.conditions import moment_of, timestamp
from lws.kube.metadata import (
    annotations_of,
    belongs_to_a_tool,
    is_controlled_by,
    is_terminating,
    labels_of,
    missing_labels,
    uid_of,
    without_tool_keys,
)
from lws.kube.pods import disruption_of
from lws.kube.statefulsets import current_revision_of, partition_of
from lws.leaderworkerset import events
from lws.leaderworkerset.assessment.assessment import (
    Assessment,
    Position,
    beginning,
    record_position,
    recorded_position,
)
from lws.leaderworkerset.assessment.target_revision import TargetRevision, equal_keys
from lws.leaderworkerset.revisions.history import restore
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.rollout.groups import FIELD_MANAGER, GroupState, LeaderStatefulSet
from lws.leaderworkerset.rollout.plan import is_small_step, plan_rollout
from lws.leaderworkerset.rollout.replacement import deletion_of, workers_to_delete
from lws.leaderworkerset.rollout.scale_down import leftovers
from lws.leaderworkerset.rollout.state import Rollout, RolloutState, statefulset_max_unavailable
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import SetSpec, ends_in_parallel
from lws.leaderworkerset.status.status import ROLLOUT, recreation_tally, spurious_replacement_tally
from lws.leaderworkerset.templates.objects import RollingUpdate, build_leader_statefulset
from lws.runtime.actions import (
    Action,
    Announce,
    Apply,
    Delete,
    Merge,
    Object,
    Plan,
    Postponable,
    Reference,
    Tally,
    soonest,
)
from lws_api.leaderworkerset.v1 import NAME_LABEL, PODS_RETRIED_AT_ANNOTATION, REVISION_LABEL

_TEMPLATE, _STRATEGY = ("spec", "template"), ("spec", "updateStrategy")


@dataclass(frozen=True, slots=True)
class LeaderStep:
    """A part of the plan, the position of the rollout after it, and whether the position changes."""

    plan: Plan
    position: Position | None = None
    has_moved: bool = False


def plan_statefulset(snapshot: SetSnapshot, assessment: Assessment) -> LeaderStep:
    """Plan the next step of the leader StatefulSet."""
    lws, leaders, position_recorded = snapshot.lws, snapshot.leaders, recorded_position(snapshot.lws)
    choice, state = assessment.target, assessment.rollout
    stored, rollout = state.statefulset, plan_rollout(state)
    if leaders is None or stored is None:
        created = _create_leaders(snapshot, choice, rollout)
        return LeaderStep(Plan(((*choice.actions, created),), waiting_for=rollout.waiting_for))
    if (
        position_recorded is not None
        and not stored.is_current
        and not (stored.observed or current_revision_of(leaders))
    ):
        # Which of a StatefulSet's two templates is the older one is only known after its first status update.
        waiting_for = "the StatefulSet controller to report on the revision that the set came from"
        patience = timing.REPORT_WITHIN.total_seconds()
        return LeaderStep(Plan((choice.actions,), waiting_for=waiting_for, again_after=patience))
    unseen = _unseen_surge(snapshot, state, stored, rollout)
    if unseen is not None:
        rollout = plan_rollout(replace(state, stays=True))
    position = Position(choice.name, rollout.partition)
    guard = _guard(lws, leaders, position, choice.key)
    left_behind = _left_behind(snapshot, stored, state.groups)
    tallies = rollout_tallies(snapshot, choice, _moved(state, stored, rollout))
    applies = _apply_leaders(snapshot, leaders, choice, rollout, left_behind, tallies)
    # Delete only leaders that the stored StatefulSet recreates on the new template. The StatefulSet
    # controller deletes the others once it sees the new partition. If it saw their deletion first, it would
    # recreate them on the old template.
    deletions = _replace_groups(snapshot, rollout.within(stored).replace)
    leader_deletes = tuple(delete for delete, *_ in deletions)
    worker_deletes = tuple(delete for _, *of_workers in deletions for delete in of_workers)
    step = (*guard, *applies)
    sequences: tuple[tuple[Action, ...], ...] = ((*choice.actions, *step), (*leader_deletes, *worker_deletes))
    if rollout.partition < stored.partition:
        # Delete leaders before the partition is lowered: otherwise the StatefulSet controller could delete
        # the same number again. A rejected deletion delays only such a step.
        sequences = ((*choice.actions, *leader_deletes, *step, *worker_deletes),)
    small_step = Postponable(Reference.to(leaders), step)
    # If the StatefulSet controller stops reporting, the rollout must not wait for the next resync.
    report_due = timing.REPORT_WITHIN.total_seconds() if stored.awaited else None
    planned = Plan(
        (*sequences, tuple(_left_workers(snapshot, state))),
        again_after=soonest((report_due, unseen)),
        waiting_for=rollout.waiting_for,
        postponable=(small_step,) if is_small_step(state, rollout) else (),
    )
    return LeaderStep(planned, position, has_moved=bool(guard))


def _unseen_surge(
    snapshot: SetSnapshot, state: RolloutState, stored: LeaderStatefulSet, rollout: Rollout
) -> float | None:
    """Return the seconds until other controllers have had time to see the surge; None if no step has to wait
    for it. The first step never waits. A later step may remove the surge while other controllers still rely
    on it.
    """
    continues = rollout.partition < stored.partition < state.replicas or rollout.replicas < stored.replicas
    is_scaled = not stored.is_current or stored.last_replicas != state.replicas
    if not continues or is_scaled or state.paused or state.prewarming or not state.outdated:
        return None
    surge = range(state.replicas, stored.replicas)
    created = (moment_of(group.created) for group in snapshot.groups if group.index in surge)
    ages = [abs(snapshot.now - moment) for moment in created if moment is not None]
    unseen = timing.AFTER_SURGE - min(ages, default=timing.AFTER_SURGE)
    return unseen.total_seconds() if unseen > timedelta(0) else None


def _guard(lws: Object, leaders: Object, position: Position, key: str) -> tuple[Action, ...]:
    """Record the position before the StatefulSet is updated; plan nothing if the position does not change."""
    is_new = key_of_template(leaders) != key
    if not is_new and position.partition == partition_of(leaders):
        return ()
    return (record_position(lws, position),) if position != recorded_position(lws) else ()


def _create_leaders(snapshot: SetSnapshot, choice: TargetRevision, planned: Rollout) -> Apply:
    lws = snapshot.lws
    start = beginning(snapshot, choice, planned)
    spec, key, revision = snapshot.spec, choice.key, choice.revision
    if start.former is not None:
        spec, key, revision = SetSpec.of(restore(lws, start.former)), start.former.key, start.former.reference
    update = RollingUpdate(
        start.rollout.partition, start.rollout.replicas, statefulset_max_unavailable(snapshot.spec)
    )
    return Apply(
        build_leader_statefulset(spec, key, update),
        why=start.rollout.why,
        announce=events.created_leaders(lws, revision),
        failure=events.failed_leaders(lws, "create"),
    )


def _apply_leaders(
    snapshot: SetSnapshot,
    stored: Object,
    choice: TargetRevision,
    rollout: Rollout,
    left_behind: tuple[Announce, ...],
    tallies: tuple[Tally, ...],
) -> tuple[Apply | Merge, ...]:
    lws = snapshot.lws
    update = RollingUpdate(rollout.partition, rollout.replicas, statefulset_max_unavailable(snapshot.spec))
    intent = build_leader_statefulset(snapshot.spec, choice.key, update, stored)
    paths = paths_to_apply(snapshot, stored, intent)
    if not paths:
        return ()
    why = rollout.why or f"changed: {', '.join('.'.join(path) for path in paths[:5])}"
    is_begun = key_of_template(stored) == choice.key
    announce = (*events.moved_leaders(lws, stored, rollout, choice.revision, is_begun), *left_behind)
    patch = _beside_template(intent, stored, paths)
    if patch is not None:
        patch = without_tool_keys(stored, patch)
        return (Merge(Reference.to(stored), patch, why=why, announce=announce),)
    failure = events.failed_leaders(lws, "update")
    uid = stored["metadata"]["uid"]
    applying = Apply(intent, why=why, uid=uid, announce=announce, failure=failure, tallies=tallies)
    return (applying, *take_off_tool_keys(stored))


def take_off_tool_keys(stored: Object) -> tuple[Merge, ...]:
    """Remove labels and annotations of deployment tools that an apply keeps for their other owner."""
    patch = without_tool_keys(stored, {})
    if all(
        patches.is_owned(stored, FIELD_MANAGER, ("metadata", field, key))
        for field, keys in patch.get("metadata", {}).items()
        for key in keys
    ):
        return ()
    return (
        Merge(Reference.to(stored), patch, why="a deployment tool would treat it as its own, and prune it"),
    )


def _beside_template(
    intent: Object, stored: Object, paths: Sequence[patches.Path]
) -> Mapping[str, Any] | None:
    """Return a patch to use instead of an apply, if the API server dropped template fields before; else None.
    If their feature gate was enabled since, an apply for a mere change of replicas or labels would add them,
    and the StatefulSet controller would roll every leader at its own pace. The next template has them.
    """
    if any(path[:2] in (_TEMPLATE, _STRATEGY) for path in paths):
        # Steps of a rollout are always applied: the time of the apply shows how long a report on it may take.
        return None
    if not patches.was_dropped_below(intent, stored, FIELD_MANAGER, _TEMPLATE):
        return None
    return patches.merge_patch_of(intent, paths)


def paths_to_apply(snapshot: SetSnapshot, stored: Object, intent: Object) -> Sequence[patches.Path]:
    """Return the paths at which to change the stored StatefulSet or Deployment; none if this intent has been
    applied before and the stored spec has not changed since, because applying it again would not help.
    """
    paths = patches.changed_paths(intent, stored, FIELD_MANAGER, _is_kept)
    # Without these labels, no watch would select the object, or it would count as another revision.
    lost = missing_labels(stored, {key: labels_of(intent)[key] for key in (NAME_LABEL, REVISION_LABEL)})
    if not paths or lost:
        return paths
    applied = (patches.digest(intent), stored["metadata"].get("generation", 0))
    return paths if snapshot.applied_leaders != applied else ()


def _is_kept(path: patches.Path) -> bool:
    """Return whether the path is a label or annotation of a deployment tool that earlier releases copied, and
    which is kept until the next rollout.
    """
    return path[:1] == ("metadata",) and path[1] in ("labels", "annotations") and belongs_to_a_tool(path[-1])


def _left_behind(
    snapshot: SetSnapshot, stored: LeaderStatefulSet, groups: Sequence[GroupState]
) -> tuple[Announce, ...]:
    """Return the Event about unready groups that a scale-down of the `stored` StatefulSet keeps."""
    replicas = snapshot.spec.replicas
    if stored.last_replicas is None or replicas >= stored.last_replicas:
        return ()
    kept_groups = leftovers(groups, {group.index: group.leader for group in snapshot.groups}, replicas)
    return events.left_behind(snapshot.lws, replicas, stored.replicas, kept_groups)


def _replace_groups(snapshot: SetSnapshot, indices: Sequence[int]) -> list[tuple[Delete, ...]]:
    groups = {group.index: group for group in snapshot.groups} if indices else {}
    return [
        deletion_of(groups[index].leader, groups[index].worker_statefulset, why=_why_moved(index))
        for index in indices
    ]


def _why_moved(index: int) -> str:
    return f"group {index} moves to the new revision"


def _moved(state: RolloutState, stored: LeaderStatefulSet, rollout: Rollout) -> frozenset[int]:
    """Return the indices of the groups that the step moves to the new revision. This controller or the
    StatefulSet controller deletes their leaders with the step or after it.
    """
    end = min(stored.partition if stored.is_current else stored.replicas, rollout.replicas)
    covered = range(rollout.partition, end)
    return frozenset(
        group.index
        for group in state.groups
        if group.outdated and not group.terminating and group.index in covered
    )


def rollout_tallies(
    snapshot: SetSnapshot, choice: TargetRevision, indices: Collection[int]
) -> tuple[Tally, ...]:
    """Return increments of metrics for groups that move to the new revision."""
    if not indices:
        return ()
    lws, equal = snapshot.lws, equal_keys(snapshot, choice)
    moved = [group for group in snapshot.groups if group.index in indices]
    for_nothing = [spurious_replacement_tally(lws) for group in moved if group.leader_key in equal]
    return (*[recreation_tally(lws, ROLLOUT) for _ in moved], *for_nothing)


def _left_workers(snapshot: SetSnapshot, state: RolloutState) -> Iterator[Delete]:
    """Delete the workers of leaders that the StatefulSet controller deletes. The garbage collector would
    delete these workers only after their leader is gone.
    """
    stored = state.statefulset
    if stored is None or not stored.is_current or ends_in_parallel(snapshot.lws):
        return
    covered = range(stored.partition, stored.replicas)
    ending = {
        group.index for group in state.groups if group.outdated and group.terminating and not group.kept
    }
    for group in snapshot.groups if ending else ():
        # A leader that is being drained may need its workers to finish.
        if group.index not in ending or group.index not in covered or disruption_of(group.leader):
            continue
        workers = workers_to_delete(group.leader, group.worker_statefulset)
        if workers is not None:
            yield Delete(Reference.to(workers), "Background", why=_why_moved(group.index))


_NEVER = datetime.min.replace(tzinfo=UTC)
_MOST_AT_ONCE = timing.RETRY_NEXT_PODS_AFTER // timing.RETRY_PODS_EACH


def plan_retries(snapshot: SetSnapshot) -> Plan:
    """Make controllers retry rejected pods, beginning with the StatefulSets that have waited longest.

    A StatefulSet controller doubles its backoff after each failed sync, and events start many syncs a second,
    so pods would be created minutes after the cause is gone. Any change of a StatefulSet starts a sync at
    once, and a change of an annotation has no other effect.
    """
    refused = _refused(snapshot)
    pause = max(timing.RETRY_PODS_AFTER, len(refused) * timing.RETRY_PODS_EACH)
    waits = [
        (_last_try(statefulset, snapshot) + pause - snapshot.now, statefulset) for statefulset in refused
    ]
    overdue = sorted((pair for pair in waits if pair[0] <= timedelta()), key=lambda pair: pair[0])
    again_after = [wait for wait, _ in waits if wait > timedelta()]
    if overdue:
        again_after.append(timing.RETRY_NEXT_PODS_AFTER if len(overdue) > _MOST_AT_ONCE else pause)
    return Plan(
        sequences=tuple((_retry(statefulset, snapshot.now),) for _, statefulset in overdue[:_MOST_AT_ONCE]),
        again_after=soonest(wait.total_seconds() for wait in again_after),
    )


def _refused(snapshot: SetSnapshot) -> list[Object]:
    """Return the StatefulSets that lack pods because of a rejection; the leader StatefulSet comes first."""
    if not snapshot.pods_refused_at:
        return []
    leaders, uid = snapshot.leaders, uid_of(snapshot.lws)
    # Any successful write would count as the end of the rejection of the leader StatefulSet's update.
    may_change = leaders is not None and is_controlled_by(leaders, uid) and not snapshot.are_leaders_refused
    workers = (group.worker_statefulset for group in snapshot.groups if not group.is_leader_terminating)
    return [
        statefulset
        for statefulset in (leaders if may_change else None, *workers)
        if statefulset is not None
        and statefulset["metadata"]["uid"] in snapshot.pods_refused_at
        and not is_terminating(statefulset)
    ]


def _last_try(statefulset: Object, snapshot: SetSnapshot) -> datetime:
    """Return when the StatefulSet controller last tried to create pods, as far as known."""
    retried_at = moment_of(annotations_of(statefulset).get(PODS_RETRIED_AT_ANNOTATION))
    moments = (retried_at, snapshot.pods_refused_at[statefulset["metadata"]["uid"]])
    # Ignore times further in the future than clock skew explains.
    latest = snapshot.now + timedelta(seconds=timing.SKEW_SECONDS)
    return max((moment for moment in moments if moment is not None and moment <= latest), default=_NEVER)


def _retry(statefulset: Object, now: datetime) -> Merge:
    patch = {"metadata": {"annotations": {PODS_RETRIED_AT_ANNOTATION: timestamp(now)}}}
    why = "its pods were rejected, and its controller backs off longer after each attempt"
    return Merge(Reference.to(statefulset), without_tool_keys(statefulset, patch), why=why)
