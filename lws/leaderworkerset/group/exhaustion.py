"""End groups that have used up their restarts, keep their pods and release them later; terminate workers
together with their leader.

The rules are upstream's (KEP-820). The containers end and free their nodes, but a finalizer keeps the pods,
so that no new group is created until a user requests one or the group is no longer desired.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lws import timing
from lws.kube.metadata import is_terminating, labels_of
from lws.kube.statefulsets import desired_replicas, partition_of
from lws.leaderworkerset.group.snapshot import GroupSnapshot, group_event
from lws.leaderworkerset.pod_identity import index_by_name, is_of_hash_group, notes_parallel
from lws.leaderworkerset.restart_counts import InvalidCounts, is_exhausted, is_kept, reset, should_recover
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.rollout.replacement import admit, workers_to_delete
from lws.leaderworkerset.spec import ends_in_parallel, other_manager
from lws.runtime.actions import Action, Delete, Merge, Object, Plan, Reference, SetFinalizer, merge_plans
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    POD_TERMINATION_POLICY_ANNOTATION,
    RECOVER_ANNOTATION,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
    PodTerminationPolicy,
)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A group whose set, StatefulSet, ReplicaSet or leader does not exist any more.
    pods: the pods that the finalizer keeps, the leader last. leader: the leader pod; None if it does not
    exist. worker_statefulset: the worker StatefulSet of a terminating leader, or the one that a leader has
    left without an owner. is_to_be_admitted: whether the leader is gated, the set has left its StatefulSet or
    Deployment without an owner, and nothing is left of the group that the leader replaces.
    """

    pods: tuple[Object, ...] = ()
    leader: Object | None = None
    worker_statefulset: Object | None = None
    is_to_be_admitted: bool = False
    lws: None = None


def plan_exhaustion(group: GroupSnapshot) -> Plan:
    """End a group that has used up its restarts. The leader is annotated before it is deleted, so that an
    interrupted end is continued.
    """
    leader, index = group.leader, labels_of(group.leader).get(GROUP_INDEX_LABEL, "")
    note = f"Restart budget exhausted; terminated group {index} and stopped automatic recovery"
    delete = Delete(
        target=Reference.to(leader),
        propagation="Foreground",
        why=f"group {index} has used up its restarts",
        announce=(group_event(group, "ReplicaRestartBudgetExceeded", "Delete", note, "Warning"),),
    )
    finalizers = (
        SetFinalizer(Reference.to(worker), RESTART_BUDGET_FINALIZER, why="it shows how its group failed")
        for worker in group.own_worker_pods
        if not is_terminating(worker) and not is_kept(worker)
    )
    return Plan(sequences=((*_marks(leader), *finalizers, delete),))


def _marks(leader: Object) -> tuple[Action, ...]:
    if is_exhausted(leader):
        return ()
    # Remove an earlier recovery annotation: only a request made from now on counts.
    annotations: dict[str, Any] = {RESTART_BUDGET_EXHAUSTED_ANNOTATION: "true", RECOVER_ANNOTATION: None}
    why = f"the group has used up its restarts: only the annotation {RECOVER_ANNOTATION} recreates it"
    patch = {"metadata": {"annotations": annotations}}
    return (SetFinalizer(Reference.to(leader), RESTART_BUDGET_FINALIZER, why, patch=patch),)


def plan_kept(group: GroupSnapshot) -> Plan | None:
    """Keep or release the pods that hold the finalizer; None if none does or the group must end first."""
    leader, kept_pods = group.leader, _kept(group)
    if not kept_pods:
        return None
    if not is_exhausted(leader):
        return _plan_release(
            kept_pods, "their leader has no annotation that the group has used up its restarts"
        )
    if is_terminating(group.lws):
        return _plan_release(kept_pods, "the set is being deleted")
    if group.is_namespace_ending:
        return _plan_release(kept_pods, _NAMESPACE_ENDS)
    if not is_terminating(leader):
        return None
    if why := _why_unwanted(group):
        return _plan_release(kept_pods, why)
    if should_recover(leader):
        return _plan_recovery(group, kept_pods)
    pod = f"pod {leader['metadata']['name']}"
    return Plan(
        # No event shows that the namespace is being deleted.
        again_after=timing.RECHECK_SECONDS,
        waiting_for=f'the annotation {RECOVER_ANNOTATION}: "true" on {pod}, or a new template',
    )


def plan_kept_alone(group: GroupSnapshot, why: str) -> Plan:
    """Keep the pods of a group whose set is left alone; release them if their namespace is being deleted.
    why: the reason for leaving the set alone.
    """
    kept_pods = () if other_manager(group.lws) else _kept(group)
    if kept_pods and group.is_namespace_ending:
        return _plan_release(kept_pods, _NAMESPACE_ENDS)
    return Plan(again_after=timing.RECHECK_SECONDS if kept_pods else None, waiting_for=why)


_NAMESPACE_ENDS = "the namespace is being deleted, and its pods may go before the set"


def _kept(group: GroupSnapshot) -> tuple[Object, ...]:
    """Return the pods that the finalizer keeps, the leader last."""
    return (*group.kept_workers, group.leader) if is_kept(group.leader) else group.kept_workers


def plan_abandoned(abandoned: Abandoned) -> Plan:
    """Release the kept pods of an abandoned group, terminate workers together with their leader, delete
    workers that it has left, and remove the gate of a leader that no set will admit.
    """
    released = _plan_release(abandoned.pods, "their set, its StatefulSet or their leader is gone")
    leader, workers = abandoned.leader, abandoned.worker_statefulset
    if leader is None and workers is not None:
        why = "its leader was deleted without it, and the next leader gets workers of its own"
        ended = Plan(((Delete(Reference.to(workers), "Background", why),),))
    elif leader is None:
        ended = Plan()
    elif abandoned.is_to_be_admitted:
        ended = Plan(((admit(None, leader),),))
    else:
        ended = plan_termination(leader, workers, abandoned.lws)
    return merge_plans(released, ended) if abandoned.pods else ended


def _why_unwanted(group: GroupSnapshot) -> str:
    """Return the reason why the group is no longer desired; empty if it may be recovered."""
    leaders, index = group.leaders, index_by_name(group.leader)
    if leaders is None:
        return ""
    if index >= desired_replicas(leaders) and not is_of_hash_group(group.leader):
        return f"the set is scaled down to {desired_replicas(leaders)} groups"
    key, is_hash = key_of_template(leaders), is_of_hash_group(group.leader)
    is_rolled = not leaders["spec"].get("paused") if is_hash else index >= partition_of(leaders)
    if key and key != labels_of(group.leader).get(REVISION_LABEL) and is_rolled:
        return f"the rollout to revision {key} replaces the group"
    return ""


def _plan_recovery(group: GroupSnapshot, kept_pods: Iterable[Object]) -> Plan:
    try:
        merge = reset(group.lws, group.leader)
    except InvalidCounts as error:
        return error.wait
    released = _remove_finalizers(kept_pods, f"the annotation {RECOVER_ANNOTATION} requests a new group")
    return Plan(sequences=((*((merge,) if merge is not None else ()), *released),))


def _plan_release(pods: Iterable[Object], why: str) -> Plan:
    return Plan(
        sequences=(tuple(_remove_finalizers(pods, why)),), waiting_for="the pods of the group to be gone"
    )


def _remove_finalizers(pods: Iterable[Object], why: str) -> list[SetFinalizer]:
    """Remove the finalizer from workers before their leader, so that no worker meets the next leader."""
    unmarked = {RESTART_BUDGET_EXHAUSTED_ANNOTATION: None, RECOVER_ANNOTATION: None}
    patch = {"metadata": {"annotations": unmarked}}
    return [
        SetFinalizer(Reference.to(pod), RESTART_BUDGET_FINALIZER, why, is_there=False, patch=patch)
        for pod in pods
    ]


# --- Terminate workers together with their leader (KEP-956), if the set requests it.
#
# If a leader is deleted in the foreground, as for a restart of its group, the garbage collector terminates
# its workers at once. If it is deleted in the background (scale-down, eviction, deletion of the set), the
# garbage collector leaves the workers running until the leader is gone.


def plan_termination(leader: Object, workers: Object | None, lws: Object | None) -> Plan:
    """Delete the worker StatefulSet of a terminating leader.

    The deletion is in the foreground: until the last worker is gone, the StatefulSet blocks the name that the
    workers of the next leader need. Deleting only the pods would not help, because the StatefulSet would
    recreate them. lws: the set; None if it does not exist any more.
    """
    workers = workers_to_delete(leader, workers)
    is_parallel = ends_in_parallel(lws) if lws is not None else notes_parallel(leader, workers)
    if workers is None or not is_parallel or (lws is not None and other_manager(lws)):
        return Plan()
    why = "its leader pod is being deleted (podTerminationPolicy Parallel)"
    return Plan(((Delete(Reference.to(workers), "Foreground", why=why),),))


def plan_termination_annotation(group: GroupSnapshot) -> Plan:
    """Record a changed termination policy in an annotation of the worker StatefulSet; no pod restarts."""
    workers, is_parallel = group.own_workers, ends_in_parallel(group.lws)
    if workers is None or is_terminating(workers) or notes_parallel(group.leader, workers) == is_parallel:
        return Plan()
    policy = PodTerminationPolicy.PARALLEL if is_parallel else PodTerminationPolicy.DEFAULT
    patch = {"metadata": {"annotations": {POD_TERMINATION_POLICY_ANNOTATION: policy.value}}}
    why = "podTerminationPolicy has changed, and must be known after the set is deleted"
    return Plan(((Merge(Reference.to(workers), patch, why=why),),))
