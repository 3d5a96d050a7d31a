"""The input and the output of the decision about one step of a slice, as numbers of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lws.leaderworkerset.rollout.state import format_count


@dataclass(frozen=True, slots=True)
class Count:
    """The groups of one child.

    desired: `spec.replicas`.
    present: desired or existing groups, whichever are more; terminating groups included.
    is_settled: whether its controller has observed `desired` and all groups are ready.
    initial: `desired` when the rollout to the current target began; None if unknown.
    broken_on_top: the number of consecutive groups, from the highest index down, that are not ready. Lowering
      the child by this number costs no ready group.
    starting: the number of groups that are not ready yet but may be soon.
    failed_on_top: the number of consecutive groups of `broken_on_top`, from the top, that are not starting.
    is_lost: whether the child was deleted and is to be recreated with these counts.
    lingering: the number of remaining groups of a deleted child.
    """

    desired: int
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
    def abandoned(self) -> Count:
        """The same child, deleted and not to be recreated."""
        return Count(0, self.lingering, 0, True, self.initial)

    @property
    def once_started(self) -> Count:
        """The same child once its starting groups are ready."""
        if not self.starting:
            return self
        return replace(self, ready=self.ready + self.starting, broken_on_top=self.failed_on_top, starting=0)

    @property
    def serving(self) -> int:
        """The number of ready groups that surely remain: the highest indices are deleted first."""
        if self.is_settled:
            return self.desired
        return min(self.desired, max(0, self.ready - max(0, self.present - self.desired)))

    def cost(self, desired: int) -> int:
        """Return the maximum number of ready groups lost by lowering the child to `desired`."""
        return max(0, min(self.desired - desired - self.broken_on_top, self._most_ready))

    def lowest(self, cost: int) -> int:
        """Return the lowest count to which lowering the child costs at most `cost` ready groups."""
        return 0 if self._most_ready <= cost else max(0, self.desired - self.broken_on_top - cost)

    @property
    def _most_ready(self) -> int:
        return self.desired if self.is_settled else min(self.desired, self.ready)


NOTHING = Count(desired=0, present=0, ready=0, is_settled=True, initial=0)
"""The count of a child that does not exist."""


@dataclass(frozen=True, slots=True)
class RevisionCounts:
    """The children of one revision, by role."""

    key: str
    counts: Mapping[str, Count] = field(default_factory=dict)

    def of(self, role: str) -> Count:
        return self.counts.get(role, NOTHING)


@dataclass(frozen=True, slots=True)
class RoleTarget:
    """The target of one role; 0 groups for a removed role.

    at_start: its target when the rollout to the target revision began; None if unknown.
    """

    name: str
    target: int
    surge: int = 1
    unavailable: int = 0
    is_external: bool = False
    at_start: int | None = None

    @property
    def ceiling(self) -> int:
        """The maximum number of groups, surge included."""
        return self.target + self.surge


@dataclass(frozen=True, slots=True)
class SliceState:
    """The state of one slice.

    roles: the roles of the spec in their order, then removed roles.
    old: the old revisions, newest first.
    missing: the roles of the spec that have no child of the target revision.
    deleted: role → initial groups of children that were deleted since the rollout began.
    leftover: role → remaining groups of deleted children that are not recreated.
    """

    roles: tuple[RoleTarget, ...]
    old: tuple[RevisionCounts, ...]
    new: RevisionCounts
    missing: frozenset[str] = frozenset()
    deleted: Mapping[str, int] = field(default_factory=dict)
    leftover: Mapping[str, int] = field(default_factory=dict)

    def old_desired(self, role: str) -> int:
        """Count the desired groups of the role over all old revisions."""
        return sum(revision.of(role).desired for revision in self.old)

    def old_initial(self, role: str) -> int:
        """Count the role's old groups when the rollout began; without a record, a child's current number."""
        counts = (revision.of(role) for revision in self.old)
        return sum(count.desired if count.initial is None else count.initial for count in counts)

    def present(self, role: str) -> int:
        """Count the groups of the role over all revisions, terminating groups included."""
        return self.old_present(role) + self.new.of(role).present

    def old_present(self, role: str) -> int:
        """Count the groups of the role on old revisions, including groups of deleted children."""
        return sum(revision.of(role).present for revision in self.old) + self.leftover.get(role, 0)

    def serving(self, role: str) -> int:
        """Count the ready groups of the role over all revisions."""
        return sum(revision.of(role).serving for revision in (*self.old, self.new))

    def old_starting(self, role: str) -> int:
        """Count the starting groups of the role on old revisions."""
        return sum(revision.of(role).starting for revision in self.old)

    def once_started(self, role: str) -> int:
        """Count the ready groups that the role will have once its starting old groups are ready."""
        return (
            sum(revision.of(role).once_started.serving for revision in self.old) + self.new.of(role).serving
        )

    @property
    def is_known(self) -> bool:
        """Whether every old child has a baseline."""
        return all(count.initial is not None for revision in self.old for count in revision.counts.values())

    def min_ready(self, role: RoleTarget) -> int:
        """Return the minimum of ready groups during a rollout: the groups at its start, at most the target,
        minus maxUnavailable.

        The groups at the start include groups of the target revision (a reverted change) and of revisions
        that were deleted since. A child of the target revision without a baseline counts as 0 groups; before
        the rollout begins, it counts with its current number.
        """
        new = self.new.of(role.name)
        unknown = 0 if self.is_known else new.desired
        start = self.old_initial(role.name) + (unknown if new.initial is None else new.initial)
        start += self.deleted.get(role.name, 0)
        return min(start, role.target) - role.unavailable


@dataclass(frozen=True, slots=True)
class SliceStep:
    """The writes of a step, in this order: baselines, creates, raised counts, lowered counts, deletes.

    new: role → changed `spec.replicas` of the target revision; a missing child is created with this count.
    old: key → role → changed `spec.replicas`.
    starts: whether the baselines of all children are recorded first.
    goes_on: whether the rest of the step follows as soon as groups are deleted.
    drained: the keys of old revisions without groups.
    is_done: whether the rollout is complete.
    waiting_for: what the next step waits for, with the role, in words; may be empty.
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
        return not (self.new or self.old or self.starts or self.drained)


# --- Describe what a slice waits for, with the role; the text is empty if the slice does not wait.


PAUSED = "the rollout is paused"


def still_waiting_for(state: SliceState) -> str:
    """Explain why there is no step now."""
    return unready(state) or _terminating(state) or _starting(state) or _blocked(state)


def unready(state: SliceState) -> str:
    """Describe the first role of the target revision that has groups which are not ready."""
    for role in state.roles:
        count = state.new.of(role.name)
        if role.name in state.missing:
            return f"role {role.name}: there is no LeaderWorkerSet of the target revision yet"
        if not count.is_settled:
            ready = min(count.ready, count.desired)
            if ready == count.desired:
                return f"role {role.name}: its LeaderWorkerSet has yet to act on its count of groups"
            return f"role {role.name}: {ready} of {count.desired} groups of the target revision are ready"
    return ""


def _terminating(state: SliceState) -> str:
    for role in state.roles:
        surplus = sum(
            max(0, revision.of(role.name).present - revision.of(role.name).desired) for revision in state.old
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
        serving, min_ready = state.serving(role.name), state.min_ready(role)
        if state.old_desired(role.name) and serving <= min_ready:
            return f"role {role.name}: {serving} groups are ready, and {min_ready} have to stay so"
    for role in state.roles:
        if state.old_desired(role.name):
            return f"role {role.name}: old groups leave no room for new ones"
    return ""


# --- Describe which groups a change of a DisaggregatedSet restarts, for commands and the webhook.


def restarts(groups: Mapping[str, int], is_paused: bool, is_under_way: bool = False) -> str:
    """Describe restarted groups: `5 groups (prefill 2, decode 3) restart, by a rollout of all roles in step`.

    The text is empty without groups. `is_under_way` says that a rollout which began before restarts them.
    """
    if not groups:
        return ""
    clause = f"{of_roles(groups)} {'restarts' if sum(groups.values()) == 1 else 'restart'}"
    if is_paused:
        return f"{clause} once the rollout is resumed"
    return (
        f"{clause} anyway: a rollout is under way"
        if is_under_way
        else f"{clause}, by a rollout of all roles in step"
    )


def of_roles(groups: Mapping[str, int]) -> str:
    """Describe groups by role, for example `5 groups (prefill 2, decode 3)`."""
    return f"{format_count(sum(groups.values()))} ({', '.join(f'{role} {n}' for role, n in groups.items())})"
