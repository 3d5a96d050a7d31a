"""Input, output and sums of the decision about one step of a slice: numbers of groups, no objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lws.leaderworkerset.rollout.state import counted


@dataclass(frozen=True, slots=True)
class Count:
    """The groups of one child.

    wanted: its `spec.replicas`. present: `max(spec.replicas, status.replicas)`, terminating groups included.
    ready: those that are ready. is_settled: its controller has acted on `wanted`, and all of these are ready.
    initial: `wanted` when the rollout to the present target began; None if unknown.
    broken_on_top: how many groups in a row, from the highest index of `wanted` down, are not ready: lowering
    the child by so many takes nothing from anybody.
    starting: those of `wanted` that are not ready yet and may be so any moment. failed_on_top: how many of
    `broken_on_top`, in a row from the top, are not among them. is_lost: there is no such child, and it is to
    come back as it is described here. lingering: what is left of the groups of a lost one.
    """

    wanted: int
    present: int
    ready: int
    is_settled: bool
    initial: int | None = None
    broken_on_top: int = 0
    starting: int = 0
    failed_on_top: int = 0
    is_lost: bool = False
    lingering: int = 0

    @property
    def given_up(self) -> Count:
        """The same child where it is lost and does not come back."""
        return Count(0, self.lingering, 0, True, self.initial)

    @property
    def hoped(self) -> Count:
        """The same child as it is when the groups that are starting have become ready."""
        if not self.starting:
            return self
        return replace(self, ready=self.ready + self.starting, broken_on_top=self.failed_on_top, starting=0)

    @property
    def serving(self) -> int:
        """The ready groups that `wanted` leaves in place for certain: the highest indices go first."""
        if self.is_settled:
            return self.wanted
        return min(self.wanted, max(0, self.ready - max(0, self.present - self.wanted)))

    def cost(self, wanted: int) -> int:
        """Maximum number of ready groups lost by lowering the child to `wanted`."""
        return max(0, min(self.wanted - wanted - self.broken_on_top, self._most_ready))

    def lowest(self, cost: int) -> int:
        """The lowest count that takes at most so many ready groups."""
        return 0 if self._most_ready <= cost else max(0, self.wanted - self.broken_on_top - cost)

    @property
    def _most_ready(self) -> int:
        return self.wanted if self.is_settled else min(self.wanted, self.ready)


NOTHING = Count(wanted=0, present=0, ready=0, is_settled=True, initial=0)
"""The count of a child that there is not."""


@dataclass(frozen=True, slots=True)
class RevisionCounts:
    """The children of one revision, by role."""

    key: str
    counts: Mapping[str, Count] = field(default_factory=dict)

    def of(self, role: str) -> Count:
        return self.counts.get(role, NOTHING)


@dataclass(frozen=True, slots=True)
class RoleTarget:
    """The target of one role; 0 groups for a role that only old revisions have.

    at_start: its target when the rollout to the present revision began; None if unknown.
    """

    name: str
    target: int
    surge: int = 1
    unavailable: int = 0
    is_external: bool = False
    at_start: int | None = None

    @property
    def ceiling(self) -> int:
        """More groups than this are never brought about."""
        return self.target + self.surge


@dataclass(frozen=True, slots=True)
class SliceState:
    """One slice. roles: those of the spec in their order, then removed ones. old: newest first.

    missing: roles of the spec whose child of the target revision there is not. gone: role → groups that were
    wanted when the rollout began of children that there are no more. leftover: role → groups that such
    children have left although they do not come back.
    """

    roles: tuple[RoleTarget, ...]
    old: tuple[RevisionCounts, ...]
    new: RevisionCounts
    missing: frozenset[str] = frozenset()
    gone: Mapping[str, int] = field(default_factory=dict)
    leftover: Mapping[str, int] = field(default_factory=dict)

    def old_wanted(self, role: str) -> int:
        """Desired groups of the role, over all old revisions."""
        return sum(revision.of(role).wanted for revision in self.old)

    def old_initial(self, role: str) -> int:
        """The same when the rollout began; unknown baselines count as now."""
        counts = (revision.of(role) for revision in self.old)
        return sum(count.wanted if count.initial is None else count.initial for count in counts)

    def present(self, role: str) -> int:
        """Its groups over all revisions, those that terminate included."""
        return self.old_present(role) + self.new.of(role).present

    def old_present(self, role: str) -> int:
        """Existing groups without the target revision; those of deleted children are included."""
        return sum(revision.of(role).present for revision in self.old) + self.leftover.get(role, 0)

    def serving(self, role: str) -> int:
        """Its ready groups over all revisions."""
        return sum(each.of(role).serving for each in (*self.old, self.new))

    def old_starting(self, role: str) -> int:
        """Its groups of old revisions that may be ready any moment."""
        return sum(revision.of(role).starting for revision in self.old)

    def hoped(self, role: str) -> int:
        """Its ready groups once those of old revisions that are starting are ready too."""
        return sum(revision.of(role).hoped.serving for revision in self.old) + self.new.of(role).serving

    @property
    def is_known(self) -> bool:
        """Whether every old child has a baseline."""
        return all(count.initial is not None for revision in self.old for count in revision.counts.values())

    def floor(self, role: RoleTarget) -> int:
        """Ready groups that a rollout leaves: those at its start, at most the target, minus the budget.

        The start counts the target revision too, where it had groups already (a change that was taken back),
        and revisions that have gone since.
        If that is unknown, it had none; before the rollout begins, it has the present ones.
        """
        new = self.new.of(role.name)
        unknown = 0 if self.is_known else new.wanted
        start = self.old_initial(role.name) + (unknown if new.initial is None else new.initial)
        start += self.gone.get(role.name, 0)
        return min(start, role.target) - role.unavailable


@dataclass(frozen=True, slots=True)
class SliceStep:
    """The writes of a step, in order: baselines, creations, raised counts, lowered counts, deletions.

    new: role → `spec.replicas` of the target revision, what changes only; a missing child is created with it.
    old: key → role → `spec.replicas`, what changes only. starts: the baselines of all children are remembered
    first. goes_on: what is left of the step follows as soon as the groups taken away are gone.
    drained: keys of old revisions that have no group any more. is_done: nothing is left to do.
    waiting_for: what has to happen before the next step, with the role, in words; empty where nothing has to.
    """

    new: Mapping[str, int] = field(default_factory=dict)
    old: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    starts: bool = False
    goes_on: bool = False
    drained: tuple[str, ...] = ()
    is_done: bool = False
    waiting_for: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written."""
        return not (self.new or self.old or self.starts or self.drained)


# --- Describe what a slice waits for, naming the role; empty if it waits for nothing.


PAUSED = "the rollout is paused"


def still_waiting_for(state: SliceState) -> str:
    """Why there is no step now."""
    return unready(state) or _terminating(state) or _starting(state) or _blocked(state)


def unready(state: SliceState) -> str:
    """The first role of the target revision that has groups which are not ready."""
    for role in state.roles:
        count = state.new.of(role.name)
        if role.name in state.missing:
            return f"role {role.name}: there is no LeaderWorkerSet of the target revision yet"
        if not count.is_settled:
            ready = min(count.ready, count.wanted)
            if ready == count.wanted:
                return f"role {role.name}: its LeaderWorkerSet has yet to act on its count of groups"
            return f"role {role.name}: {ready} of {count.wanted} groups of the target revision are ready"
    return ""


def _terminating(state: SliceState) -> str:
    for role in state.roles:
        surplus = sum(
            max(0, revision.of(role.name).present - revision.of(role.name).wanted) for revision in state.old
        )
        surplus += state.leftover.get(role.name, 0)
        if surplus:
            return f"role {role.name}: {surplus} old groups are still terminating"
    return ""


def _starting(state: SliceState) -> str:
    for role in state.roles:
        if count := state.old_starting(role.name):
            return f"role {role.name}: {count} old groups are still starting"
    return ""


def _blocked(state: SliceState) -> str:
    for role in state.roles:
        serving, floor = state.serving(role.name), state.floor(role)
        if state.old_wanted(role.name) and serving <= floor:
            return f"role {role.name}: {serving} groups are ready, and {floor} have to stay so"
    for role in state.roles:
        if state.old_wanted(role.name):
            return f"role {role.name}: old groups leave no room for new ones"
    return ""


# --- Describe which groups a change of a DisaggregatedSet restarts, for commands and webhook alike.


def restarts(groups: Mapping[str, int], is_paused: bool, is_under_way: bool = False) -> str:
    """How many of each role restart, and how: "5 groups (prefill 2, decode 3) restart, by a rollout of all
    roles in step"; empty for none. is_under_way: by a rollout that has begun before the change.
    """
    if not groups:
        return ""
    said = f"{of_roles(groups)} {'restarts' if sum(groups.values()) == 1 else 'restart'}"
    if is_paused:
        return f"{said} once the rollout is resumed"
    return (
        f"{said} anyway: a rollout is under way"
        if is_under_way
        else f"{said}, by a rollout of all roles in step"
    )


def of_roles(groups: Mapping[str, int]) -> str:
    """`5 groups (prefill 2, decode 3)`."""
    return f"{counted(sum(groups.values()))} ({', '.join(f'{role} {n}' for role, n in groups.items())})"
