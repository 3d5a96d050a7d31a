"""Terminate workers together with their leader (KEP-956), if the set requests it.

If a leader is deleted in the foreground (for a restart of its group), the garbage collector terminates its
workers at once. If it is deleted in the background (scale-down, eviction, deletion of the set), the garbage
collector leaves the workers until the leader is gone.
"""

from __future__ import annotations

from lws.kube.metadata import is_terminating
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.labels import notes_parallel, own_workers
from lws.leaderworkerset.rollout.replacement import left_workers
from lws.leaderworkerset.spec import ends_in_parallel, other_manager
from lws.runtime.actions import Delete, Merge, Object, Plan, Reference
from lws_api.leaderworkerset.v1 import POD_TERMINATION_POLICY_ANNOTATION, PodTerminationPolicy


def plan_termination(leader: Object, workers: Object | None, lws: Object | None) -> Plan:
    """Delete the worker StatefulSet of a terminating leader. lws: None if the set does not exist any more.

    In the foreground: until its last pod is gone, it blocks the name that the workers of the next leader
    need. The StatefulSet would recreate its pods if only they were deleted.
    """
    workers = left_workers(leader, workers)
    if workers is None:
        return Plan()
    is_parallel = ends_in_parallel(lws) if lws is not None else notes_parallel(leader, workers)
    if lws is not None and other_manager(lws):
        return Plan()
    if not is_parallel:
        return Plan()
    why = "its leader pod is being deleted (podTerminationPolicy Parallel)"
    return Plan(((Delete(Reference.to(workers), "Foreground", why=why),),))


def plan_note(group: GroupSnapshot) -> Plan:
    """Record a changed policy in an annotation of the worker StatefulSet, which restarts no pod."""
    workers = own_workers(group.leader, group.worker_statefulset)
    is_parallel = ends_in_parallel(group.lws)
    if workers is None or is_terminating(workers) or notes_parallel(group.leader, workers) == is_parallel:
        return Plan()
    policy = PodTerminationPolicy.PARALLEL if is_parallel else PodTerminationPolicy.DEFAULT
    patch = {"metadata": {"annotations": {POD_TERMINATION_POLICY_ANNOTATION: policy.value}}}
    why = "podTerminationPolicy has changed, and must be known after the set is deleted"
    return Plan(((Merge(Reference.to(workers), patch, why=why),),))
