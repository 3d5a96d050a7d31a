"""Plan the Workload of a set with `spec.scheduling`, and the PodGroup of all its pods.

Passes over groups create the PodGroups of groups, leaders and workers. These are deleted here when their
leader is gone, and Kubernetes keeps them until their pods are deleted, too. PodGroups of Volcano are deleted
here when their last pod is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lws import timing
from lws.kube.conditions import Condition
from lws.kube.metadata import is_controlled_by, is_terminating, name_of, namespace_of, uid_of
from lws.leaderworkerset.assessment.ownership import ownership_of_pod_group
from lws.leaderworkerset.fields import SCHEDULING
from lws.leaderworkerset.scheduling import (
    UNAVAILABLE,
    Level,
    Part,
    Scheduled,
    build_pod_group,
    build_workload,
    count_patch,
    dropped_fields,
    has_drifted,
    level_of,
    parts_of,
    pod_group_of_set,
    pod_groups_of_group,
    workload_name,
)
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Announce, Create, Delete, Object, Plan, Problem, Reference, merge_plans
from lws.runtime.children import Child, plan_child

CREATED = "WorkloadSchedulingCreated"
"""Type of the condition of sets with `spec.scheduling`."""

_CREATED = Condition(CREATED, True, "SchedulingPrerequisitesCreated", "scheduling prerequisites created")


@dataclass(frozen=True, slots=True)
class SchedulingStep:
    """A part of the plan. condition: the condition of the set; None to keep the stored one. is_first: whether
    the step must be done before any pod is created.
    """

    plan: Plan
    condition: Condition | None = None
    is_first: bool = False


def plan_scheduling(snapshot: SetSnapshot) -> SchedulingStep:
    """Create and update the objects that the scheduler reads before the pods, and delete unneeded ones."""
    scheduled = snapshot.scheduled
    # The problems of the set contain these rejections already.
    rejected = (entry for entry in snapshot.rejections if entry.kind in ("Workload", "PodGroup"))
    rejections = tuple(_failed(entry.kind, entry.message) for entry in rejected)
    if scheduled is None:
        # Without Workloads, passes over groups create all that the scheduler reads.
        has_field = SCHEDULING.stored_in(snapshot.lws) is not None
        return SchedulingStep(_plan_former_gangs(snapshot), _condition(rejections) if has_field else None)
    prerequisites = merge_plans(*_prerequisites(snapshot, scheduled))
    problems = prerequisites.problems or rejections
    is_done = not prerequisites.waiting_for and not problems and not any(prerequisites.sequences)
    condition = _condition(problems) if is_done or problems else None
    unneeded = Plan(sequences=tuple((delete,) for delete in _unneeded(snapshot, scheduled)))
    return SchedulingStep(
        merge_plans(prerequisites, unneeded),
        condition,
        # The step does not block existing groups: the scheduler holds pods that lack their PodGroup.
        is_first=not is_done and not snapshot.groups,
    )


def _condition(problems: Sequence[Problem]) -> Condition:
    return Condition(CREATED, False, problems[0].reason, problems[0].message) if problems else _CREATED


def _plan_former_gangs(snapshot: SetSnapshot) -> Plan:
    unneeded = tuple(gang.pod_group for gang in snapshot.former_gangs if not gang.has_pods)
    return Plan(
        tuple((_delete_unneeded(pod_group),) for pod_group in unneeded),
        # When the last worker of a former leader is deleted, no event triggers a pass over the set.
        again_after=timing.RECHECK_SECONDS if len(unneeded) < len(snapshot.former_gangs) else None,
    )


def _delete_unneeded(pod_group: Object) -> Delete:
    return Delete(Reference.to(pod_group), "Background", why="its pods are gone")


def _prerequisites(snapshot: SetSnapshot, scheduled: Scheduled) -> Iterator[Plan]:
    if not scheduled.is_served and not scheduled.is_missing:
        yield Plan(waiting_for="the Workloads of the API server to be read")
        return
    if not scheduled.is_served:
        yield _blocked(Problem("APINotAvailable", UNAVAILABLE, action=_ACTION))
        return
    yield _plan_workload(snapshot, scheduled)
    workload = scheduled.workload
    if workload is not None and level_of(snapshot.lws) is Level.SET:
        yield _plan_pod_group(snapshot, scheduled, workload)


_ACTION = "Reconcile"


def _failed(kind: str, why: str) -> Problem:
    if kind == "Workload":
        return Problem("WorkloadCreateFailed", why, action=_ACTION)
    return Problem("PodGroupCreateFailed", why, action=_ACTION)


def _blocked(problem: Problem) -> Plan:
    return Plan(again_after=timing.RECHECK_SECONDS, waiting_for=problem.message, problems=(problem,))


def _plan_workload(snapshot: SetSnapshot, scheduled: Scheduled) -> Plan:
    stored, name = scheduled.workload, workload_name(snapshot.lws, snapshot.leaders)
    create = Create(
        build_workload(snapshot.spec, snapshot.leaders),
        why="the scheduler reads it before it sees a pod",
        failure=_failure(snapshot, "Workload", name),
    )
    return _plan_set_child(snapshot, stored, "the former Workload", create)


def _plan_pod_group(snapshot: SetSnapshot, scheduled: Scheduled, workload: Object) -> Plan:
    name = pod_group_of_set(workload_name(snapshot.lws, snapshot.leaders))
    stored = scheduled.named(name)
    if stored is not None and is_terminating(stored) and not snapshot.groups:
        why = f"PodGroup {namespace_of(stored)}/{name} is still terminating"
        return _blocked(Problem("PodGroupCleanupBlocked", why, action=_ACTION))
    if snapshot.spec.replicas == 0 or (stored is not None and is_terminating(stored)):
        # A PodGroup is deleted with its last pod, and created again for the next pod.
        return Plan()
    (part,) = parts_of(snapshot.spec)
    create = Create(
        build_pod_group(snapshot.spec, part, name, workload, members=_members(snapshot, part)),
        why="the scheduler places its pods as one",
        failure=_failure(snapshot, "PodGroup", name),
    )
    return _plan_set_child(snapshot, stored, "the former PodGroup", create)


def _failure(snapshot: SetSnapshot, kind: str, name: str) -> Announce:
    problem = _failed(kind, f"Failed to create {kind} {name}")
    about = Reference.to(snapshot.lws)
    return Announce(about, problem.reason, problem.action, problem.message, "Warning")


def _members(snapshot: SetSnapshot, part: Part) -> int:
    """Return the number of pods of the set, at least 1; groups not yet replaced have the size of their
    revision.
    """
    spec = snapshot.spec
    by_index = {group.index: group.size for group in snapshot.groups if not group.is_leader_terminating}
    sizes = [size for index, size in sorted(by_index.items())[: spec.replicas] if size]
    return max(sum(sizes) + (spec.replicas - len(sizes)) * spec.size, 1) if sizes else part.members


def _plan_set_child(snapshot: SetSnapshot, stored: Object | None, former: str, create: Create) -> Plan:
    lws = snapshot.lws
    ownership = ownership_of_pod_group(stored, uid_of(lws), name_of(lws), snapshot.owners_alive)
    planned = plan_child(snapshot.owner, Child(ownership, stored, former), create, _repairs)
    problems = tuple(
        _failed(create.intent["kind"], problem.message) if problem.reason == "NameClash" else problem
        for problem in planned.problems
    )
    return replace(planned, problems=problems)


def _repairs(stored: Object, intent: Object) -> Mapping[str, Object] | Plan:
    if fault := drift_of(stored, intent):
        return _blocked(fault)
    return {"the number of its pods has changed": count_patch(stored, intent)}


def drift_of(stored: Object, intent: Object) -> Problem | None:
    """Return the reason why a Workload or PodGroup must be recreated; None if it need not be."""
    subject = f"{stored['kind']} {namespace_of(stored)}/{name_of(stored)}"
    if has_drifted(stored, intent):
        why = f"{subject} has immutable scheduling configuration drift: delete it, and it is recreated"
        return Problem("InvalidSchedulingConfiguration", why, action=_ACTION)
    if dropped := dropped_fields(stored, intent):
        why = (
            f"{subject} was stored without {', '.join(dropped)}: enable the feature gate of Kubernetes for "
            f"it, then delete the {stored['kind']}, and it is recreated"
        )
        return Problem("UnsupportedProviderCapability", why, action=_ACTION)
    return None


def _unneeded(snapshot: SetSnapshot, scheduled: Scheduled) -> Iterator[Delete]:
    lws = snapshot.lws
    needed = {name for group in snapshot.groups for name in pod_groups_of_group(lws, group.leader).values()}
    if level_of(lws) is Level.SET and (snapshot.groups or snapshot.spec.replicas):
        needed.add(pod_group_of_set(workload_name(lws, snapshot.leaders)))
    for pod_group in scheduled.pod_groups:
        is_ours = is_controlled_by(pod_group, uid_of(lws)) and not is_terminating(pod_group)
        if is_ours and name_of(pod_group) not in needed:
            yield _delete_unneeded(pod_group)
