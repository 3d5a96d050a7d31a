"""Plan one pass over a set: revisions, leaders, Services and other children, and the status.

In: a SetSnapshot. Out: a Plan. This file is the table of contents: each child and each part of the status is
planned in a file of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from lws import timing
from lws.kube.conditions import is_true, moment_of
from lws.kube.metadata import is_terminating
from lws.kube.ownership import Ownership
from lws.leaderworkerset import events
from lws.leaderworkerset.assessment.assessment import Assessment, assess, recorded_position
from lws.leaderworkerset.assessment.prewarm import plan_prewarm, prewarmed, recorded_prewarming
from lws.leaderworkerset.assessment.target_revision import (
    TargetRevision,
    former_revision,
    plan_pruning,
    plan_revision_repairs,
)
from lws.leaderworkerset.children.disruption_budget import plan_disruption_budget
from lws.leaderworkerset.children.leader_deployment import (
    plan_deployment,
    plan_ended,
    plan_node_loss,
    plan_succession,
)
from lws.leaderworkerset.children.leader_statefulset import LeaderStep, plan_retries, plan_statefulset
from lws.leaderworkerset.children.services import plan_leader_service, plan_service
from lws.leaderworkerset.children.workload import SchedulingStep, plan_scheduling
from lws.leaderworkerset.left_alone import plan_left_alone, why_left_alone
from lws.leaderworkerset.restart_counts import InvalidCounts, counts_in, pruned
from lws.leaderworkerset.rollout.state import RolloutState
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import leaders_kind
from lws.leaderworkerset.status.problems import (
    STALLED,
    barred_pods,
    lost_nodes,
    plan_returns,
    problems_of,
    recheck_barred_pods,
    recheck_lost_nodes,
)
from lws.leaderworkerset.status.status import (
    UPDATE_IN_PROGRESS,
    Revisions,
    SetStatus,
    StatusInput,
    can_wait,
    figures_of,
    has_shrunk,
    has_surged,
    is_first_status,
    lacks_progress,
    set_status,
    starts_of,
)
from lws.leaderworkerset.templates.claims import claims_at_risk, plan_owners
from lws.runtime.actions import (
    Announce,
    Figures,
    Merge,
    Object,
    Plan,
    Problem,
    Reference,
    Status,
    merge_plans,
    soonest,
)
from lws.runtime.children import Child, plan_obstacle
from lws_api.leaderworkerset.v1 import GROUP_RESTART_COUNTS_ANNOTATION


def plan(snapshot: SetSnapshot) -> Plan:
    """Plan one step towards the desired state of the set, and its status."""
    if is_terminating(snapshot.lws):
        # The set owns all of its children, so the garbage collector deletes them.
        return Plan(waiting_for="the set to be gone")
    problem = why_left_alone(snapshot.lws, snapshot.is_covered, snapshot.scheduler, snapshot.fault)
    if problem is not None:
        return plan_left_alone(snapshot, problem)
    assessment = assess(snapshot)
    ownership, target, rollout = assessment.ownership, assessment.target, assessment.rollout
    scheduling = plan_scheduling(snapshot)
    step = _plan_leaders(snapshot, assessment, scheduling)
    is_done = ownership == Ownership.OURS and rollout.is_done
    services = (plan_service(snapshot, is_done), plan_leader_service(snapshot))
    children: tuple[Plan, ...] = (
        scheduling.plan,
        step.plan,
        *services,
        plan_disruption_budget(snapshot, assessment.groups),
        plan_retries(snapshot),
        plan_returns(snapshot),
        plan_prewarm(snapshot, assessment.prewarming, target),
    )
    if rollout.deployment is not None:
        children += (
            plan_ended(snapshot, assessment),
            plan_node_loss(snapshot),
            plan_succession(snapshot, assessment),
        )
    blocking = (problem for child in children for problem in child.problems)
    pruning, unreadable = _restart_counts(snapshot, rollout, target.key if is_done else "")
    of_nodes = (*lost_nodes(snapshot), *barred_pods(snapshot))
    problems = problems_of(snapshot, [*blocking, *of_nodes, *unreadable])
    upkeep = [plan_revision_repairs(snapshot, target), pruning]
    upkeep.append(plan_owners(snapshot.lws, (group.index for group in snapshot.groups), snapshot.claims))
    if ownership in (Ownership.OURS, Ownership.ABSENT):
        upkeep.append(plan_pruning(snapshot, target, () if is_done else _recorded_names(snapshot.lws)))
    revisions = _revisions_to_report(snapshot, target, step, is_done)
    observed = StatusInput(
        snapshot,
        rollout,
        revisions,
        problems,
        position=_position_to_record(snapshot.lws, revisions, step),
        has_moved=step.has_moved,
        scheduling=scheduling.condition,
        prewarm={} if is_done else _prewarm_record(snapshot, assessment),
    )
    status = set_status(observed)
    announce = (*_taken_over(snapshot, revisions), *prewarmed(snapshot, assessment.prewarming))
    status = replace(status, announce=(*status.announce, *announce))
    waits = (status.due_in, recheck_lost_nodes(snapshot), recheck_barred_pods(snapshot))
    own = Plan(
        sequences=tuple(upkeep),
        statuses=_status_writes(snapshot, status, rollout),
        announce=(
            *events.problems(snapshot.lws, problems),
            *events.broken_revisions(snapshot.lws, snapshot.revisions),
        ),
        again_after=soonest((*waits, snapshot.recheck_after, _unseen_pods(snapshot, rollout.ready))),
        standing=_standing(status),
        figures=_figures(observed, status),
    )
    waiting_for = next((child.waiting_for for child in children if child.waiting_for), "")
    return replace(merge_plans(*children, own), waiting_for=waiting_for)


def _plan_leaders(snapshot: SetSnapshot, assessment: Assessment, scheduling: SchedulingStep) -> LeaderStep:
    if scheduling.is_first:
        return LeaderStep(Plan(waiting_for=scheduling.plan.waiting_for or "the Workload to be created"))
    former = f"the former leader {leaders_kind(snapshot.lws)}"
    blocked = plan_obstacle(snapshot.owner, Child(assessment.ownership, snapshot.leaders, former))
    if blocked is not None:
        return LeaderStep(blocked)
    if assessment.rollout.deployment is None:
        return plan_statefulset(snapshot, assessment)
    return LeaderStep(plan_deployment(snapshot, assessment))


def _restart_counts(
    snapshot: SetSnapshot, rollout: RolloutState, only_key: str
) -> tuple[tuple[Merge, ...], tuple[Problem, ...]]:
    """Plan the removal of restart counts that are no longer needed, or report that the counts are unreadable.
    Counts of deleted groups are removed and, unless `only_key` is empty, counts of revisions with other keys.
    Counts of Hash groups are handed to their successors instead: see `plan_succession`.
    """
    try:
        is_hash, counts = rollout.deployment is not None, counts_in(snapshot.lws)
        merge = pruned(snapshot.lws, _desired_groups(rollout), only_key) if counts and not is_hash else None
    except InvalidCounts as error:
        message = (
            f"{error}: fix or remove the annotation {GROUP_RESTART_COUNTS_ANNOTATION} of the set; until "
            "then, failed groups are not recreated"
        )
        problem = Problem("InvalidRestartCounts", message, action="Read")
        return (), (problem,) if snapshot.spec.counts_restarts else ()
    return (merge,) if merge is not None else (), ()


def _standing(status: SetStatus) -> frozenset[str]:
    conditions = status.intended.get("conditions")
    states = {
        UPDATE_IN_PROGRESS: is_true(conditions, UPDATE_IN_PROGRESS),
        STALLED: lacks_progress(conditions),
    }
    return frozenset(state for state, holds in states.items() if holds)


def _figures(observed: StatusInput, status: SetStatus) -> Figures:
    snapshot, failed = observed.snapshot, len(observed.out_of_restarts) + len(observed.exhausted)
    figures = figures_of(snapshot.lws, status.intended, snapshot.spec.replicas, failed)
    return replace(figures, groups=starts_of(snapshot.groups, observed.rollout.ready))


def _desired_groups(rollout: RolloutState) -> int:
    """Return the number of groups that should exist, including surge groups."""
    return max(rollout.replicas, rollout.statefulset.replicas if rollout.statefulset is not None else 0)


def _status_writes(snapshot: SetSnapshot, status: SetStatus, rollout: RolloutState) -> tuple[Status, ...]:
    """Return the status write and whether it can be delayed; empty if the status does not change."""
    if (patch := status.patch) is None:
        return ()
    lws = snapshot.lws
    stored = lws.get("status") or {}
    created = moment_of(lws["metadata"].get("creationTimestamp")) or snapshot.now
    # An older set without a status once had one, and another client removed it.
    is_new = snapshot.now - created <= timedelta(seconds=timing.LONGEST_STATUS_SECONDS)
    has_lost_groups = has_shrunk(stored, patch, _desired_groups(rollout))
    can_delay = not (has_lost_groups or has_surged(stored, patch, rollout.replicas))
    delays = can_delay and can_wait(stored, patch), can_delay and is_new and is_first_status(stored, patch)
    return (Status(Reference.to(lws), patch, status.announce, *delays, before=stored),)


def _revisions_to_report(
    snapshot: SetSnapshot, target: TargetRevision, step: LeaderStep, is_done: bool
) -> Revisions:
    """Return the revisions for the status; none if this pass does not record the target revision first."""
    (first, *_) = step.plan.sequences or ((),)
    if first[: len(target.actions)] != target.actions:
        return Revisions()
    current = target.name if is_done else former_revision(snapshot, target)
    return Revisions(current, target.name, target.collisions)


def _recorded_names(lws: Object) -> tuple[str, ...]:
    """Return the revisions from which a leader StatefulSet lost in this rollout would be recreated."""
    position, current = recorded_position(lws), (lws.get("status") or {}).get("currentRevision")
    return (*((position.revision,) if position is not None else ()), str(current or ""))


def _prewarm_record(snapshot: SetSnapshot, assessment: Assessment) -> Mapping[str, Any]:
    if assessment.prewarming is not None:
        return assessment.prewarming.record(snapshot.now)
    if snapshot.spec.prewarm is None:
        return {}
    target, stored = assessment.target.name, assessment.rollout.statefulset
    record = recorded_prewarming(snapshot.lws, target)
    if not snapshot.spec.paused:
        return record if record.get("completionTime") else {}
    # Groups that are added during a pause have the new revision, as if the rollout had updated them.
    is_ahead = stored is not None and (not stored.is_current or bool(record))
    return {"revision": target} if is_ahead and not record.get("completionTime") else {}


def _taken_over(snapshot: SetSnapshot, revisions: Revisions) -> tuple[Announce, ...]:
    """Announce PVCs that upstream's StatefulSets would delete, once, with our first status."""
    if (snapshot.lws.get("status") or {}).get("currentRevision") or not revisions.current:
        return ()
    at_risk = claims_at_risk(snapshot.lws, (group.worker_statefulset for group in snapshot.groups))
    return (events.claims_at_risk(snapshot.lws, at_risk),) if at_risk else ()


def _position_to_record(lws: Object, revisions: Revisions, step: LeaderStep) -> Mapping[str, Any] | None:
    """Return the unrecorded position of a rollout that another controller began; None if there is none."""
    position = step.position
    if position is None or step.has_moved or position == recorded_position(lws):
        return None
    current = revisions.current or (lws.get("status") or {}).get("currentRevision")
    return position.stored if current != position.revision else None


def _unseen_pods(snapshot: SetSnapshot, ready: Collection[int]) -> float | None:
    """Return the seconds until a recheck if a ready group lacks pods, else None. The stream of pods is then
    behind the stream of StatefulSets, and worker pods do not enqueue the set.
    """
    is_behind = any([group.index in ready and not group.is_complete for group in snapshot.groups])
    return timing.RECHECK_SECONDS if is_behind else None
