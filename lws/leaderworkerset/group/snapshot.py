"""What one pass over a group knows: its leader pod, its workers and the set that it belongs to, read at one
instant.

Gathered by `lws.leaderworkerset.observe.observer` for `plan`, `failures` and `restart`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from lws.kube.nodes import NodeLossPolicy
from lws.leaderworkerset.group.gangs import GangProvider
from lws.leaderworkerset.group.labels import Edited, group_size_of
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.recovery import Running
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.spec import SetSpec, recorded_size
from lws.runtime.actions import Announce, EventType, Object, Reference


# No slots: the spec is read once.
@dataclass(frozen=True)
class GroupSnapshot:
    """One group.

    lws: the set that owns the leader StatefulSet that owns the leader pod (by UID at each step).
    leader: the leader pod. It and `workers` say who they are, whatever their labels and annotations were
    edited to. edited: the edits to restore. is_shown: another source than the label also names the
    leader's revision.
    revision: the recorded revision of the leader's key, if it is still there.
    unrecorded: where it is not, what runs under that key, as reads past every cache found it.
    worker_statefulset: the StatefulSet that has the leader's name, regardless of owner.
    workers: pods that `worker_statefulset` controls, terminating ones included.
    former_workers: pods of a StatefulSet that is gone, under names that workers need, only where there is no
    `worker_statefulset`.
    replaced: names of workers that are other pods by now than this process has seen under this leader.
    disrupted: names of workers whose predecessors were evicted, preempted or drained, so that their loss is
    no failure.
    started: when the last exempt container of its pods was started for the first time, as this process has
    seen it, in the form of `left_pending_at`; empty if unknown. Who restarts twice shows it no longer.
    siblings: all groups of the set, this one included, only where this one may have to be recreated.
    wanted_key: revision key that the leader StatefulSet carries.
    service: the Service that has the leader's name, regardless of owner.
    owners_alive: UIDs of other controllers of these and of `pod_group` that were found alive.
    node: the node that the leader pod is on, only where workers are still to be placed beside it.
    reread: the leader pod as a read past every cache returned it, only where an orphan could be adopted.
    gang: who schedules the group as a whole, None for nobody. pod_group: the PodGroup of the name that the
    group needs, regardless of owner.
    drops_start_ordinal: the API server has been seen to drop `spec.ordinals.start`.
    leaving: pods of the group, and former ones of the same names, that are being deleted and wait for their
    kubelet.
    nodes: those of overdue `leaving` pods, as reads past every cache found them; None for one that is gone.
    is_covered: the pod webhook sees pods of the namespace; where it does not, nothing else was read.
    """

    lws: Object
    leader: Object
    now: datetime
    revision: Recorded | None = None
    unrecorded: Running | None = None
    is_shown: bool = True
    edited: tuple[Edited, ...] = ()
    worker_statefulset: Object | None = None
    workers: tuple[Object, ...] = ()
    former_workers: tuple[Object, ...] = ()
    replaced: tuple[str, ...] = ()
    disrupted: frozenset[str] = frozenset()
    started: str = ""
    siblings: tuple[GroupFacts, ...] = ()
    wanted_key: str = ""
    service: Object | None = None
    owners_alive: frozenset[str] = frozenset()
    node: Object | None = None
    reread: Object | None = None
    gang: GangProvider | None = None
    pod_group: Object | None = None
    drops_start_ordinal: bool = False
    leaving: tuple[Object, ...] = ()
    nodes: Mapping[str, Object | None] = field(default_factory=dict)
    node_loss: NodeLossPolicy = field(default_factory=NodeLossPolicy)
    is_covered: bool = True

    @cached_property
    def spec(self) -> SetSpec:
        """The spec of the set."""
        return SetSpec.of(self.lws)

    @property
    def size(self) -> int:
        """Pods of the complete group, by its own revision or the best available record."""
        if self.revision is not None:
            return recorded_size(self.revision.record.spec)
        told = group_size_of(self.leader)
        return told if told is not None else self.spec.size


def group_event(
    group: GroupSnapshot, reason: str, action: str, note: str, kind: EventType = "Normal"
) -> Announce:
    """An Event about the set, related to the leader pod of the group."""
    return Announce(Reference.to(group.lws), reason, action, note, kind, Reference.to(group.leader))
