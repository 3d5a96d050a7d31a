"""What one pass over a DisaggregatedSet knows: the set and its children, at one moment.

In: nothing. Out: frozen facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from lws.disaggregatedset.revisions.record import RecordedRoles
from lws.kube.conditions import Obstruction
from lws.kube.metadata import is_terminating, owner_reference
from lws.kube.ownership import may_adopt
from lws.kube.pods import NodeWait
from lws.leaderworkerset import fields
from lws.leaderworkerset.fields import Field
from lws.runtime.actions import Object
from lws.runtime.children import Owner
from lws_api.disaggregatedset.v1 import KIND


@dataclass(frozen=True)
class ChildFacts:
    """One LeaderWorkerSet of a set; its name says which. is_legacy: it was made by release 0.9 of the
    original and has no slice in its name.

    existing: groups that are there; those that end count too. ready: groups that serve. is_settled: its
    controller has acted on what it wants, and all of that is ready. broken_on_top: how many groups in a row,
    from the highest index that it wants down, do not serve. starting: those that it wants, do not serve, and
    may any moment. failed_on_top: how many of `broken_on_top`, in a row from the top, are not among them.
    judged_in: seconds until one that is starting has had its time; None where none is. waits: for a node, of
    pods of groups that it wants and that do not serve.

    What is read off `obj` is kept: a pass asks each twenty times.
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
        """Its name."""
        name: str = self.obj["metadata"]["name"]
        return name

    @cached_property
    def wanted(self) -> int:
        """Groups that it wants; none once it is being deleted."""
        return 0 if self.is_leaving else number_of(self.obj, fields.REPLICAS)

    @property
    def present(self) -> int:
        """Groups that it wants, or that are there, whichever are more."""
        return max(self.wanted, self.existing)

    @cached_property
    def is_leaving(self) -> bool:
        """It is being deleted."""
        return is_terminating(self.obj)


@dataclass(frozen=True)
class DisaggregatedSnapshot:
    """A DisaggregatedSet and its objects.

    children, services, scalers: those that the set controls. unreadable: its LeaderWorkerSets of whose spec
    nothing can be told, by name, with why. orphans: LeaderWorkerSets that nobody controls,
    with the name and the label of a child. strangers: what has a name that the set gives, and is not its own,
    by kind and name. revisions: recorded ones that it controls or may adopt. taken: ControllerRevisions of
    others that have names which its own were to get. lingering: groups that are left of children which
    somebody has deleted and that go after them, by name of the child, as far as the status remembers those.
    orphaned: the same of those that stay, for the next child of the name to take over.
    owners_alive: UIDs of controllers of `strangers` that live. reread: the set as a read past every cache
    returned it, only where something is to be made or adopted. obstructions: what the API server refuses.
    fault: why the spec cannot be read; then nothing else is known. Empty where it can.
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
    obstructions: tuple[Obstruction, ...] = ()
    fault: str = ""

    @cached_property
    def owner(self) -> Owner:
        """The set as the owner of its objects."""
        return Owner(
            KIND,
            self.obj["metadata"]["name"],
            owner_reference(self.obj, blocks_deletion=False),
            may_adopt(self.obj, self.reread),
            adoption="the {kind} of the set has no owner",
            until_alive="the set to be seen alive before it adopts anything",
        )

    def of_slice(self, index: int) -> tuple[ChildFacts, ...]:
        """The children of one slice."""
        return self._by_slice.get(index, ())

    @cached_property
    def _by_slice(self) -> Mapping[int, tuple[ChildFacts, ...]]:
        found: dict[int, list[ChildFacts]] = {}
        for child in self.children:
            found.setdefault(child.slice_index, []).append(child)
        return {index: tuple(children) for index, children in found.items()}


def number_of(child: Object, of: Field) -> int:
    """A numeric field of a child, or its default."""
    value = of.of(child)
    return int(of.default if value is None else value)
