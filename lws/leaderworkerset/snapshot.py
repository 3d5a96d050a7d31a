"""Facts of one pass over a LeaderWorkerSet: everything that its plan may use, read at one instant.

`lws.leaderworkerset.observe.observer` collects them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from lws.kube.conditions import Rejection
from lws.kube.metadata import is_terminating, labels_of, name_of, owner_reference, uid_of
from lws.kube.nodes import NodeLosses
from lws.kube.ownership import may_adopt
from lws.kube.pods import ContainerEnd, NodeWait, is_ready, is_running
from lws.kube.statefulsets import desired_replicas, is_settled, is_short
from lws.leaderworkerset.pod_identity import group_size_of
from lws.leaderworkerset.restart_counts import is_exhausted
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.revisions.recovery import Running
from lws.leaderworkerset.scheduling import Scheduled
from lws.leaderworkerset.spec import SetSpec
from lws.policies import Policies
from lws.runtime.actions import Object, Problem
from lws.runtime.children import ChildOwner
from lws_api.leaderworkerset.v1 import KIND, REVISION_LABEL


# No slots: derived facts are cached, and most of a thousand groups do not change between two passes.
@dataclass(frozen=True)
class GroupFacts:
    """One group: its leader pod, its worker StatefulSet and what is known about its pods.

    index: ordinal of the leader pod, 0-based.
    leader: the leader pod, controlled by the leader StatefulSet. Its revision label is the key that the pod
      was created from, even if the label was edited.
    worker_statefulset: the worker StatefulSet, only if *this* leader pod (by UID) controls it.
    name_clash: a StatefulSet, or a Service if the group needs one, that has the leader's name and either
      another existing owner or no owner.
    worker_uids: UIDs of the ready pods that `worker_statefulset` controls, without terminating ones.
    restarted: ends of restarted containers, of its leader and of pods that `worker_statefulset` controls.
    is_being_deleted: whether another pass is deleting the leader at this moment.
    waits: waits of its pods for a node.
    """

    index: int
    leader: Object
    worker_statefulset: Object | None = None
    name_clash: Object | None = None
    worker_uids: tuple[str, ...] = ()
    restarted: tuple[ContainerEnd, ...] = ()
    is_being_deleted: bool = False
    waits: tuple[NodeWait, ...] = ()

    @cached_property
    def uid(self) -> str:
        return uid_of(self.leader)

    @cached_property
    def created(self) -> str:
        """Creation time of the leader pod in RFC 3339; empty if unknown."""
        return self.leader["metadata"].get("creationTimestamp") or ""

    @cached_property
    def states(self) -> dict[Hashable, Any]:
        """Cache of `rollout.groups`: states of the group, by what it was compared with."""
        return {}

    @cached_property
    def is_exhausted(self) -> bool:
        """Whether the group has used up its restarts by upstream's rules."""
        return is_exhausted(self.leader)

    @cached_property
    def is_leader_terminating(self) -> bool:
        return is_terminating(self.leader)

    @cached_property
    def is_leader_up(self) -> bool:
        return is_running(self.leader) and is_ready(self.leader)

    @cached_property
    def leader_key(self) -> str | None:
        """Revision key of the leader pod; None if unknown."""
        return labels_of(self.leader).get(REVISION_LABEL)

    @cached_property
    def worker_key(self) -> str | None:
        """Revision key of the worker StatefulSet; None if unknown or if there is no worker StatefulSet."""
        return key_of_template(self.worker_statefulset) if self.worker_statefulset is not None else None

    @cached_property
    def are_workers_settled(self) -> bool:
        """Whether a worker StatefulSet exists and reports all of its pods available on one revision."""
        return self.worker_statefulset is not None and is_settled(self.worker_statefulset)

    @cached_property
    def are_workers_short(self) -> bool:
        """Whether a worker StatefulSet exists and its controller has not created all of its pods."""
        return self.worker_statefulset is not None and is_short(self.worker_statefulset)

    @cached_property
    def lacks_start_ordinal(self) -> bool:
        """Whether the API server dropped `ordinals.start`: workers would be numbered from 0, like leaders."""
        return self.worker_statefulset is not None and "start" not in (
            self.worker_statefulset["spec"].get("ordinals") or {}
        )

    @cached_property
    def size(self) -> int | None:
        """Pods of the group according to the annotation of its leader; None if unknown."""
        return group_size_of(self.leader)

    @cached_property
    def is_complete(self) -> bool:
        """Whether all worker pods of the group are ready, and their number matches the size of the group.
        Users may scale the worker StatefulSet, so its replicas can differ from the size.
        """
        replicas = desired_replicas(self.worker_statefulset) if self.worker_statefulset is not None else 0
        return len(self.worker_uids) == replicas and self.size in (None, replicas + 1)


@dataclass(frozen=True, slots=True)
class Teardown:
    """A Hash group that has pods but no live leader.

    group: the key of the group.
    is_current: whether the group has the revision of the Deployment.
    is_kept: whether the group has used up its restarts by upstream's rules, so that its pods are kept.
    """

    group: str
    is_current: bool
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class FormerGang:
    """A PodGroup that the set controls, without a leader. has_pods: whether pods of the group remain."""

    pod_group: Object
    has_pods: bool


@dataclass(frozen=True, slots=True)
class NodesOfGroup:
    """Nodes that the pods of a group run on. leader: the node of the leader pod; empty if it has none yet."""

    leader: str = ""
    workers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PrewarmFacts:
    """Facts that `rolloutStrategy.prewarm` needs.

    jobs: pre-warming Jobs that the set controls.
    nodes: nodes of the pods of each group, by index of the group.
    refused: why the API server rejects the pods of Jobs that have none, by UID of the Job.
    """

    jobs: tuple[Object, ...] = ()
    nodes: Mapping[int, NodesOfGroup] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


# No slots: the spec is parsed once and cached.
@dataclass(frozen=True)
class SetSnapshot:
    """A LeaderWorkerSet and its objects at one instant.

    leaders: the StatefulSet or Deployment with the name of the set, regardless of owner.
    service: the Service with the name of the set, regardless of owner.
    leader_service: the Service with the name of the leaders' Service, regardless of owner.
    pod_disruption_budget: the PodDisruptionBudget with the name of the set, regardless of owner.
    groups: groups by index, including those whose leader is terminating.
    revisions: recorded revisions that the set owns or may adopt.
    live_keys: keys of pods and StatefulSets of the set, and keys that its leaders may be recreated with.
    knows_live_keys: False if the leader StatefulSet names a ControllerRevision that the store lacks: leaders
      may then be recreated with a key that is not in `live_keys`.
    taken_revisions: ControllerRevisions of other owners that have names for revisions of the set.
    unrecorded_templates: templates that run under keys that no revision records, read live.
    claims: PersistentVolumeClaims with the name label of the set, regardless of owner; empty if the set has
      no claim templates.
    owners_alive: UIDs of existing controllers of `leaders`, the Services and `pod_disruption_budget`.
    set_read_live: the set, read live; None unless an object must be created or may be adopted.
    applied_leaders: digest of the last intent for the leader StatefulSet, and the generation that it led to.
    drops_start_ordinal: whether the API server has recently dropped `spec.ordinals.start`.
    rejections: writes that the API server rejects, both the manager's and those of StatefulSet controllers.
    recheck_after: seconds until `rejections` or the waits of `returning_pods` may have changed.
    pods_refused_at: time of the last rejected pod of a StatefulSet that is short of pods, by UID.
    are_leaders_refused: whether the API server has recently rejected an update of the leader StatefulSet.
    terminating_pods: pods with names of the set that are being deleted and wait for their kubelet.
    returning_pods: pods without a node that have long waited for the node that they must return to.
    nodes: nodes of overdue `terminating_pods`, and of `returning_pods` if these were due, read live; None for
      a node that does not exist.
    policies: settings that plans read.
    teardowns: Hash groups that have pods but no live leader; only known while a leader is gated.
    occupied_index_count: the highest index of a live leader plus 1, if the leader StatefulSet is lost; only
      with `spec.startStrategy`.
    left_keys: revision keys of live leaders, if the leader StatefulSet is lost.
    has_replica_sets: whether there are ReplicaSets that the Deployment of the set controls or may adopt.
    scheduled: objects of the scheduler that serves `spec.scheduling`; None for a set without a Workload.
    former_gangs: with `spec.scheduling`, PodGroups of schedulers other than the Kubernetes scheduler.
    prewarm: facts of `rolloutStrategy.prewarm`; None without prewarm, and in commands.
    left_alone: why the controller must not act on the set, of which nothing else is then read; None if it
      may.
    """

    lws: Object
    now: datetime
    leaders: Object | None = None
    service: Object | None = None
    leader_service: Object | None = None
    pod_disruption_budget: Object | None = None
    groups: tuple[GroupFacts, ...] = ()
    revisions: tuple[Recorded, ...] = ()
    live_keys: frozenset[str] = frozenset()
    knows_live_keys: bool = True
    taken_revisions: tuple[Object, ...] = ()
    unrecorded_templates: tuple[Running, ...] = ()
    claims: tuple[Object, ...] = ()
    owners_alive: frozenset[str] = frozenset()
    set_read_live: Object | None = None
    applied_leaders: tuple[str, int] | None = None
    drops_start_ordinal: bool = False
    rejections: tuple[Rejection, ...] = ()
    recheck_after: float | None = None
    pods_refused_at: Mapping[str, datetime] = field(default_factory=dict)
    are_leaders_refused: bool = False
    terminating_pods: tuple[Object, ...] = ()
    returning_pods: tuple[Object, ...] = ()
    nodes: Mapping[str, Object | None] = field(default_factory=dict)
    policies: Policies = field(default_factory=Policies)
    teardowns: tuple[Teardown, ...] = ()
    occupied_index_count: int = 0
    left_keys: frozenset[str] = frozenset()
    has_replica_sets: bool = False
    scheduled: Scheduled | None = None
    former_gangs: tuple[FormerGang, ...] = ()
    prewarm: PrewarmFacts | None = None
    left_alone: Problem | None = None

    @cached_property
    def spec(self) -> SetSpec:
        return SetSpec.of(self.lws)

    @property
    def node_losses(self) -> NodeLosses:
        return NodeLosses(self.terminating_pods, self.nodes, self.now, self.policies.node_loss)

    @property
    def owner(self) -> ChildOwner:
        return child_owner(
            self.lws,
            owner_reference(self.lws),
            is_alive=may_adopt(self.lws, self.set_read_live),
            adoption="the {kind} of the set has no owner",
            until_alive="the set to be seen alive before it adopts anything",
        )


def child_owner(
    lws: Object, owner_reference: Object, is_alive: bool, adoption: str, until_alive: str = ""
) -> ChildOwner:
    """Return the owner of children of the set, or of one of its groups (see `ChildOwner`)."""
    return ChildOwner(KIND, name_of(lws), owner_reference, is_alive, adoption, until_alive)
