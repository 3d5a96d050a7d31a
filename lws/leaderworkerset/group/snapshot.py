"""The facts of one pass over a group: its leader pod, its workers and its set, read at one instant.

`lws.leaderworkerset.observe.observer` collects them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from lws.kube.metadata import labels_of
from lws.kube.nodes import NodeLosses
from lws.leaderworkerset.group.gangs import GangProvider
from lws.leaderworkerset.group.marks import EditedPod
from lws.leaderworkerset.pod_identity import group_size_of, own_workers
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.recovery import Running
from lws.leaderworkerset.scheduling import Scheduled
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.spec import SetSpec, recorded_size
from lws.policies import Policies
from lws.runtime.actions import Announce, EventType, Object, Problem, Reference
from lws_api.leaderworkerset.v1 import REVISION_LABEL


# No slots, because `spec` is cached.
@dataclass(frozen=True)
class GroupSnapshot:
    """One group.

    lws: the set that owns the StatefulSet or Deployment of the leader pod, by UID at each step.
    leader: the leader pod. Like `worker_pods`, it has the identity labels and annotations that it should
      have.
    revision: the recorded revision of the leader's key; None if there is none.
    unrecorded_templates: if `revision` is None, the templates that run under that key, read live.
    is_revision_shown: whether another source than the label also shows the leader's revision.
    edited_pods: pods whose identity labels and annotations were edited, and must be repaired.
    worker_statefulset: the StatefulSet with the name of the workers, regardless of owner.
    worker_pods: the pods that `worker_statefulset` controls, including terminating ones.
    former_workers: pods of a deleted StatefulSet with names that workers need, if there is no
      `worker_statefulset`; if the leader has the group replacement gate, all pods of former groups.
    replaced_workers: names of workers that were replaced under this leader.
    disrupted_workers: names of workers whose predecessors were evicted, preempted or drained, which is not a
      failure.
    restarts_at_start: restarts that belong to the start of the group, by UID of the pod and name of the
      container, if its restart policy spares them.
    failed_since: when a pass first saw that the group has failed; None if it has not.
    siblings: all groups of the set, including this one; only read if this group may have to be recreated.
    target_key: the revision key of the leader StatefulSet or Deployment.
    service: the Service with the name of the group, regardless of owner.
    owners_alive: UIDs of existing controllers of these objects and of `pod_group`.
    leader_node: the node of the leader pod; only read if workers must be placed near it.
    leader_read_live: the leader pod, read live; None unless an orphan may be adopted, or a running leader
      lacks workers.
    gang: the gang scheduler of the group; None without one.
    pod_group: the PodGroup with the name that the group needs, regardless of owner.
    kept_workers: workers that are kept by the finalizer of a group with exhausted restarts.
    is_namespace_ending: whether the namespace is being deleted; only known if pods are kept.
    leaders: the leader StatefulSet or Deployment, if it is needed to decide about kept pods.
    drops_start_ordinal: whether the API server has recently dropped `spec.ordinals.start`.
    terminating_pods: pods with names of the group that are being deleted and wait for their kubelet.
    nodes: the nodes of overdue `terminating_pods`, read live; None for a node that does not exist.
    policies: settings that plans read.
    scheduled: objects of the group for the scheduler that serves `spec.scheduling`; None without any.
    left_alone: why the controller must not act on the set, of which only kept pods are read then; None if it
      may.
    """

    lws: Object
    leader: Object
    now: datetime
    revision: Recorded | None = None
    unrecorded_templates: Running | None = None
    is_revision_shown: bool = True
    edited_pods: tuple[EditedPod, ...] = ()
    worker_statefulset: Object | None = None
    worker_pods: tuple[Object, ...] = ()
    former_workers: tuple[Object, ...] = ()
    replaced_workers: tuple[str, ...] = ()
    disrupted_workers: frozenset[str] = frozenset()
    restarts_at_start: Mapping[tuple[str, str], int] = field(default_factory=dict)
    failed_since: datetime | None = None
    siblings: tuple[GroupFacts, ...] = ()
    target_key: str = ""
    service: Object | None = None
    owners_alive: frozenset[str] = frozenset()
    leader_node: Object | None = None
    leader_read_live: Object | None = None
    gang: GangProvider | None = None
    pod_group: Object | None = None
    kept_workers: tuple[Object, ...] = ()
    is_namespace_ending: bool = False
    leaders: Object | None = None
    drops_start_ordinal: bool = False
    terminating_pods: tuple[Object, ...] = ()
    nodes: Mapping[str, Object | None] = field(default_factory=dict)
    policies: Policies = field(default_factory=Policies)
    scheduled: Scheduled | None = None
    left_alone: Problem | None = None

    @cached_property
    def spec(self) -> SetSpec:
        return SetSpec.of(self.lws)

    @property
    def node_losses(self) -> NodeLosses:
        return NodeLosses(self.terminating_pods, self.nodes, self.now, self.policies.node_loss)

    @property
    def own_workers(self) -> Object | None:
        """The worker StatefulSet if this leader controls it, as in `pod_identity.own_workers`."""
        return own_workers(self.leader, self.worker_statefulset)

    @property
    def own_worker_pods(self) -> tuple[Object, ...]:
        """The worker pods of this leader, without those of its predecessor."""
        key = labels_of(self.leader).get(REVISION_LABEL)
        pods = self.worker_pods if self.own_workers is not None else ()
        return tuple(pod for pod in pods if labels_of(pod).get(REVISION_LABEL) == key)

    @property
    def size(self) -> int:
        """The number of pods of the complete group, by its own revision or the best available record."""
        if self.revision is not None:
            return recorded_size(self.revision.record.spec)
        size = group_size_of(self.leader)
        return size if size is not None else self.spec.size


def group_event(
    group: GroupSnapshot, reason: str, action: str, note: str, kind: EventType = "Normal"
) -> Announce:
    """Build an Event about the set, related to the leader pod of the group."""
    return Announce(Reference.to(group.lws), reason, action, note, kind, Reference.to(group.leader))
