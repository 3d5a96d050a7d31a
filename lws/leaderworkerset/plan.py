"""Plan one pass over a set: revisions, leaders, Services and other children, and the status.

This file is the table of contents: each child and each part of the status is planned in a file of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

from lws import timing
from lws.history.plan import plan_revision_repairs
from lws.kube.conditions import elapsed, is_true, moment_of
from lws.kube.metadata import is_terminating
from lws.kube.ownership import Ownership
from lws.leaderworkerset import events
from lws.leaderworkerset.assessment.assessment import Assessment, assess, recorded_position
from lws.leaderworkerset.assessment.prewarm import plan_prewarm, prewarmed, recorded_prewarming
from lws.leaderworkerset.assessment.target_revision import counted_revisions, former_revision, plan_pruning
from lws.leaderworkerset.children.disruption_budget import plan_disruption_budget
from lws.leaderworkerset.children.leader_deployment import (
    plan_deployment,
    plan_ended,
    plan_node_loss,
    plan_succession,
    started_groups,
)
from lws.leaderworkerset.children.leader_statefulset import LeaderStep, plan_retries, plan_statefulset
from lws.leaderworkerset.children.services import plan_leader_service, plan_service
from lws.leaderworkerset.children.workload import SchedulingStep, plan_scheduling
from lws.leaderworkerset.left_alone import plan_left_alone
from lws.leaderworkerset.restart_counts import InvalidCounts, InvalidKey, counts_in, pruned
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
)
from lws.leaderworkerset.status.status import (
    UPDATE_IN_PROGRESS,
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
    if snapshot.left_alone is not None:
        return plan_left_alone(snapshot, snapshot.left_alone)
    assessment = assess(snapshot)
    scheduling = plan_scheduling(snapshot)
    leaders = _plan_leaders(snapshot, assessment, scheduling)
    children = (scheduling.plan, leaders.plan, *_children(snapshot, assessment))
    upkeep = merge_plans(*_upkeep(snapshot, assessment))
    problems = problems_of(snapshot, _encountered(snapshot, children, upkeep))
    status = _plan_status(snapshot, assessment, scheduling, leaders, problems)
    waiting_for = next((child.waiting_for for child in children if child.waiting_for), "")
    return replace(merge_plans(*children, upkeep, status), waiting_for=waiting_for)


def _plan_leaders(snapshot: SetSnapshot, assessment: Assessment, scheduling: SchedulingStep) -> LeaderStep:
    """Plan the next step of the leader StatefulSet or Deployment, or what it has to wait for."""
    if scheduling.is_first:
        return LeaderStep(Plan(waiting_for=scheduling.plan.waiting_for or "the Workload to be created"))
    former = f"the former leader {leaders_kind(snapshot.lws)}"
    blocked = plan_obstacle(snapshot.owner, Child(assessment.ownership, snapshot.leaders, former))
    if blocked is not None:
        return LeaderStep(blocked)
    if assessment.rollout.deployment is None:
        return plan_statefulset(snapshot, assessment)
    return LeaderStep(plan_deployment(snapshot, assessment))


def _children(snapshot: SetSnapshot, assessment: Assessment) -> Iterator[Plan]:
    """Plan the other children, and what to do about pods that their controllers do not handle."""
    yield plan_service(snapshot, assessment.is_done)
    yield plan_leader_service(snapshot)
    yield plan_disruption_budget(snapshot, assessment.groups)
    yield plan_retries(snapshot)
    yield plan_returns(snapshot)
    yield plan_prewarm(snapshot, assessment.prewarming, assessment.target)
    if assessment.rollout.deployment is not None:
        yield plan_ended(snapshot, assessment)
        yield plan_node_loss(snapshot)
        yield plan_succession(snapshot, assessment)


def _upkeep(snapshot: SetSnapshot, assessment: Assessment) -> Iterator[Plan]:
    """Plan the repair and removal of records: revisions, restart counts, and owners of PVCs."""
    lws, target = snapshot.lws, assessment.target
    yield Plan((plan_revision_repairs(target),))
    yield _plan_restart_counts(snapshot, assessment)
    yield Plan((plan_owners(lws, (group.index for group in snapshot.groups), snapshot.claims),))
    if assessment.ownership in (Ownership.OURS, Ownership.ABSENT):
        yield Plan((plan_pruning(snapshot, target, () if assessment.is_done else _recorded_names(lws)),))


def _encountered(snapshot: SetSnapshot, children: Iterable[Plan], upkeep: Plan) -> Iterator[Problem]:
    """Yield the problems that this pass has encountered, worst first."""
    for child in children:
        yield from child.problems
    yield from lost_nodes(snapshot)
    yield from barred_pods(snapshot)
    yield from upkeep.problems


def _plan_status(
    snapshot: SetSnapshot,
    assessment: Assessment,
    scheduling: SchedulingStep,
    leaders: LeaderStep,
    problems: tuple[Problem, ...],
) -> Plan:
    """Plan the status, Events and metrics of the set, and when to check again if nothing changes."""
    rollout, revisions = assessment.rollout, _revisions_to_report(snapshot, assessment, leaders)
    observed = StatusInput(
        snapshot,
        rollout,
        revisions,
        problems,
        position=_position_to_record(snapshot.lws, revisions, leaders),
        has_moved=leaders.has_moved,
        scheduling=scheduling.condition,
        prewarm=_prewarm_record(snapshot, assessment),
        started=started_groups(snapshot, assessment.target),
    )
    status = set_status(observed)
    announce = (*_taken_over(snapshot, revisions), *prewarmed(snapshot, assessment.prewarming))
    status = replace(status, announce=(*status.announce, *announce))
    waits = (status.due_in, snapshot.node_losses.recheck_after(), recheck_barred_pods(snapshot))
    return Plan(
        statuses=_status_writes(snapshot, status, rollout),
        announce=(
            *events.problems(snapshot.lws, problems),
            *events.broken_revisions(snapshot.lws, snapshot.revisions),
        ),
        again_after=soonest((*waits, snapshot.recheck_after, _unseen_pods(snapshot, rollout.ready))),
        standing=_standing(status),
        figures=_figures(observed, status),
    )


def _plan_restart_counts(snapshot: SetSnapshot, assessment: Assessment) -> Plan:
    """Remove restart counts that are no longer needed, or report that the counts are invalid. Counts of
    deleted groups and of revisions that no group has or may get are removed. Counts of Hash groups are
    handed to their successors instead: see `plan_succession`.
    """
    lws, rollout = snapshot.lws, assessment.rollout
    live = counted_revisions(snapshot, assessment.target, assessment.is_done)
    try:
        if not counts_in(lws) or rollout.deployment is not None:
            return Plan()
        merge = pruned(lws, _desired_groups(rollout), live)
    except InvalidCounts as error:
        if isinstance(error, InvalidKey):
            effect = "counts of deleted groups and former revisions are not removed"
        else:
            effect = (
                "groups that fail are neither recreated nor recovered, except after evictions, "
                "preemptions and drains"
            )
        message = (
            f"{error}: fix or remove the annotation {GROUP_RESTART_COUNTS_ANNOTATION} of the set; until "
            f"then, {effect}"
        )
        problem = Problem("InvalidRestartCounts", message, action="Read")
        return Plan(problems=(problem,) if snapshot.spec.counts_restarts else ())
    return Plan(((merge,),) if merge is not None else ())


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
    is_new = elapsed(created, snapshot.now) <= timedelta(seconds=timing.LONGEST_STATUS_SECONDS)
    has_lost_groups = has_shrunk(stored, patch, _desired_groups(rollout))
    can_delay = not (has_lost_groups or has_surged(stored, patch, rollout.replicas))
    delays = can_delay and can_wait(stored, patch), can_delay and is_new and is_first_status(stored, patch)
    return (Status(Reference.to(lws), patch, status.announce, *delays, before=stored),)


def _revisions_to_report(
    snapshot: SetSnapshot, assessment: Assessment, leaders: LeaderStep
) -> Mapping[str, Any]:
    """Return the revisions for the status; none if this pass does not record the target revision first."""
    target, (first, *_) = assessment.target, leaders.plan.sequences or ((),)
    if first[: len(target.actions)] != target.actions:
        return {}
    current = target.name if assessment.is_done else former_revision(snapshot, target)
    return {"currentRevision": current, "updateRevision": target.name, "collisionCount": target.collisions}


def _recorded_names(lws: Object) -> tuple[str, ...]:
    """Return the revisions from which a leader StatefulSet lost in this rollout would be recreated."""
    position, current = recorded_position(lws), (lws.get("status") or {}).get("currentRevision")
    return (*((position.revision,) if position is not None else ()), str(current or ""))


def _prewarm_record(snapshot: SetSnapshot, assessment: Assessment) -> Mapping[str, Any]:
    """Return the value of `status.prewarm`; empty if nothing has to be recorded."""
    if assessment.is_done:
        return {}
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


def _taken_over(snapshot: SetSnapshot, revisions: Mapping[str, Any]) -> tuple[Announce, ...]:
    """Announce PVCs that upstream's StatefulSets would delete, once, with our first status."""
    if (snapshot.lws.get("status") or {}).get("currentRevision") or not revisions.get("currentRevision"):
        return ()
    at_risk = claims_at_risk(snapshot.lws, (group.worker_statefulset for group in snapshot.groups))
    return (events.claims_at_risk(snapshot.lws, at_risk),) if at_risk else ()


def _position_to_record(
    lws: Object, revisions: Mapping[str, Any], leaders: LeaderStep
) -> Mapping[str, Any] | None:
    """Return the unrecorded position of a rollout that another controller began; None if there is none."""
    position = leaders.position
    if position is None or leaders.has_moved or position == recorded_position(lws):
        return None
    current = revisions.get("currentRevision") or (lws.get("status") or {}).get("currentRevision")
    return asdict(position) if current != position.revision else None


def _unseen_pods(snapshot: SetSnapshot, ready: Collection[int]) -> float | None:
    """Return the seconds until a recheck if a ready group lacks pods, else None. The stream of pods is then
    behind the stream of StatefulSets, and worker pods do not enqueue the set.
    """
    is_behind = any([group.index in ready and not group.is_complete for group in snapshot.groups])
    return timing.RECHECK_SECONDS if is_behind else None
