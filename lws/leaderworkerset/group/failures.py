"""Decide whether a failed pod requires its whole group to be recreated.

The decision depends on objects, not on events, so failures while the manager was down are also found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lws.kube.metadata import is_terminating, name_of, uid_of
from lws.kube.pods import (
    ContainerEnd,
    disruption_of,
    ended_containers,
    has_ended,
    is_failed,
    is_pending,
    reason_of,
    restarted_containers,
)
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.group_records import Members, mark_of, recorded_members
from lws.leaderworkerset.pod_identity import group_number, is_of_hash_group, is_worker_of, must_return_to
from lws.leaderworkerset.status.status import (
    CONTAINER_RESTARTED,
    DISRUPTION,
    POD_DELETED,
    POD_FAILED,
    POD_REPLACED,
)
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import RestartPolicy

_REPLACED = "it was replaced by another pod of that name"
_AFTER_DISRUPTION = f"{_REPLACED} after a disruption"
_ONE_REPLACED = "it, or another worker as young as it, was replaced by another pod of that name"


@dataclass(frozen=True, slots=True)
class Incident:
    """The failure for which a group is recreated.

    pod: the name of the failed pod. why: a clause that says how the pod failed. is_disruption: whether the
    pod was evicted, preempted or drained, which is not a failure of the group. how: `why` as one word.
    """

    pod: str
    why: str
    is_disruption: bool = False
    how: str = field(default=POD_FAILED, compare=False)

    @property
    def reason(self) -> str:
        """Why the group is recreated, in one word."""
        return DISRUPTION if self.is_disruption else self.how


def incident_of(group: GroupSnapshot, size: int) -> Incident | None:
    """Return the reason to recreate the group; None if there is none.

    The restart policies are upstream's. A terminating leader ends its group anyway. A disruption takes
    precedence over failures, because other pods may fail for lack of the disrupted one.
    size: the number of pods of the complete group, by its own revision.
    """
    if is_terminating(group.leader) or ignores_losses(group, size):
        return None
    workers = members(group, size)
    pods = (group.leader, *workers)
    incidents = [*_visible_failures(group, pods), *_replaced(group, workers, size)]
    disruptions = (incident for incident in incidents if incident.is_disruption)
    return next(disruptions, incidents[0] if incidents else None)


def ignores_losses(group: GroupSnapshot, size: int) -> bool:
    """Return whether failures do not recreate the group: by its restart policy, or before it has started."""
    if group.spec.restart_policy == RestartPolicy.NONE:
        return True
    if not group.spec.waits_for_start:
        return False
    if is_of_hash_group(group.leader) and has_ended(group.leader):
        # The ReplicaSet has replaced this leader, so the group will never start.
        return False
    pods = (group.leader, *members(group, size))
    return len(pods) != size or any(is_pending(pod) for pod in pods)


def is_to_be_judged(group: GroupSnapshot, size: int) -> bool:
    """Return whether a replaced worker will count as a failure once all pods have left Pending. No event
    shows when the pods leave Pending, so the caller must check again.
    """
    is_ignored = ignores_losses(group, size) and group.spec.restart_policy != RestartPolicy.NONE
    return is_ignored and any(_replaced(group, members(group, size), size))


def members(group: GroupSnapshot, size: int) -> tuple[Object, ...]:
    """Return the workers of this leader. Workers of its predecessor are left out, and so are workers beyond
    the size of the group, which exist if a user has scaled up the StatefulSet.
    """
    workers = group.own_workers
    if workers is None:
        return ()
    return tuple(pod for pod in group.own_worker_pods if is_worker_of(pod, name_of(workers), size))


def counted_restarts(group: GroupSnapshot, pods: Iterable[Object]) -> dict[tuple[str, str], int]:
    """Return how often containers were restarted that are not exempt, by UID of the pod and their name."""
    return {
        (uid_of(pod), end.container): end.restarts
        for pod in pods
        for end in restarted_containers(pod)
        if group.spec.counts(end)
    }


def _visible_failures(group: GroupSnapshot, pods: tuple[Object, ...]) -> Iterator[Incident]:
    """Yield failures that the pods show."""
    for pod in pods:
        name, disruption = pod["metadata"]["name"], disruption_of(pod)
        # Deleting a pod that was still waiting to return to its node is not a failure.
        if is_terminating(pod) and (disruption or not must_return_to(pod)):
            why = f"it is being deleted ({disruption})" if disruption else "it is being deleted"
            yield Incident(name, why, bool(disruption), POD_DELETED)
        if is_failed(pod):
            failed = f"it failed ({reason})" if (reason := reason_of(pod)) else "it failed"
            why = ", ".join((failed, *map(_ended, ended_containers(pod))))
            yield Incident(name, why, bool(disruption))
        for end in restarted_containers(pod):
            of_start = group.restarts_at_start.get((uid_of(pod), end.container), 0)
            if group.spec.counts(end) and end.restarts > of_start:
                yield Incident(name, f"{_ended(end)} and was restarted", how=CONTAINER_RESTARTED)


def _ended(end: ContainerEnd) -> str:
    if end.exit_code is None:
        return f"container {end.container} ended"
    reason = f" ({end.reason})" if end.reason else ""
    return f"container {end.container} exited with code {end.exit_code}{reason}"


def _replaced(group: GroupSnapshot, workers: tuple[Object, ...], size: int) -> Iterator[Incident]:
    """Yield workers that were replaced under this leader, as observed by this process or shown by recorded
    UIDs.
    """
    pods = {pod["metadata"]["name"]: pod for pod in workers}
    for name in group.replaced_workers:
        if name in pods:
            is_disruption = name in group.disrupted_workers
            why = _AFTER_DISRUPTION if is_disruption else _REPLACED
            yield Incident(name, why, is_disruption, POD_REPLACED)
    if mark_of(group.lws, group_number(group.leader), group.leader):
        yield Incident(group.leader["metadata"]["name"], "its group had failed before")
    elif workers and len(workers) == size - 1 and not _are_recorded(group, workers):
        yield _replaced_unseen(workers, group.disrupted_workers)


def _replaced_unseen(workers: tuple[Object, ...], disrupted: frozenset[str]) -> Incident:
    """Return the incident for a worker that was replaced unseen. The status records one hash of all workers,
    so only an observed disruption shows which is new; else it names the youngest, by age in whole seconds.
    """
    for pod in workers:
        if pod["metadata"]["name"] in disrupted:
            return Incident(pod["metadata"]["name"], _AFTER_DISRUPTION, True)
    newest = max(pod["metadata"]["creationTimestamp"] for pod in workers)
    names = [pod["metadata"]["name"] for pod in workers if pod["metadata"]["creationTimestamp"] == newest]
    why = _REPLACED if len(names) == 1 else _ONE_REPLACED
    return Incident(max(names), why, how=POD_REPLACED)


def _are_recorded(group: GroupSnapshot, workers: tuple[Object, ...]) -> bool:
    """Return whether the workers are the recorded ones, or no workers are recorded for this leader."""
    recorded = recorded_members(group.lws, group_number(group.leader))
    if recorded is None:
        return True
    uid = group.leader["metadata"]["uid"]
    current = Members.of(uid, [pod["metadata"]["uid"] for pod in workers])
    return not recorded.belongs_to(uid) or recorded.workers == current.workers
