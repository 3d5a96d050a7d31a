"""Input, output and counts of the decision about a rollout.

In: the state of every group, the position that the leader StatefulSet keeps, and the budget. The decision
itself is made in `plan`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from lws.leaderworkerset.rollout.groups import GroupState, LeaderStatefulSet
from lws.leaderworkerset.spec import SetSpec


@dataclass(frozen=True, slots=True)
class Budget:
    """Groups, as whole numbers: how many of `replicas` may be missing, how many may come on top."""

    unavailable: int
    surge: int


# No slots: what is counted is counted once.
@dataclass(frozen=True)
class RolloutState:
    """All that a rollout is decided from.

    replicas: groups that the user wants. floor: groups below this index keep their revision. groups: all that
    have a leader pod, in any order. statefulset: None where there is none yet. paused: no group may move.
    reached: the partition that the rollout to the target revision had reached, should the StatefulSet not
    know it; None where it had not begun. is_refused: the API server has lately refused what the StatefulSet
    was to be told. stays: no further step is taken, and no surge given back, at this moment.
    """

    replicas: int
    budget: Budget
    floor: int = 0
    groups: tuple[GroupState, ...] = ()
    statefulset: LeaderStatefulSet | None = None
    paused: bool = False
    reached: int | None = None
    is_refused: bool = False
    stays: bool = False

    @cached_property
    def ready(self) -> frozenset[int]:
        """Groups that are ready, whether they are wanted or not."""
        return frozenset([group.index for group in self.groups if group.ready])

    @cached_property
    def settled(self) -> frozenset[int]:
        """Groups that are ready and on the target revision, whether they are wanted or not."""
        return frozenset([group.index for group in self.groups if group.settled])

    @cached_property
    def outdated(self) -> tuple[int, ...]:
        """Groups that the rollout replaces, in time."""
        wanted = range(self.floor, self.replicas)
        return tuple([group.index for group in self.groups if group.outdated and group.index in wanted])

    @property
    def pinned(self) -> tuple[int, ...]:
        """Outdated groups that keep their revision: the partition of the set is above them."""
        wanted = range(min(self.floor, self.replicas))
        return tuple(group.index for group in self.groups if group.outdated and group.index in wanted)


@dataclass(frozen=True, slots=True)
class Rollout:
    """What to tell the leader StatefulSet, and which leaders to replace before it is told.

    replace: indices of leaders to delete, highest first, in the foreground: old workers never meet a new
    leader.
    why: what changes and why, empty if nothing does.
    waiting_for: what has to happen before there is a next step, empty if nothing has to.
    """

    partition: int
    replicas: int
    replace: tuple[int, ...] = ()
    why: str = ""
    waiting_for: str = ""

    def within(self, stored: LeaderStatefulSet) -> Rollout:
        """The same, but of leaders only those that come back updated with nothing told to the StatefulSet."""
        covered = (index for index in self.replace if stored.is_current and index >= stored.partition)
        return replace(self, replace=tuple(covered))


def budget(replicas: int, max_unavailable: int, max_surge: int) -> Budget:
    """The budget of a set of `replicas` groups; both limits as scaled whole numbers ≥ 0."""
    surge = min(max_surge, replicas)
    if surge > 0:
        return Budget(min(max_unavailable, replicas - 1), surge)
    return Budget(max(1, max_unavailable), 0)


@dataclass(frozen=True)
class Moment:
    """A state in which there is a StatefulSet, and what is counted in it."""

    state: RolloutState
    stored: LeaderStatefulSet

    @property
    def wanted(self) -> int:
        """Groups that the user wants."""
        return self.state.replicas

    @property
    def must_stay(self) -> int:
        """Groups that the budget wants ready; may be negative."""
        return self.state.replicas - self.state.budget.unavailable

    @property
    def ceiling(self) -> int:
        """Most groups that may exist."""
        return self.state.replicas + self.state.budget.surge

    @cached_property
    def groups(self) -> Mapping[int, GroupState]:
        """Groups with a leader pod, by index."""
        return {group.index: group for group in self.state.groups}

    @property
    def is_at_rest(self) -> bool:
        """The StatefulSet has the target template, with no partition, and as many groups as are wanted."""
        stored = self.stored
        return stored.is_current and stored.partition == 0 and stored.replicas == self.wanted

    @property
    def is_sole_group_due(self) -> bool:
        """There is one group, nothing comes on top of it, and it goes now: no other is kept as it is."""
        state, stored = self.state, self.stored
        if (state.replicas, stored.replicas, state.budget.surge) != (1, 1, 0) or 0 not in self.groups:
            return False
        can_go = stored.observed and not state.is_refused and not self.groups[0].terminating
        return can_go and self.is_outdated(0)

    @cached_property
    def is_plain_scale_down(self) -> bool:
        """The groups on top are the user's own and not a surge, and no rollout needs them."""
        stored = self.stored
        is_users_own = stored.is_current and stored.last_replicas == stored.replicas > self.wanted
        return is_users_own and not self.state.outdated

    @cached_property
    def ready(self) -> int:
        """Ready groups among those that the StatefulSet is to have, surge included."""
        return self.stored.replicas - self.unready_below(self.stored.replicas)

    @cached_property
    def allowance(self) -> int:
        """How many healthy outdated groups may go now, those that the partition covers already included.

        What the budget leaves; and where broken outdated groups alone have used it up, and none of them can
        be replaced before a healthy one, still one.
        """
        spare = self.ready - self.must_stay
        return 1 if spare <= 0 and self._only_broken_groups_hold_up() else max(0, spare)

    def is_ready(self, index: int) -> bool:
        """The group exists and is ready."""
        return index in self.state.ready

    def is_settled(self, index: int) -> bool:
        """The group exists, is ready and on the target revision."""
        return index in self.state.settled

    def is_outdated(self, index: int) -> bool:
        """The group exists and is on another revision than the wanted one."""
        return index in self.groups and self.groups[index].outdated

    def is_broken(self, index: int) -> bool:
        """The group exists, is outdated and serves nobody: replacing it costs nothing."""
        return index in self.groups and self.groups[index].broken

    def is_serving_outdated(self, index: int) -> bool:
        """Replacing the group costs availability."""
        return index in self.groups and self.groups[index].serves_outdated

    def unready_below(self, end: int) -> int:
        """How many groups below this index are missing or not ready."""
        return end - len(self.state.ready.intersection(range(end)))

    def unsettled_among(self, indices: range) -> int:
        """How many of these groups are missing, not ready or on another revision."""
        return len(indices) - len(self.state.settled.intersection(indices))

    def is_any_outdated(self, end: int) -> bool:
        """Whether any group below this index is on another revision."""
        return any(group.outdated for index, group in self.groups.items() if index < end)

    @cached_property
    def risk_budget(self) -> int:
        """How many broken outdated groups may be tried on the new revision, besides those that the partition
        covers.

        All of them, unless a group that was replaced is not ready: then the new revision may be what is
        broken, and those that look broken may only just have lost a node. No more than the budget is at risk
        so long. Surge groups do not count: they may be waiting for the room that broken ones take up.
        """
        tried = range(self.stored.partition, min(self.wanted, self.stored.replicas))
        unproven = self.unsettled_among(tried)
        if unproven == 0:
            return self.stored.replicas
        return max(0, self.state.budget.unavailable - unproven)

    def reach(self, allowance: int) -> tuple[int, int]:
        """How far down the partition may go if `allowance` healthy outdated groups may go, from the top on.

        First the lowest partition that is safe; second the lowest one that still has something to replace
        that is worth the risk.
        """
        needed, risk_budget = self.stored.partition, self.risk_budget
        for group in self._outdated_from_the_top:
            index = group.index
            if group.ready:
                if allowance == 0:
                    return index + 1, needed
                allowance -= 1
            elif group.terminating:
                continue
            elif index < self.stored.partition:
                risk_budget -= 1
            if risk_budget >= 0:
                needed = index
        return 0, needed

    @cached_property
    def _outdated_from_the_top(self) -> list[GroupState]:
        """Those that the StatefulSet is to have."""
        known = range(self.stored.replicas)
        found = [group for group in self.groups.values() if group.outdated and group.index in known]
        return sorted(found, key=lambda group: -group.index)

    def shrunk(self, fewest: int, partition: int) -> int:
        """Groups to go down to: `fewest`, or as many more as it takes to keep those ready that must stay.

        partition: outdated groups from here on are going and do not count.
        """
        if fewest >= self.stored.replicas or self.is_plain_scale_down:
            return fewest
        staying = 0
        for replicas in range(self.stored.replicas):
            if replicas >= fewest and staying >= self.must_stay:
                return replicas
            if replicas in self.state.ready:
                staying += not (replicas >= partition and self.is_outdated(replicas))
        return self.stored.replicas

    def _only_broken_groups_hold_up(self) -> bool:
        stored = self.stored
        broken = [group.index for group in self._outdated_from_the_top if group.broken]
        if not broken or stored.replicas <= self.must_stay or self.ready + len(broken) < stored.replicas:
            return False
        covered, _ = self.reach(0)
        return max(broken) < (min(covered, stored.partition) if stored.is_current else covered)


def budget_of(spec: SetSpec) -> Budget:
    """How many groups may be missing and how many may come on top."""
    return budget(spec.replicas, spec.unavailable_groups or 0, spec.surge_groups or 0)


def statefulset_max_unavailable(spec: SetSpec) -> int:
    """What the StatefulSet is told, where it listens: at least 1 (StatefulSet API), the surge on top."""
    return max(1, (spec.unavailable_groups or 0) + (spec.surge_groups or 0))
