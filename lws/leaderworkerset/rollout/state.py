"""Define the input and output of a rollout decision, and the counts of groups that it uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lws.kube.quantities import INT32
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.rollout.groups import GroupState, LeaderDeployment, LeaderStatefulSet
from lws.leaderworkerset.spec import SetSpec, StartWaves


@dataclass(frozen=True, slots=True)
class Budget:
    """Numbers of groups: how many of `replicas` may be unavailable, and how many may be added."""

    unavailable: int
    surge: int


# No slots: counts are cached.
@dataclass(frozen=True)
class RolloutState:
    """Input of a rollout decision.

    replicas: number of desired groups.
    budget: groups that the rollout may take down or add at a time.
    floor: the partition of the set; groups below this index keep their revision.
    groups: all groups that have a leader pod, in any order.
    statefulset: the leader StatefulSet; None if it does not exist yet.
    paused: whether the user has paused the rollout, so that no group may change its revision.
    reached: the recorded partition of the rollout to the target revision, in case the StatefulSet was lost;
    None if the rollout had not begun.
    stays: whether to take no further step and to remove no surge now.
    deployment: the Deployment of Hash leaders, which paces the rollout itself; None for Ordinal groups.
    start_strategy: limits how many groups start at a time; None if all may start at once.
    occupied_index_count: as in `SetSnapshot`; that many groups may exist regardless of the start strategy.
    prewarming: what the first step waits for on nodes; empty for nothing.
    """

    replicas: int
    budget: Budget
    floor: int = 0
    groups: tuple[GroupState, ...] = ()
    statefulset: LeaderStatefulSet | None = None
    paused: bool = False
    reached: int | None = None
    stays: bool = False
    deployment: LeaderDeployment | None = None
    start_strategy: StartWaves | None = None
    occupied_index_count: int = 0
    prewarming: str = ""

    @property
    def is_done(self) -> bool:
        """Whether every desired group is ready on the target revision, and no partition holds one back."""
        if self.deployment is not None:
            return self.deployment.is_current and len(self.settled) >= self.replicas
        return self.floor == 0 and self.settled.issuperset(range(self.replicas))

    @cached_property
    def ready(self) -> frozenset[int]:
        """Indices of ready groups, desired or not."""
        return frozenset([group.index for group in self.groups if group.ready])

    @cached_property
    def settled(self) -> frozenset[int]:
        """Indices of groups that are ready on the target revision, desired or not."""
        return frozenset([group.index for group in self.groups if group.settled])

    @cached_property
    def outdated(self) -> tuple[int, ...]:
        """Indices of groups that the rollout will replace."""
        outdated = [group.index for group in self.groups if group.outdated]
        if self.deployment is not None:
            return tuple(outdated)
        return tuple([index for index in outdated if self.floor <= index < self.replicas])

    @property
    def pinned(self) -> tuple[int, ...]:
        """Indices of outdated groups that keep their revision: they are below the partition of the set."""
        end = min(self.floor, self.replicas)
        return tuple(group.index for group in self.groups if group.outdated and group.index < end)


@dataclass(frozen=True, slots=True)
class Rollout:
    """Desired position of the leader StatefulSet, and the groups that are replaced with that step.
    replace: indices of the groups to replace, highest first. why: what changes and why; empty for no change.
    waiting_for: what must happen before the next step; empty for nothing.
    """

    partition: int
    replicas: int
    replace: tuple[int, ...] = ()
    why: str = ""
    waiting_for: str = ""

    def within(self, stored: LeaderStatefulSet) -> Rollout:
        """Return this rollout with only the leaders that the stored StatefulSet recreates up to date."""
        covered = (index for index in self.replace if stored.is_current and index >= stored.partition)
        return replace(self, replace=tuple(covered))


def make_budget(replicas: int, max_unavailable: int, max_surge: int) -> Budget:
    """Return the budget of a set of `replicas` groups. Both limits are scaled integers ≥ 0."""
    surge = min(max_surge, replicas)
    if surge > 0:
        return Budget(min(max_unavailable, replicas - 1), surge)
    return Budget(max(1, max_unavailable), 0)


@dataclass(frozen=True)
class RolloutFacts:
    """State of a rollout whose StatefulSet exists, and the counts that determine its next step."""

    state: RolloutState
    stored: LeaderStatefulSet

    @property
    def desired(self) -> int:
        return self.state.replicas

    @property
    def min_ready(self) -> int:
        """Minimum number of ready groups that the budget demands; may be negative."""
        return self.state.replicas - self.state.budget.unavailable

    @property
    def ceiling(self) -> int:
        """Maximum number of groups."""
        return self.state.replicas + self.state.budget.surge

    @cached_property
    def groups(self) -> Mapping[int, GroupState]:
        """Groups with a leader pod, by index."""
        return {group.index: group for group in self.state.groups}

    @property
    def kept(self) -> int:
        """How many groups, from 0 on, keep the previous revision when the target template is applied: those
        of the StatefulSet. If it was lost in a rollout and is recreated in waves, this includes the groups
        below its partition that are still to come.
        """
        stored = self.stored
        coming = 0 if self.state.start_strategy is None else min(stored.partition, self.desired)
        return max(stored.replicas, coming)

    @property
    def is_at_target(self) -> bool:
        """Whether the StatefulSet has the target template, partition 0 and the desired number of groups."""
        stored = self.stored
        return stored.is_current and stored.partition == 0 and stored.replicas == self.desired

    @property
    def is_sole_group_due(self) -> bool:
        """Whether the only group of a set without a surge can be replaced now: no other group is affected."""
        state, stored = self.state, self.stored
        if (state.replicas, stored.replicas, state.budget.surge) != (1, 1, 0) or 0 not in self.groups:
            return False
        return stored.observed and self.is_outdated(0) and not self.groups[0].terminating

    @cached_property
    def is_plain_scale_down(self) -> bool:
        """Whether the surplus groups were desired before, are no surge, and are needed by no rollout."""
        stored = self.stored
        is_users_own = stored.is_current and stored.last_replicas == stored.replicas > self.desired
        return is_users_own and not self.state.outdated

    @cached_property
    def ready(self) -> int:
        """Number of ready groups below the replicas of the StatefulSet, surge included."""
        return self.stored.replicas - self.unready_below(self.stored.replicas)

    @cached_property
    def allowance(self) -> int:
        """How many healthy outdated groups may be replaced now, including groups at or above the partition.
        This is the rest of the budget. It is still 1 if broken outdated groups alone have used up the budget
        and none of them can be replaced before a healthy group.
        """
        remaining = self.ready - self.min_ready
        return 1 if remaining <= 0 and self._only_broken_groups_use_budget() else max(0, remaining)

    @cached_property
    def starts(self) -> int:
        """How many more groups may start on the target revision, by the start strategy. Missing groups below
        the partition do not count if they may be recreated on the previous revision. Surge groups without a
        node do not count either: they may need the node of a group that they would hold up.
        """
        stored, strategy = self.stored, self.state.start_strategy
        if strategy is None:
            return self.ceiling + stored.replicas
        settled = self.state.settled
        starting = [i for i in range(stored.replicas) if i not in settled and self._is_starting(i)]
        return max(0, strategy.most(len(settled)) - len(settled) - len(starting))

    def _is_starting(self, index: int) -> bool:
        """Return whether the group is starting on the target revision, or will without another step."""
        group, is_above_partition = self.groups.get(index), index >= self.stored.partition
        if group is None:
            return is_above_partition or not self._has_outdated
        if group.unscheduled and index >= self.state.replicas:
            return False
        return not group.outdated or (group.terminating and is_above_partition and self.stored.is_current)

    @cached_property
    def _has_outdated(self) -> bool:
        return not self.stored.is_current or any(group.outdated for group in self.state.groups)

    def replicas_to_grow_to(self, replicas: int) -> int:
        """Return `replicas`, or fewer if the start strategy does not allow so many groups yet."""
        stored, replaced = self.stored, 0
        if stored.is_current and self.state.start_strategy is not None:
            # An earlier step already replaces these groups, and they will start even before that shows.
            outdated = (group for group in self._outdated_from_the_top if group.index >= stored.partition)
            replaced = sum(not group.terminating for group in outdated)
        return min(replicas, stored.replicas + max(0, self.starts - replaced))

    def is_ready(self, index: int) -> bool:
        return index in self.state.ready

    def is_settled(self, index: int) -> bool:
        """Return whether the group exists and is ready on the target revision."""
        return index in self.state.settled

    def is_outdated(self, index: int) -> bool:
        """Return whether the group exists and is not on the target revision."""
        return index in self.groups and self.groups[index].outdated

    def is_serving_outdated(self, index: int) -> bool:
        """Return whether replacing the group costs availability."""
        return index in self.groups and self.groups[index].serves_outdated

    def unready_below(self, end: int) -> int:
        """Return how many groups below the index `end` are missing or not ready."""
        return end - len(self.state.ready.intersection(range(end)))

    def unsettled_among(self, indices: range) -> int:
        """Return how many of these groups are missing, not ready or on another revision."""
        return len(indices) - len(self.state.settled.intersection(indices))

    def is_any_outdated(self, end: int) -> bool:
        """Return whether any group below the index `end` is on another revision."""
        return any(group.outdated for index, group in self.groups.items() if index < end)

    @cached_property
    def max_broken_to_replace(self) -> int:
        """How many broken outdated groups below the partition may be moved to the new revision.

        All of them may, unless a replaced group is not ready: then the new revision may be broken, while the
        broken groups may only have lost a node. Until the replaced group is ready, no more groups than the
        budget are risked. Surge groups do not count: they may wait for resources that broken groups hold.
        """
        moved = range(self.stored.partition, min(self.desired, self.stored.replicas))
        unsettled = self.unsettled_among(moved)
        if unsettled == 0:
            return self.stored.replicas
        return max(0, self.state.budget.unavailable - unsettled)

    def lowest_partitions(self, allowance: int, starts: int) -> tuple[int, int]:
        """Return how far the partition may be lowered: the lowest safe partition, and the lowest one that
        `max_broken_to_replace` allows.
        allowance: number of healthy outdated groups that may be replaced. starts: number of groups that may
        start.
        """
        needed, risks_left = self.stored.partition, self.max_broken_to_replace
        for group in self._outdated_from_the_top:
            index = group.index
            if not group.terminating or not self._is_starting(index):
                if starts == 0:
                    return index + 1, needed
                starts -= 1
            if group.ready:
                if allowance == 0:
                    return index + 1, needed
                allowance -= 1
            elif group.terminating and not group.kept:
                continue
            elif index < self.stored.partition:
                risks_left -= 1
            if risks_left >= 0:
                needed = index
        return 0, needed

    @cached_property
    def _outdated_from_the_top(self) -> list[GroupState]:
        """Outdated groups below the replicas of the StatefulSet, highest first."""
        indices = range(self.stored.replicas)
        outdated = [group for group in self.groups.values() if group.outdated and group.index in indices]
        return sorted(outdated, key=lambda group: -group.index)

    def replicas_to_shrink_to(self, fewest: int, partition: int) -> int:
        """Return the number of groups to shrink to: `fewest`, or more to keep enough groups ready.
        partition: outdated groups at or above this index are being replaced and do not count as ready.
        """
        if fewest >= self.stored.replicas or self.is_plain_scale_down:
            return fewest
        staying = 0
        for replicas in range(self.stored.replicas):
            if replicas >= fewest and staying >= self.min_ready:
                return replicas
            if replicas in self.state.ready:
                staying += not (replicas >= partition and self.is_outdated(replicas))
        return self.stored.replicas

    def _only_broken_groups_use_budget(self) -> bool:
        stored = self.stored
        broken = [group.index for group in self._outdated_from_the_top if group.broken]
        if not broken or stored.replicas <= self.min_ready or self.ready + len(broken) < stored.replicas:
            return False
        covered, _ = self.lowest_partitions(0, self.starts)
        return max(broken) < (min(covered, stored.partition) if stored.is_current else covered)


def first_groups(groups: int, strategy: StartWaves | None, occupied: int) -> int:
    """Return how many of these groups a new leader StatefulSet starts with. occupied: see
    `SetSnapshot.occupied_index_count`.
    """
    return groups if strategy is None else min(groups, max(occupied, strategy.most(0)))


def rollout_budget(spec: SetSpec) -> Budget:
    return make_budget(spec.replicas, spec.unavailable_groups or 0, spec.surge_groups or 0)


def statefulset_max_unavailable(spec: SetSpec) -> int:
    """Return `maxUnavailable` of the StatefulSet: from 1 to the largest int32, the surge included."""
    return min(INT32, max(1, (spec.unavailable_groups or 0) + (spec.surge_groups or 0)))


@dataclass(frozen=True, slots=True)
class Beginning:
    """How to create a missing leader StatefulSet. former: its revision; None for the target revision."""

    rollout: Rollout
    former: Recorded | None = None


# --- Describe why a rollout step is taken and what the next one waits for, in one line for logs and plans.


def partition_reason(facts: RolloutFacts, partition: int) -> str:
    """Describe why the partition changes; empty if it does not."""
    stored = facts.stored
    if not stored.is_current:
        return "there is a new revision: groups move to it from the highest index down"
    if partition > stored.partition:
        return f"groups below {partition} keep their revision: the partition of the set was raised"
    if partition == stored.partition:
        return ""
    moving = [index for index in range(partition, stored.partition) if facts.is_outdated(index)]
    if not moving:
        return f"groups from {partition} up have the new revision or are recreated with it"
    groups, min_ready = format_groups(moving), max(0, facts.min_ready)
    return f"{groups} may move to the new revision: {facts.ready} groups are ready, {min_ready} must stay"


def replicas_reason(facts: RolloutFacts, replicas: int) -> str:
    """Describe why the number of groups changes; empty if it does not."""
    stored, desired = facts.stored, facts.desired
    if replicas == stored.replicas:
        return ""
    if replicas > max(stored.replicas, desired):
        return f"{format_count(replicas - desired)} on top of {desired} while outdated ones are replaced"
    if replicas > stored.replicas or stored.last_replicas not in (None, desired):
        return f"scaled from {format_count(stored.replicas)} to {replicas}"
    return f"{format_groups(range(replicas, stored.replicas))} on top of {desired} no longer needed"


def replacement_reason(facts: RolloutFacts, replace: tuple[int, ...]) -> str:
    """Describe which leaders the step replaces, and which of them were not ready; empty for none."""
    healthy = format_groups(index for index in replace if facts.is_ready(index))
    broken = format_groups(index for index in replace if not facts.is_ready(index))
    parts = healthy and f"replacing {healthy}", broken and f"replacing {broken}, not ready anyway"
    return "; ".join(filter(None, parts))


def waiting_for(facts: RolloutFacts, replicas: int) -> str:
    """Describe what must happen before the next step; empty for nothing."""
    if facts.state.outdated and not facts.stored.observed:
        return "the StatefulSet controller to report on the last change"
    ready = facts.state.ready
    unready = [index for index in range(replicas) if index not in ready]
    later = facts.desired - replicas
    then = f", before {later} more start" if later > 0 else ""
    return f"{format_groups(unready)} to be ready{then}" if unready else ""


def format_groups(indices: Iterable[int]) -> str:
    """Format groups by index, at most five ranges: "group 3", "groups 0 to 2, 5"; empty for none."""
    texts = format_ranges(indices, " to ")
    if not texts or (len(texts) == 1 and texts[0].isdigit()):
        return "".join(f"group {text}" for text in texts)
    return f"groups {', '.join([*texts[:5], *['…'] * (len(texts) > 5)])}"


def format_ranges(indices: Iterable[int], joint: str) -> list[str]:
    """Format indices in order, as ranges: "0-2", "5"."""
    ranges: list[list[int]] = []
    for index in sorted(indices):
        if ranges and ranges[-1][-1] == index - 1:
            ranges[-1][1:] = [index]
        else:
            ranges.append([index])
    return [joint.join(map(str, bounds)) for bounds in ranges]


def format_count(groups: int) -> str:
    """Format a number of groups: "1 group", "4 groups"."""
    return f"{groups} group{'' if groups == 1 else 's'}"


# --- Describe which groups a change of a set restarts, in the same words for commands and webhook.


def restarts(groups: Sequence[int], budget: Budget, paused: bool, has_indices: bool = True) -> str:
    """Describe which groups restart and how: "groups 0 to 3 restart, by a rollout, one at a time".
    has_indices: whether to name groups by index. Otherwise: "4 groups restart, …".
    """
    if not groups:
        return ""
    subject = format_groups(groups) if has_indices else format_count(len(groups))
    subject += " restarts" if len(groups) == 1 else " restart"
    if paused:
        return f"{subject} once the rollout is resumed"
    if len(groups) == 1:
        return f"{subject}, by a rollout"
    at_a_time = min(budget.unavailable + budget.surge, len(groups))
    return f"{subject}, by a rollout, {'one' if at_a_time == 1 else f'up to {at_a_time}'} at a time"


def pinned_reason(groups: Sequence[int]) -> str:
    """Describe which groups the partition keeps from restarting; empty for none."""
    keep = "keeps its" if len(groups) == 1 else "keep their"
    return f"{format_groups(groups)} {keep} revision until the partition is lowered" if groups else ""
