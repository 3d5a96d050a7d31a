"""Decide whether a pod of a group failed in a way for which the whole group is recreated.

Out: the pod that is the reason and how it failed, or None. The decision is made from the state of the
objects, not from events, so a failure is also found after the manager was away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from lws.kube.conditions import moment_of
from lws.kube.metadata import is_controlled_by, is_terminating, labels_of
from lws.kube.pods import (
    ContainerEnd,
    deletion_requested_at,
    disruption_of,
    ended_containers,
    is_failed,
    is_pending,
    left_pending_at,
    reason_of,
    restarted_containers,
)
from lws.leaderworkerset.group.labels import index_by_name, is_worker_of
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.memory import Members, mark_on, remembered_of
from lws.leaderworkerset.status.status import (
    CONTAINER_RESTARTED,
    DISRUPTION,
    POD_DELETED,
    POD_FAILED,
    POD_REPLACED,
)
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import REVISION_LABEL, RestartPolicy

_REPLACED = "it was replaced by another pod of that name"
_AFTER_DISRUPTION = f"{_REPLACED} after a disruption"
_ONE_REPLACED = "it, or another worker as young as it, was replaced by another pod of that name"
_LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Incident:
    """pod: the name of the pod that is the reason. why: how it failed, a clause of which it is the subject
    or the place.

    is_disruption: the pod goes or went because it was evicted, preempted or drained, which is no failure of
    the group. since: not later than any failure in the group; what does not show is taken for old. how: the
    same as `why` in one word.
    """

    pod: str
    why: str
    is_disruption: bool = False
    since: datetime = field(default=_LONG_AGO, compare=False)
    how: str = field(default=POD_FAILED, compare=False)

    @property
    def reason(self) -> str:
        """Why its group is recreated, in one word."""
        return DISRUPTION if self.is_disruption else self.how


def incident_of(group: GroupSnapshot, size: int) -> Incident | None:
    """The reason to recreate the group, or None.

    size: pods that the group has when it is complete, by its own revision. The policies are those of the
    original controller. A leader that is already on its way out needs no second reason. Where a pod was
    disrupted, that is the reason: others fail because they lose it.
    """
    if is_terminating(group.leader) or ignores_losses(group, size):
        return None
    workers = members(group, size)
    pods = (group.leader, *workers)
    exempt = group.spec.exempt_containers
    starts = (group.started, *(left_pending_at(pod, exempt) for pod in pods))
    since = max(starts) if group.spec.waits_for_start else ""
    found = [*_visible_failures(group, pods, since), *_replaced(group, workers, size)]
    if not found:
        return None
    chosen = next((each for each in found if each.is_disruption), found[0])
    return replace(chosen, since=min(each.since for each in found))


def ignores_losses(group: GroupSnapshot, size: int) -> bool:
    """No failure of a pod recreates the group: its policy says so, or it has not even started."""
    if group.spec.restart_policy == RestartPolicy.NONE:
        return True
    if not group.spec.waits_for_start:
        return False
    pods = (group.leader, *members(group, size))
    return len(pods) != size or any(is_pending(pod) for pod in pods)


def is_to_be_judged(group: GroupSnapshot, size: int) -> bool:
    """Report whether a replaced worker counts: only once all pods have left Pending; no event shows when."""
    is_ignored = ignores_losses(group, size) and group.spec.restart_policy != RestartPolicy.NONE
    return is_ignored and any(_replaced(group, members(group, size), size))


def members(group: GroupSnapshot, size: int) -> tuple[Object, ...]:
    """Workers of this very leader: those of its predecessor are on their way out and say nothing about the
    group, nor do pods beyond its size that somebody has scaled its StatefulSet to.
    """
    workers = group.worker_statefulset
    if workers is None or not is_controlled_by(workers, group.leader["metadata"]["uid"]):
        return ()
    key = labels_of(group.leader).get(REVISION_LABEL)
    leader = group.leader["metadata"]["name"]
    return tuple(
        pod
        for pod in group.workers
        if labels_of(pod).get(REVISION_LABEL) == key and is_worker_of(pod, leader, size)
    )


def _visible_failures(group: GroupSnapshot, pods: tuple[Object, ...], since: str) -> Iterator[Incident]:
    """What shows on the pods themselves. since: restarts before this moment belong to the start."""
    exempt, spares_sidecars = group.spec.exempt_containers, group.spec.exempts_sidecars
    for pod in pods:
        name, disruption = pod["metadata"]["name"], disruption_of(pod)
        if is_terminating(pod):
            why = f"it is being deleted ({disruption})" if disruption else "it is being deleted"
            since_when = deletion_requested_at(pod) or _LONG_AGO
            yield Incident(name, why, bool(disruption), since_when, POD_DELETED)
        if is_failed(pod):
            yield Incident(name, _failure(pod), bool(disruption), _created(pod))
        for end in restarted_containers(pod):
            is_exempt = end.container in exempt or (spares_sidecars and end.is_sidecar)
            if not is_exempt and not (end.at and end.at < since):
                # Of the first of several restarts nothing shows but that the pod was there.
                began = moment_of(end.at) if end.is_first else None
                why, when = f"{_ended(end)} and was restarted", began or _created(pod)
                yield Incident(name, why, since=when, how=CONTAINER_RESTARTED)


def _created(pod: Object) -> datetime:
    return moment_of(pod["metadata"].get("creationTimestamp")) or _LONG_AGO


def _failure(pod: Object) -> str:
    reason = reason_of(pod)
    said = f"it failed ({reason})" if reason else "it failed"
    return ", ".join((said, *map(_ended, ended_containers(pod))))


def _ended(end: ContainerEnd) -> str:
    if end.exit_code is None:
        return f"container {end.container} ended"
    reason = f" ({end.reason})" if end.reason else ""
    return f"container {end.container} exited with code {end.exit_code}{reason}"


def _replaced(group: GroupSnapshot, workers: tuple[Object, ...], size: int) -> Iterator[Incident]:
    """Pods that are others than they were under this leader: as this process has seen it, or by the UIDs that
    the status remembers.
    """
    pods = {pod["metadata"]["name"]: pod for pod in workers}
    for name in group.replaced:
        if name in pods:
            is_disruption = name in group.disrupted
            why = _AFTER_DISRUPTION if is_disruption else _REPLACED
            yield Incident(name, why, is_disruption, _created(pods[name]), POD_REPLACED)
    if mark_on(group.lws, index_by_name(group.leader), group.leader):
        yield Incident(group.leader["metadata"]["name"], "its group had failed before")
    elif workers and len(workers) == size - 1 and not _are_remembered(group, workers):
        yield _replaced_unseen(workers, group.disrupted)


def _replaced_unseen(workers: tuple[Object, ...], disrupted: frozenset[str]) -> Incident:
    """The status remembers all workers as one. Which of them is new tells a disruption that was seen, or
    their age, in whole seconds.
    """
    for pod in workers:
        if pod["metadata"]["name"] in disrupted:
            return Incident(pod["metadata"]["name"], _AFTER_DISRUPTION, True, _created(pod))
    newest = max(pod["metadata"]["creationTimestamp"] for pod in workers)
    names = [pod["metadata"]["name"] for pod in workers if pod["metadata"]["creationTimestamp"] == newest]
    why = _REPLACED if len(names) == 1 else _ONE_REPLACED
    return Incident(max(names), why, since=moment_of(newest) or _LONG_AGO, how=POD_REPLACED)


def _are_remembered(group: GroupSnapshot, workers: tuple[Object, ...]) -> bool:
    """The leader has the workers that the status remembers, or that remembers another leader, or nothing."""
    known = remembered_of(group.lws, index_by_name(group.leader))
    if known is None:
        return True
    now = Members.of(group.leader["metadata"]["uid"], [pod["metadata"]["uid"] for pod in workers])
    return known.leader != now.leader or known.workers == now.workers
