"""What must be done for one set: record its revision, move its leaders one step, give it a Service, say how
it is.

In: a SetSnapshot. Out: a Plan. This file is the table of contents; each question is answered in a file of
its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from lws import timing
from lws.kube.conditions import Condition, is_true, moment_of
from lws.kube.metadata import is_controlled_by, is_terminating, uid_of
from lws.kube.ownership import Ownership
from lws.leaderworkerset import events
from lws.leaderworkerset.assessment.assessment import Assessment, assess, recorded_position
from lws.leaderworkerset.assessment.prewarm import plan_prewarm, prewarmed, recorded_prewarming
from lws.leaderworkerset.assessment.target_revision import (
    TargetRevision,
    former_revision,
    plan_pruning,
    plan_upkeep,
)
from lws.leaderworkerset.children.disruption_budget import plan_disruption_budget
from lws.leaderworkerset.children.leader_deployment import (
    plan_deployment,
    plan_ended,
    plan_node_loss,
    plan_succession,
)
from lws.leaderworkerset.children.leader_statefulset import LeaderStep, plan_leaders, plan_retries
from lws.leaderworkerset.children.services import plan_leader_service, plan_service
from lws.leaderworkerset.children.workload import plan_scheduling
from lws.leaderworkerset.left_alone import plan_left_alone, why_left_alone
from lws.leaderworkerset.memory import current_members, given_up
from lws.leaderworkerset.restart_counts import InvalidCounts, counts_in, pruned
from lws.leaderworkerset.rollout.state import RolloutState
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status.problems import (
    STALLED,
    barred_pods,
    lost_nodes,
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
    is_first,
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
    soonest,
    together,
)
from lws_api.leaderworkerset.v1 import GROUP_RESTART_COUNTS_ANNOTATION


def plan(snapshot: SetSnapshot) -> Plan:
    """One step towards what the set asks for, and its status."""
    if is_terminating(snapshot.lws):
        # Everything hangs from the set by owner references: the garbage collector takes it down.
        return Plan(waiting_for="the set to be gone")
    problem = why_left_alone(snapshot.lws, snapshot.is_covered, snapshot.scheduler, snapshot.fault)
    if problem is not None:
        return plan_left_alone(snapshot, problem)
    found = assess(snapshot)
    ownership, choice, groups, rollout = found.ownership, found.target, found.groups, found.rollout
    scheduling = plan_scheduling(snapshot)
    if scheduling.is_first:
        step = LeaderStep(Plan(waiting_for=scheduling.plan.waiting_for or "the Workload to be created"))
    else:
        plan_step = plan_leaders if rollout.deployment is None else plan_deployment
        step = plan_step(snapshot, found)
    is_done = ownership == Ownership.OURS and rollout.is_done
    services = (plan_service(snapshot, is_done), plan_leader_service(snapshot))
    children = (
        scheduling.plan,
        step.plan,
        *services,
        plan_disruption_budget(snapshot, groups),
        plan_retries(snapshot),
        plan_prewarm(snapshot, found.prewarming, choice),
        *(
            (
                plan_ended(snapshot, found),
                plan_node_loss(snapshot),
                plan_succession(snapshot, found),
            )
            if rollout.deployment is not None
            else ()
        ),
    )
    blocking = (problem for child in children for problem in child.problems)
    pruning, unreadable = _restart_counts(snapshot, rollout, choice.key if is_done else "")
    of_nodes = (*lost_nodes(snapshot), *barred_pods(snapshot))
    problems = problems_of(snapshot, [*blocking, *of_nodes, *unreadable])
    upkeep = [plan_upkeep(snapshot, choice), pruning]
    upkeep.append(plan_owners(snapshot.lws, (group.index for group in snapshot.groups), snapshot.claims))
    if ownership in (Ownership.OURS, Ownership.ABSENT):
        upkeep.append(plan_pruning(snapshot, choice, () if is_done else _remembered_names(snapshot.lws)))
    revisions = _revisions_to_tell(snapshot, choice, step, is_done)
    prewarm = {} if is_done else _prewarm_to_tell(snapshot, found)
    status = _status(snapshot, rollout, problems, revisions, step, scheduling.condition, prewarm)
    status = replace(status, announce=(*status.announce, *prewarmed(snapshot, found.prewarming)))
    waits = (status.due_in, recheck_lost_nodes(snapshot), recheck_barred_pods(snapshot))
    own = Plan(
        sequences=tuple(upkeep),
        statuses=_written(snapshot, status, rollout),
        announce=(
            *events.problems(snapshot.lws, problems),
            *events.broken_revisions(snapshot.lws, snapshot.revisions),
        ),
        again_after=soonest((*waits, snapshot.recheck_after, _unseen_pods(snapshot, rollout.ready))),
        standing=_standing(status),
        figures=_figures(snapshot, rollout.ready, status),
    )
    waiting_for = next((child.waiting_for for child in children if child.waiting_for), "")
    return replace(together(*children, own), waiting_for=waiting_for)


def _restart_counts(
    snapshot: SetSnapshot, rollout: RolloutState, only_key: str
) -> tuple[tuple[Merge, ...], tuple[Problem, ...]]:
    """Take out the counts of groups that are gone, and of all revisions but the only one, if there is one. Or
    why they cannot be read. Those of Hash groups are handed on: see `plan_succession`.
    """
    try:
        is_hash, counts = rollout.deployment is not None, counts_in(snapshot.lws)
        merge = pruned(snapshot.lws, _wanted_groups(rollout), only_key) if counts and not is_hash else None
    except InvalidCounts as error:
        said = f"{error}: mend or remove the annotation {GROUP_RESTART_COUNTS_ANNOTATION} of the set"
        problem = Problem(
            "InvalidRestartCounts", f"{said}: no failed group is recreated before", action="Read"
        )
        return (), (problem,) if snapshot.spec.counts_restarts else ()
    return (merge,) if merge is not None else (), ()


def _exhausted(snapshot: SetSnapshot) -> tuple[int, ...]:
    return tuple([group.index for group in snapshot.groups if group.is_exhausted])


def _standing(status: SetStatus) -> frozenset[str]:
    conditions = status.intended.get("conditions")
    held = {UPDATE_IN_PROGRESS: is_true(conditions, UPDATE_IN_PROGRESS), STALLED: lacks_progress(conditions)}
    return frozenset(each for each, holds in held.items() if holds)


def _figures(snapshot: SetSnapshot, ready: Collection[int], status: SetStatus) -> Figures:
    failed = len(given_up(snapshot)) + len(_exhausted(snapshot))
    made = figures_of(snapshot.lws, status.intended, snapshot.spec.replicas, failed)
    return replace(made, groups=starts_of(snapshot.groups, ready))


def _wanted_groups(rollout: RolloutState) -> int:
    """Groups that are to be there: beside a surge, groups that are being replaced are not too many."""
    return max(rollout.replicas, rollout.statefulset.replicas if rollout.statefulset is not None else 0)


def _written(snapshot: SetSnapshot, status: SetStatus, rollout: RolloutState) -> tuple[Status, ...]:
    if (patch := status.patch) is None:
        return ()
    lws = snapshot.lws
    stored = lws.get("status") or {}
    created = moment_of(lws["metadata"].get("creationTimestamp")) or snapshot.now
    # That of an older set was emptied.
    is_new = snapshot.now - created <= timedelta(seconds=timing.LONGEST_STATUS_SECONDS)
    is_counted = has_shrunk(stored, patch, _wanted_groups(rollout)) or has_surged(
        stored, patch, rollout.replicas
    )
    if is_counted:
        return (Status(Reference.to(lws), patch, status.announce, before=stored),)
    urgency = can_wait(stored, patch), is_new and is_first(stored, patch)
    return (Status(Reference.to(lws), patch, status.announce, *urgency, before=stored),)


def _revisions_to_tell(
    snapshot: SetSnapshot, choice: TargetRevision, step: LeaderStep, is_done: bool
) -> Revisions:
    # Otherwise nothing of that name exists.
    (written, *_) = step.plan.sequences or ((),)
    if written[: len(choice.actions)] != choice.actions:
        return Revisions()
    current = choice.name if is_done else former_revision(snapshot, choice)
    return Revisions(current, choice.name, choice.collisions)


def _remembered_names(lws: Object) -> tuple[str, ...]:
    """Revisions that a leader StatefulSet which is lost in this rollout would be made anew with."""
    position, current = recorded_position(lws), (lws.get("status") or {}).get("currentRevision")
    return (*((position.revision,) if position is not None else ()), str(current or ""))


def _status(
    snapshot: SetSnapshot,
    rollout: RolloutState,
    problems: Sequence[Problem],
    revisions: Revisions,
    step: LeaderStep,
    scheduling: Condition | None,
    prewarm: Mapping[str, Any],
) -> SetStatus:
    lws = snapshot.lws
    leader_status = (snapshot.leader or {}).get("status") or {}
    is_ours = snapshot.leader is not None and is_controlled_by(snapshot.leader, uid_of(lws))
    ready = rollout.ready
    status = set_status(
        snapshot.spec,
        StatusInput(
            replicas=rollout.replicas,
            now=snapshot.now,
            floor=rollout.floor,
            groups=rollout.groups,
            existing=int(leader_status.get("replicas") or 0) if is_ours else 0,
            deployment=rollout.deployment,
            revisions=revisions,
            problems=tuple(problems),
            members=current_members(snapshot, ready),
            rollout=_position_to_tell(lws, revisions, step),
            has_moved=step.has_moved,
            given_up=given_up(snapshot),
            exhausted=_exhausted(snapshot),
            scheduling=scheduling,
            prewarm=prewarm,
            is_prewarming=bool(rollout.prewarming),
            waits=tuple(
                wait
                for group in snapshot.groups
                if group.waits and group.index not in ready
                for wait in group.waits
            ),
        ),
    )
    return replace(status, announce=(*status.announce, *_taken_over(snapshot, revisions)))


def _prewarm_to_tell(snapshot: SetSnapshot, found: Assessment) -> Mapping[str, Any]:
    if found.prewarming is not None:
        return found.prewarming.record(snapshot.now)
    if snapshot.spec.prewarm is None:
        return {}
    record, stored = recorded_prewarming(snapshot.lws, found.target.name), found.rollout.statefulset
    if not snapshot.spec.paused:
        return record if record.get("completionTime") else {}
    # Groups that are added during a pause are on the new revision, as if the rollout had moved them.
    is_ahead = stored is not None and (not stored.is_current or bool(record))
    return {"revision": found.target.name} if is_ahead and not record.get("completionTime") else {}


def _taken_over(snapshot: SetSnapshot, revisions: Revisions) -> tuple[Announce, ...]:
    """Said once, with the status that is the first of ours."""
    is_first = not (snapshot.lws.get("status") or {}).get("currentRevision") and revisions.current
    found = claims_at_risk(snapshot.lws, (group.workers for group in snapshot.groups)) if is_first else ()
    return (events.claims_at_risk(snapshot.lws, found),) if found else ()


def _position_to_tell(lws: Object, revisions: Revisions, step: LeaderStep) -> Mapping[str, Any] | None:
    """The position of a rollout under way that nothing remembers: another controller began it."""
    position = step.position
    if position is None or step.has_moved or position == recorded_position(lws):
        return None
    current = revisions.current or (lws.get("status") or {}).get("currentRevision")
    return position.stored if current != position.revision else None


def _unseen_pods(snapshot: SetSnapshot, ready: Collection[int]) -> float | None:
    """Pods of workers do not wake the pass over the set, and their stream may be behind that of
    StatefulSets.
    """
    is_behind = any([group.index in ready and not group.is_complete for group in snapshot.groups])
    return timing.RECHECK_SECONDS if is_behind else None
