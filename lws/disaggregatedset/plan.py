"""Plan one pass over a DisaggregatedSet: its revision, a step of each slice, Services, scalers, status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from lws import timing
from lws.disaggregatedset import events
from lws.disaggregatedset.children.scalers import plan_scalers
from lws.disaggregatedset.children.services import plan_services
from lws.disaggregatedset.children.upkeep import live_role, plan_role_upkeep, waiting_edits
from lws.disaggregatedset.names import identity_of
from lws.disaggregatedset.slices.course import Course, courses, plan_removed_slices, waiting_slices
from lws.disaggregatedset.slices.state import RoleTargets, newest_first
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.spec import parse
from lws.disaggregatedset.status import (
    IN_ROLLOUT,
    ObservedRoles,
    can_wait,
    disaggregated_status,
    figures_of,
    problems_of,
    recheck_after,
    without_nodes,
)
from lws.disaggregatedset.target import TargetRevision, edited_children, plan_pruning, target_revision
from lws.history.plan import former_name, plan_revision_repairs
from lws.kube.metadata import is_terminating
from lws.leaderworkerset.events import broken_revisions
from lws.leaderworkerset.events import problems as problem_events
from lws.leaderworkerset.left_alone import reported, unreadable
from lws.leaderworkerset.status.problems import STALLED
from lws.runtime.actions import Object, Plan, Reference, Status, merge_plans, soonest
from lws.runtime.children import adopt


def plan(snapshot: DisaggregatedSnapshot) -> Plan:
    """Plan one step of a DisaggregatedSet towards its spec, and the update of its status."""
    if is_terminating(snapshot.obj):
        # The garbage collector deletes everything by owner references.
        return Plan(waiting_for="the set to be gone")
    if snapshot.fault:
        return reported(snapshot.obj, unreadable(snapshot.fault), snapshot.now)
    target = target_revision(snapshot)
    targets = RoleTargets(snapshot, parse(snapshot.obj), target.key, target.records)
    if target.actions and not _may_follow(targets, target):
        return _plan_record(targets, target)
    if snapshot.orphans:
        return _plan_adoption(targets, target)
    return _plan_whole(targets, target)


def _may_follow(targets: RoleTargets, target: TargetRevision) -> bool:
    """Return whether the first step of the rollout may follow in the pass that records its revision.

    Record and step then share one sequence of writes, which stops at its first failure. A failure in one
    slice must not delay another, so the set must have a single slice.
    """
    snapshot = targets.snapshot
    slices = {*range(targets.spec.slices), *(child.slice_index for child in snapshot.children)}
    records_target_only = target.is_new and len(target.actions) == 1 and target.content.generation is None
    return records_target_only and not snapshot.orphans and len(slices) == 1


def _plan_record(targets: RoleTargets, target: TargetRevision) -> Plan:
    """Plan only the writes that record revisions. The next pass reads the complete history."""
    snapshot = targets.snapshot
    broken = broken_revisions(snapshot.obj, snapshot.revisions)
    recording = Plan((target.actions,), announce=broken, again_after=0.0)
    status_plan = _status(targets, target, courses(targets), recording)
    if not snapshot.rejections:
        # The next pass follows at once and reports the result.
        statuses = tuple(replace(status, only_after_failure=True) for status in status_plan.statuses)
        status_plan = replace(status_plan, statuses=statuses)
    return merge_plans(recording, status_plan)


def _plan_adoption(targets: RoleTargets, target: TargetRevision) -> Plan:
    """Adopt orphans first, as their groups count in every step. Write the status only after a rejection."""
    snapshot = targets.snapshot
    adoption = merge_plans(*(adopt(snapshot.owner, orphan) for orphan in snapshot.orphans))
    if not snapshot.rejections:
        return adoption
    return merge_plans(adoption, _status(targets, target, courses(targets), adoption))


def _plan_whole(targets: RoleTargets, target: TargetRevision) -> Plan:
    """Plan every part of the pass: scalers, slices, Services, upkeep of children, history and status."""
    snapshot, spec = targets.snapshot, targets.spec
    steps = courses(targets)
    roles = {key: tuple(revision.record.roles) for key, revision in target.records.items()}
    planned = merge_plans(
        plan_scalers(snapshot, spec.slices, targets.seeds),
        *(step.plan for step in steps),
        plan_removed_slices(snapshot, spec),
        plan_services(snapshot, spec, target.key, roles),
        *_upkeep(targets, target),
        _history(targets, target, steps),
        Plan(announce=broken_revisions(snapshot.obj, snapshot.revisions)),
    )
    if target.actions:
        # The record comes first in the same sequence, so that no child has a key that is not recorded.
        planned = replace(planned, sequences=((*target.actions, *chain(*planned.sequences)),))
    return merge_plans(planned, _status(targets, target, steps, planned))


def _history(targets: RoleTargets, target: TargetRevision, steps: Sequence[Course]) -> Plan:
    """Plan to repair, adopt and prune revisions, each write in a sequence of its own."""
    if target.actions:
        return Plan()
    name = targets.snapshot.obj["metadata"]["name"]
    began_with = chain.from_iterable(step.memory.initial for step in steps if step.memory is not None)
    identities = (identity_of(name, child_name) for child_name in began_with)
    recorded = {identity.key for identity in identities if identity is not None}
    pruning = plan_pruning(target, targets.spec.history_limit, recorded)
    return Plan(tuple((action,) for action in (*plan_revision_repairs(target), *pruning)))


def _upkeep(targets: RoleTargets, target: TargetRevision) -> Iterator[Plan]:
    snapshot, spec = targets.snapshot, targets.spec
    # A taken-over set stays unchanged until its first edit.
    is_edited = target.content.generation != snapshot.obj["metadata"].get("generation", 0)
    live = {role.name: live_role(role) for role in spec.roles} if is_edited else {}
    for child in snapshot.children:
        if child.is_terminating or child.slice_index >= spec.slices:
            continue
        recorded = targets.recorded(child.key)
        former = recorded.role(child.role) if recorded is not None else None
        yield plan_role_upkeep(snapshot.owner.name, child.obj, live.get(child.role), former)


def _status(targets: RoleTargets, target: TargetRevision, steps: Sequence[Course], planned: Plan) -> Plan:
    snapshot, spec = targets.snapshot, targets.spec
    obj, desired = snapshot.obj, targets.in_all()
    problems = problems_of(snapshot, planned.problems)
    rolling = frozenset(step.index for step in steps if step.is_rolling)
    status = disaggregated_status(
        ObservedRoles(
            snapshot,
            spec,
            target,
            desired,
            current=_current(snapshot, target, bool(rolling)),
            rolling=rolling,
            rollouts={str(step.index): step.memory.stored for step in steps if step.memory is not None},
            pending=_pending(targets, target, steps),
            problems=problems,
            waiting_for=planned.waiting_for,
            edited=edited_children(snapshot.children, target.records),
        )
    )
    stored = obj.get("status") or {}
    completed = (events.rollout_completed(obj, target.key),) if _has_ended(stored, target, rolling) else ()
    announce = (*status.announce, *completed)
    # A rejected write that is no longer planned cannot succeed, so recheck until its rejection expires.
    refusals_end = timing.RECHECK_SECONDS if snapshot.rejections else None
    standing = ((IN_ROLLOUT, bool(rolling)), (STALLED, status.is_stalled))
    statuses: tuple[Status, ...] = ()
    if status.patch:
        may_wait = can_wait(stored, status.patch, spec.slices)
        statuses = (Status(Reference.to(obj), status.patch, announce, may_wait, before=stored),)
    return Plan(
        statuses=statuses,
        announce=problem_events(obj, problems),
        again_after=soonest((status.due_in, recheck_after(snapshot.children), refusals_end)),
        standing=frozenset(word for word, holds in standing if holds),
        figures=figures_of(obj["metadata"]["name"], target.name, desired, status, bool(rolling)),
    )


def _pending(targets: RoleTargets, target: TargetRevision, steps: Sequence[Course]) -> tuple[str, ...]:
    """Describe what the set waits for without having a problem."""
    snapshot, recorded = targets.snapshot, targets.recorded(target.key)
    edits = waiting_edits(targets.spec, recorded) if recorded else ()
    nodes = without_nodes(snapshot.children, snapshot.now)
    return (*edits, *waiting_slices(steps), *targets.without_groups, *nodes)


def _has_ended(stored: Object, target: TargetRevision, rolling: frozenset[int]) -> bool:
    """Return whether the rollout that the status records has completed. A rollout that was reverted before
    its revision was recorded has never begun.
    """
    was, goal = stored.get("currentRevision", ""), stored.get("updateRevision", "")
    return not rolling and was != goal == target.name


def _current(snapshot: DisaggregatedSnapshot, target: TargetRevision, is_rolling: bool) -> str:
    """Return the name of the previous revision, or of the target revision if no slice is in a rollout."""
    if not is_rolling:
        return target.name
    stored = str((snapshot.obj.get("status") or {}).get("currentRevision") or "")
    if stored and stored != target.name:
        return stored
    return former_name(target, newest_first(snapshot.children, snapshot.revisions))
