"""The snapshot of a pass over a DisaggregatedSet: frozen facts about the set and its objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from lws.disaggregatedset.revisions.record import RecordedRoles
from lws.kube.conditions import Rejection
from lws.kube.metadata import is_terminating, owner_reference
from lws.kube.ownership import may_adopt
from lws.kube.pods import NodeWait
from lws.leaderworkerset import fields
from lws.runtime.actions import Object
from lws.runtime.children import ChildOwner
from lws_api.disaggregatedset.v1 import KIND


@dataclass(frozen=True)
class ChildFacts:
    """One LeaderWorkerSet of a DisaggregatedSet, identified by its name.

    is_legacy: whether upstream's release 0.9 created it, which put no slice into names.
    existing: the number of groups, terminating ones included. With groupIdentity Hash, the child's status
      leaves these out.
    with_pods: with groupIdentity Hash, the number of groups that run, terminate or may still be created,
      groups of a former child of the same name included; otherwise 0.
    ready: the number of serving groups.
    is_settled: whether its controller has observed `spec.replicas` and all groups are ready.
    broken_on_top: the number of consecutive groups, from the highest desired index down, that do not serve.
    starting: the number of desired groups that do not serve yet but may soon.
    failed_on_top: the number of consecutive groups of `broken_on_top`, from the top, that are not starting.
    judged_in: seconds until the first starting group exceeds its start time; None if no group is starting.
    waits: the waits for a node of pods in desired groups that do not serve.
    template_hash: the hash of its template, which is that of its role; empty if unknown.

    Properties computed from `obj` are cached, because a pass reads each of them about twenty times.
    """

    obj: Object
    role: str
    slice_index: int
    key: str
    is_legacy: bool = False
    existing: int = 0
    with_pods: int = 0
    ready: int = 0
    is_settled: bool = False
    broken_on_top: int = 0
    starting: int = 0
    failed_on_top: int = 0
    judged_in: float | None = None
    waits: tuple[NodeWait, ...] = ()
    template_hash: str = ""

    @cached_property
    def name(self) -> str:
        name: str = self.obj["metadata"]["name"]
        return name

    @cached_property
    def desired(self) -> int:
        """The number of desired groups; 0 while the LeaderWorkerSet is terminating."""
        return 0 if self.is_terminating else fields.REPLICAS.effective_in(self.obj)

    @property
    def present(self) -> int:
        """The number of desired or of existing groups, whichever is greater; terminating ones included."""
        return max(self.desired, self.existing, self.with_pods)

    @cached_property
    def is_terminating(self) -> bool:
        return is_terminating(self.obj)


@dataclass(frozen=True)
class DisaggregatedSnapshot:
    """A DisaggregatedSet and its objects.

    children, services, scalers: the objects that the set controls.
    unreadable: name of a LeaderWorkerSet whose spec cannot be read → reason.
    orphans: LeaderWorkerSets without a controller that have the name and the label of a child.
    strangers: objects of other owners that have names of the set's objects, by kind and name.
    revisions: ControllerRevisions that the set controls or may adopt.
    taken_revisions: ControllerRevisions of other owners that have names of the set's revisions.
    lingering: name of a deleted child in the status → number of its groups that the garbage collector
      deletes.
    orphaned: name of a deleted child in the status → number of its groups that stay until the next child of
      the same name adopts them.
    owners_alive: UIDs of existing controllers of `strangers`.
    set_read_live: the set from a live read; None unless something is to be created or adopted.
    rejections: writes that the API server rejected.
    fault: why the spec cannot be read, in which case all other facts are missing; empty if it can.
    """

    obj: Object
    now: datetime
    children: tuple[ChildFacts, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    orphans: tuple[Object, ...] = ()
    services: tuple[Object, ...] = ()
    scalers: tuple[Object, ...] = ()
    strangers: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    revisions: tuple[RecordedRoles, ...] = ()
    taken_revisions: tuple[Object, ...] = ()
    lingering: Mapping[str, int] = field(default_factory=dict)
    orphaned: Mapping[str, int] = field(default_factory=dict)
    owners_alive: frozenset[str] = frozenset()
    set_read_live: Object | None = None
    rejections: tuple[Rejection, ...] = ()
    fault: str = ""

    @cached_property
    def owner(self) -> ChildOwner:
        """The set as the owner of its objects."""
        return ChildOwner(
            KIND,
            self.obj["metadata"]["name"],
            owner_reference(self.obj, blocks_deletion=False),
            may_adopt(self.obj, self.set_read_live),
            adoption="the {kind} of the set has no owner",
            until_alive="the set to be seen alive before it adopts anything",
        )

    def of_slice(self, index: int) -> tuple[ChildFacts, ...]:
        return self._by_slice.get(index, ())

    @cached_property
    def _by_slice(self) -> Mapping[int, tuple[ChildFacts, ...]]:
        by_slice: dict[int, list[ChildFacts]] = {}
        for child in self.children:
            by_slice.setdefault(child.slice_index, []).append(child)
        return {index: tuple(children) for index, children in by_slice.items()}
