"""What one pass over a LeaderWorkerSet knows: every fact that its plan may use, read at one instant.

Gathered by `lws.leaderworkerset.observe.observer` for `plan`, `rollout`, `revisions` and `status`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from lws.kube.conditions import Obstruction
from lws.kube.metadata import annotations_of, is_terminating, labels_of, owner_reference, uid_of
from lws.kube.nodes import NodeLossPolicy
from lws.kube.ownership import may_adopt
from lws.kube.pods import NodeWait, is_ready, is_running
from lws.kube.quantities import whole_number
from lws.kube.statefulsets import is_settled, is_short, wanted_replicas
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.revisions.recovery import Running
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object
from lws.runtime.children import Owner
from lws_api.leaderworkerset.v1 import KIND, REVISION_LABEL, SIZE_ANNOTATION


# No slots: what is read off a group is kept with it. Of a thousand groups few change between two passes.
@dataclass(frozen=True)
class GroupFacts:
    """One group as its leader pod and worker StatefulSet show it.

    index: ordinal of the leader pod, 0-based.
    leader: the leader pod, controlled by the leader StatefulSet; its revision label says what it was made
    from, whatever that was edited to.
    workers: the worker StatefulSet, only if *this* leader pod (by UID) controls it.
    obstacle: a StatefulSet, or a Service where the group needs one, that has the leader's name and belongs to
    somebody else who lives, or to nobody.
    worker_uids: UIDs of the ready pods that `workers` controls, those left out that are being deleted.
    going: another pass is deleting the leader at this moment.
    waits: of its pods, for a node.
    """

    index: int
    leader: Object
    workers: Object | None = None
    obstacle: Object | None = None
    worker_uids: tuple[str, ...] = ()
    going: bool = False
    waits: tuple[NodeWait, ...] = ()

    @cached_property
    def uid(self) -> str:
        """Of the leader."""
        return uid_of(self.leader)

    @cached_property
    def created(self) -> str:
        """When the leader was, as the API server writes it; empty where nothing says it."""
        return self.leader["metadata"].get("creationTimestamp") or ""

    @cached_property
    def judged(self) -> dict[Hashable, Any]:
        """What was decided about the group, by what it was measured by. For who decides it to keep there."""
        return {}

    @cached_property
    def leader_terminating(self) -> bool:
        """The deletion of the leader is accepted, no matter who asked for it."""
        return is_terminating(self.leader)

    @cached_property
    def leader_up(self) -> bool:
        """The leader is Running and Ready."""
        return is_running(self.leader) and is_ready(self.leader)

    @cached_property
    def leader_key(self) -> str | None:
        """Revision key of the leader, None where nothing shows it."""
        return labels_of(self.leader).get(REVISION_LABEL)

    @cached_property
    def worker_key(self) -> str | None:
        """Revision key of the worker StatefulSet, None without one too."""
        return key_of_template(self.workers) if self.workers is not None else None

    @cached_property
    def workers_settled(self) -> bool:
        """There is a worker StatefulSet, and its controller has all pods available on one revision."""
        return self.workers is not None and is_settled(self.workers)

    @cached_property
    def workers_short(self) -> bool:
        """There is a worker StatefulSet, and its controller has not made all of its pods."""
        return self.workers is not None and is_short(self.workers)

    @cached_property
    def lacks_start_ordinal(self) -> bool:
        """Its workers would be numbered like leaders."""
        return self.workers is not None and "start" not in (self.workers["spec"].get("ordinals") or {})

    @cached_property
    def is_complete(self) -> bool:
        """Every worker pod of the group is there and ready, and none besides: its StatefulSet may have been
        scaled by hand.
        """
        size = whole_number(annotations_of(self.leader).get(SIZE_ANNOTATION))
        asked = wanted_replicas(self.workers) if self.workers is not None else 0
        return len(self.worker_uids) == asked and size in (None, asked + 1)


# No slots: the spec is read once.
@dataclass(frozen=True)
class SetSnapshot:
    """A LeaderWorkerSet and what belongs to it.

    leader: the StatefulSet that has the name of the set, regardless of owner.
    service: the Service that has the name of the set, regardless of owner.
    leader_service: the Service that has the name which that of the leaders would have, regardless of owner.
    disruption_budget: the PodDisruptionBudget that has the name of the set, regardless of owner.
    groups: leader pods that the leader StatefulSet controls, by index, terminating ones included.
    revisions: recorded revisions that the set owns or may adopt.
    live_keys: keys that pods or StatefulSets of the set still carry, or come back with.
    knows_live_keys: False where the leader StatefulSet reports a revision of its own that the store does not
    have: leaders may come back with another key then.
    taken: ControllerRevisions of others that have names which ours were to get.
    unrecorded: what runs under keys that no revision records, as reads past every cache found it.
    claims: PersistentVolumeClaims that carry the name of the set, regardless of owner; none where the set has
    no claim templates.
    owners_alive: UIDs of other controllers of `leader`, the Services and `disruption_budget` that were found
    alive.
    reread: the set as a read past every cache returned it, only where an orphan could be adopted.
    applied: digest of the last intent for the leader StatefulSet, with the generation that it led to.
    drops_start_ordinal: the API server was just seen to drop `spec.ordinals.start`.
    obstructions: what the API server refuses, to us or to the controller of its StatefulSets. look_again:
    seconds until there may be more to know about that. refused_at: when a pod was last refused to a
    StatefulSet that is short of pods, by its UID. leaders_refused: whether the API server refused lately what
    the leader StatefulSet was to be told.
    leaving: pods of the set, and former ones of the same names, that are being deleted and wait for their
    kubelet.
    nodes: those of overdue `leaving` pods, as reads past every cache found them; None for one that is gone.
    is_covered: the pod webhook sees pods of the namespace; where it does not, nothing else was read.
    fault: why the spec cannot be read; then nothing else is known. Empty where it can.
    """

    lws: Object
    now: datetime
    leader: Object | None = None
    service: Object | None = None
    leader_service: Object | None = None
    disruption_budget: Object | None = None
    groups: tuple[GroupFacts, ...] = ()
    revisions: tuple[Recorded, ...] = ()
    live_keys: frozenset[str] = frozenset()
    knows_live_keys: bool = True
    taken: tuple[Object, ...] = ()
    unrecorded: tuple[Running, ...] = ()
    claims: tuple[Object, ...] = ()
    owners_alive: frozenset[str] = frozenset()
    reread: Object | None = None
    applied: tuple[str, int] | None = None
    drops_start_ordinal: bool = False
    obstructions: tuple[Obstruction, ...] = ()
    look_again: float | None = None
    refused_at: Mapping[str, datetime] = field(default_factory=dict)
    leaders_refused: bool = False
    leaving: tuple[Object, ...] = ()
    nodes: Mapping[str, Object | None] = field(default_factory=dict)
    node_loss: NodeLossPolicy = field(default_factory=NodeLossPolicy)
    is_covered: bool = True
    fault: str = ""

    @cached_property
    def spec(self) -> SetSpec:
        """What the set asks for."""
        return SetSpec.of(self.lws)

    @property
    def owner(self) -> Owner:
        """The set as the owner of its children."""
        return Owner(
            KIND,
            self.lws["metadata"]["name"],
            owner_reference(self.lws),
            self.is_set_alive,
            adoption="the {kind} of the set has no owner",
            until_alive="the set to be seen alive before it adopts anything",
        )

    @property
    def is_set_alive(self) -> bool:
        """The set was read past every cache and is not going: only then may it adopt."""
        return may_adopt(self.lws, self.reread)
