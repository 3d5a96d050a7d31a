"""Must this group be recreated, and because of which pod?

In: the set, the leader pod, the worker StatefulSet and its pods, and which of them were replaced. Out: the
pod that is the reason, or None.
"""

from __future__ import annotations

from dataclasses import dataclass

from lws.actions import Object
from lws.group.snapshot import GroupSnapshot
from lws.kube.metadata import annotations_of, is_controlled_by, is_terminating, labels_of
from lws.kube.pods import has_restarted, is_pending
from lws.leaderworkerset import spec
from lws_api.leaderworkerset.v1 import RECREATE_GROUP_AFTER_START_ANNOTATION, REVISION_LABEL, RestartPolicy


@dataclass(frozen=True, slots=True)
class Restart:
    """pod: the name of the pod that is the reason; why: what happened to it."""

    pod: str
    why: str


def restart_needed(group: GroupSnapshot, size: int) -> Restart | None:
    """The reason to recreate the group, or None.

    size: pods that the group has when it is complete, by its own revision.

    The policies and what suppresses them are those of the original controller. A leader that is already on
    its way out needs no second reason.
    """
    if is_terminating(group.leader) or ignores_losses(group, size):
        return None
    reasons = (_reason(pod) for pod in (group.leader, *_workers(group)))
    replaced = (Restart(name, "was replaced") for name in group.replaced)
    return next((reason for reason in (*reasons, *replaced) if reason is not None), None)


def ignores_losses(group: GroupSnapshot, size: int) -> bool:
    """Nothing that befalls a pod recreates the group: its policy says so, or it has not even started."""
    policy = spec.restart_policy_of(group.lws)
    if policy == RestartPolicy.NONE:
        return True
    waits_for_start = policy == RestartPolicy.RECREATE_GROUP_AFTER_START or (
        RECREATE_GROUP_AFTER_START_ANNOTATION in annotations_of(group.lws)
    )
    pods = (group.leader, *_workers(group))
    return waits_for_start and (len(pods) != size or any(is_pending(pod) for pod in pods))


def _workers(group: GroupSnapshot) -> tuple[Object, ...]:
    """Workers of this very leader: those of its predecessor are on their way out and say nothing about the
    group.
    """
    workers = group.worker_statefulset
    if workers is None or not is_controlled_by(workers, group.leader["metadata"]["uid"]):
        return ()
    key = labels_of(group.leader).get(REVISION_LABEL)
    return tuple(pod for pod in group.workers if labels_of(pod).get(REVISION_LABEL) == key)


def _reason(pod: Object) -> Restart | None:
    name = pod["metadata"]["name"]
    if is_terminating(pod):
        return Restart(name, "is being deleted")
    if has_restarted(pod):
        return Restart(name, "had a container restart")
    return None
