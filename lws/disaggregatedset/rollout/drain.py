"""Choose which children of old revisions to lower so that each role reaches a given count.

The newest revision is lowered first. If a step would delete the last group of one role of a revision, either
the whole revision is deleted or one group stays. Every deleted group counts against the planned number, and
the minimum of ready groups is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lws.disaggregatedset.rollout.state import Count, RevisionCounts, RoleTarget, SliceState

Lowered = Mapping[str, Mapping[str, int]]
"""Key → role → changed `spec.replicas`."""


@dataclass(slots=True)
class Drain:
    """A choice of counts to lower, built up step by step.

    may_empty: whether a whole revision may be deleted.
    to_delete, spare: by role, the groups to delete and the ready groups that may be deleted.
    hope: `spare` if starting groups were ready, so that these are not deleted faster than ready ones.
    left: key → role → groups that remain.
    """

    state: SliceState
    may_empty: bool = True
    to_delete: dict[str, int] = field(default_factory=dict)
    spare: dict[str, int] = field(default_factory=dict)
    hope: dict[str, int] = field(default_factory=dict)
    left: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role in self.state.roles:
            min_ready = self.state.min_ready(role)
            self.spare[role.name] = max(0, self.state.serving(role.name) - min_ready)
            self.hope[role.name] = max(0, self.state.once_started(role.name) - min_ready)
        self.left = {
            revision.key: {r: c.desired for r, c in revision.counts.items()} for revision in self.state.old
        }

    def to(self, planned: Mapping[str, int]) -> Drain:
        """Lower each role to its planned count, as far as the minimum of ready groups allows."""
        for role in self.state.roles:
            self.to_delete[role.name] = self.state.old_desired(role.name) - planned[role.name]
        for revision in self.state.old:
            self._take_broken(revision)
        for revision in self.state.old:
            self._lower(revision)
        return self

    def whole(self, revision: RevisionCounts) -> bool:
        """Delete all groups of a revision, and return whether the minimum of ready groups allows it."""
        remaining = self.left[revision.key]
        if not all(self._may_be(revision, role, 0) for role in remaining):
            return False
        for role in remaining:
            self._take(revision, role, 0)
        return True

    def last(self, revision: RevisionCounts, role: str) -> bool:
        """Lower one child by one group although its siblings stay, and return whether the minimum of ready
        groups allows it.
        """
        remaining = self.left[revision.key].get(role, 0)
        if not remaining or not self._may_be(revision, role, remaining - 1):
            return False
        self._take(revision, role, remaining - 1)
        return True

    @property
    def lowered(self) -> Lowered:
        changes = {
            revision.key: {r: n for r, n in self.left[revision.key].items() if n < revision.of(r).desired}
            for revision in self.state.old
        }
        return {key: roles for key, roles in changes.items() if roles}

    def remaining(self, role: str) -> int:
        """Count the remaining groups of the role over all old revisions."""
        return sum(roles.get(role, 0) for roles in self.left.values())

    def _take_broken(self, revision: RevisionCounts) -> None:
        """Delete the groups of a revision that are not ready first, except the last group of a role."""
        for role, remaining in self.left[revision.key].items():
            removed = min(revision.of(role).broken_on_top, remaining - 1, self.to_delete[role])
            if removed > 0:
                self._take(revision, role, max(remaining - removed, self._lowest(revision, role)))

    def _lower(self, revision: RevisionCounts) -> None:
        planned = {
            role: max(0, remaining - max(0, self.to_delete[role]), self._lowest(revision, role))
            for role, remaining in self.left[revision.key].items()
        }
        emptied = [role for role, count in planned.items() if count == 0 < self.left[revision.key][role]]
        if emptied and self._may_go(revision) and self.whole(revision):
            return
        for role, count in planned.items():
            stays = role in emptied and self._has_siblings(revision, role)
            self._take(revision, role, 1 if stays else count)

    def _may_go(self, revision: RevisionCounts) -> bool:
        """Return whether a revision may be deleted as a whole: all newer old revisions are without groups, so
        that the oldest revision is deleted last.
        """
        newer = self.state.old[: self.state.old.index(revision)]
        return self.may_empty and not any(
            any(self.left[newer_revision.key].values()) for newer_revision in newer
        )

    def _lowest(self, revision: RevisionCounts, role: str) -> int:
        """Return the lowest count of the child that the minimum of ready groups allows."""
        remaining, child = self.left[revision.key][role], revision.of(role)
        ready = child.lowest(self.spare[role] + child.cost(remaining))
        return min(
            remaining,
            max(ready, child.once_started.lowest(self.hope[role] + child.once_started.cost(remaining))),
        )

    def _may_be(self, revision: RevisionCounts, role: str, count: int) -> bool:
        """Return whether the minimum of ready groups allows this count of the child."""
        remaining, child = self.left[revision.key][role], revision.of(role)
        is_spare = _cost(child, remaining, count) <= self.spare[role]
        return is_spare and _cost(child.once_started, remaining, count) <= self.hope[role]

    def _has_siblings(self, revision: RevisionCounts, role: str) -> bool:
        return any(count for other, count in self.left[revision.key].items() if other != role)

    def _take(self, revision: RevisionCounts, role: str, count: int) -> None:
        remaining, child = self.left[revision.key][role], revision.of(role)
        self.spare[role] -= _cost(child, remaining, count)
        self.hope[role] -= _cost(child.once_started, remaining, count)
        self.to_delete[role] = self.to_delete.get(role, 0) - (remaining - count)
        self.left[revision.key][role] = count


def _cost(child: Count, before: int, count: int) -> int:
    """Return the number of ready groups lost by lowering a child from `before` to `count`."""
    return child.cost(count) - child.cost(before)


# --- Decide with how many groups the deleted children of old revisions are recreated.


@dataclass(frozen=True, slots=True)
class Lost:
    """A deleted child.

    initial: its desired groups when the rollout began; None if the rollout has not begun.
    most: an upper bound of the groups that it had last.
    lingering: the number of its groups whose leader pods still exist.
    orphaned: the number of its groups to adopt.
    """

    initial: int | None
    most: int
    lingering: int = 0
    orphaned: int = 0


def with_lost(state: SliceState, lost: Mapping[str, Mapping[str, Lost]]) -> SliceState:
    """Add the deleted children that are to be recreated to a slice.

    lost: key → role → deleted child. Each child gets the same share of its initial groups as its siblings
    have, as far as there is room. Once the target revision is complete, no child is recreated.
    """
    is_complete = all(state.new.of(role.name).desired >= role.target for role in state.roles)
    if not any(lost.values()) or is_complete:
        return state
    for revision in state.old:
        state = _restored(state, revision, lost.get(revision.key, {}))
    return state


def most_groups(role: RoleTarget) -> int:
    """Return the maximum number of groups of a recreated child: more would take the room of new groups.

    It is at least 1, even for a removed role, without which the child's revision cannot serve.
    """
    return max(1, role.target)


def _restored(state: SliceState, revision: RevisionCounts, lost: Mapping[str, Lost]) -> SliceState:
    counts, deleted = dict(revision.counts), dict(state.deleted)
    for role in state.roles:
        child = lost.get(role.name)
        if child is None or role.name in revision.counts:
            continue
        count = _count(state, role, child, revision)
        if count > 0:
            present = max(count, child.lingering, child.orphaned)
            counts[role.name] = Count(
                count,
                present,
                0,
                False,
                child.initial,
                broken_on_top=count,
                starting=count,
                is_lost=True,
                lingering=child.lingering,
            )
    if len(counts) == len(revision.counts):
        return state
    for name in counts.keys() - revision.counts.keys():
        deleted[name] = max(0, deleted.get(name, 0) - (counts[name].initial or 0))
    old = (replace(other, counts=counts) if other.key == revision.key else other for other in state.old)
    return replace(state, old=tuple(old), deleted=deleted)


def _count(state: SliceState, role: RoleTarget, child: Lost, revision: RevisionCounts) -> int:
    room = role.ceiling - state.present(role.name)
    if child.initial is None:
        return min(child.most, room) if any(count.desired for count in revision.counts.values()) else 0
    shares = [
        -(-child.initial * count.desired // count.initial)
        for count in revision.counts.values()
        if count.initial
    ]
    return min((child.initial, child.most, room, most_groups(role), *shares)) if shares else 0
