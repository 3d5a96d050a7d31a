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
    """One LeaderWorkerSet of a set, identified by its name. is_legacy: created by upstream's release 0.9,
    without a slice in its name.

    existing: number of groups, including terminating ones. ready: serving groups. is_settled: its controller
    has observed `spec.replicas`, and all groups are ready. broken_on_top: number of consecutive groups, from
    the highest desired index down, that do not serve. starting: desired groups that do not serve yet but may
    soon. failed_on_top: number of consecutive groups of `broken_on_top`, from the top, that are not starting.
    judged_in: seconds until the time of a starting group is over; None if there is none. waits: of pods for a
    node, in desired groups that do not serve.

    Properties of `obj` are cached: a pass reads each twenty times.
    """

    obj: Object
    role: str
    slice_index: int
    key: str
    is_legacy: bool = False
    existing: int = 0
    ready: int = 0
    is_settled: bool = False
    broken_on_top: int = 0
    starting: int = 0
    failed_on_top: int = 0
    judged_in: float | None = None
    waits: tuple[NodeWait, ...] = ()

    @cached_property
    def name(self) -> str:
        name: str = self.obj["metadata"]["name"]
        return name

    @cached_property
    def desired(self) -> int:
        """Desired groups; 0 once it is terminating."""
        return 0 if self.is_terminating else fields.REPLICAS.in_effect(self.obj)

    @property
    def present(self) -> int:
        """The greater number of desired and existing groups."""
        return max(self.desired, self.existing)

    @cached_property
    def is_terminating(self) -> bool:
        return is_terminating(self.obj)


@dataclass(frozen=True)
class DisaggregatedSnapshot:
    """A DisaggregatedSet and its objects.

    children, services, scalers: those that the set controls. unreadable: its LeaderWorkerSets whose spec
    cannot be read: name → reason. orphans: LeaderWorkerSets without controller, with the name and label of a
    child. strangers: objects of other owners that have names of the set's objects, by kind and name.
    revisions: those that it controls or may adopt. taken: ControllerRevisions of other owners that have names
    for its revisions. lingering: name of a deleted child in the status → number of its groups that the
    garbage collector deletes. orphaned: the same for groups that stay, to be adopted by the next child of the
    name. owners_alive: UIDs of existing controllers of `strangers`. reread: the set from a live read, only if
    something is to be created or adopted. rejections: rejected writes. fault: why the spec cannot be read,
    then other facts are missing; empty if it can.
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
    taken: tuple[Object, ...] = ()
    lingering: Mapping[str, int] = field(default_factory=dict)
    orphaned: Mapping[str, int] = field(default_factory=dict)
    owners_alive: frozenset[str] = frozenset()
    reread: Object | None = None
    rejections: tuple[Rejection, ...] = ()
    fault: str = ""

    @cached_property
    def owner(self) -> ChildOwner:
        """The set as the owner of its objects."""
        return ChildOwner(
            KIND,
            self.obj["metadata"]["name"],
            owner_reference(self.obj, blocks_deletion=False),
            may_adopt(self.obj, self.reread),
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
