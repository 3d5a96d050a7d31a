"""Choose which children of old revisions shrink so that each role comes down to a given count.

Out: counts by child, newest revision first. If a step would take the last group of one role of a revision,
the whole revision goes or one group stays. Everything that goes is charged to the budget, and nothing goes
that the floor needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from lws.disaggregatedset.rollout.state import Count, RevisionCounts, RoleTarget, SliceState

Lowered = Mapping[str, Mapping[str, int]]
"""Key → role → `spec.replicas`, what changes only."""


@dataclass(slots=True)
class Drain:
    """One drain while it is put together.

    may_empty: whether a revision may go as a whole. budget: groups that are to go. spare: ready groups that
    may go. hope: the same, those counted in that are starting: what will serve any moment is not given up
    faster than what serves.
    """

    state: SliceState
    may_empty: bool = True
    budget: dict[str, int] = field(default_factory=dict)
    spare: dict[str, int] = field(default_factory=dict)
    hope: dict[str, int] = field(default_factory=dict)
    left: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role in self.state.roles:
            floor = self.state.floor(role)
            self.spare[role.name] = max(0, self.state.serving(role.name) - floor)
            self.hope[role.name] = max(0, self.state.hoped(role.name) - floor)
        self.left = {
            revision.key: {r: c.wanted for r, c in revision.counts.items()} for revision in self.state.old
        }

    def to(self, planned: Mapping[str, int]) -> Drain:
        """Lower each role to its planned count, as far as the minimum of ready groups allows."""
        for role in self.state.roles:
            self.budget[role.name] = self.state.old_wanted(role.name) - planned[role.name]
        for revision in self.state.old:
            self._take_broken(revision)
        for revision in self.state.old:
            self._lower(revision)
        return self

    def whole(self, revision: RevisionCounts) -> bool:
        """Lower a revision to nothing, if the floor lets it."""
        left = self.left[revision.key]
        if not all(self._may_be(revision, role, 0) for role in left):
            return False
        for role in left:
            self._take(revision, role, 0)
        return True

    def last(self, revision: RevisionCounts, role: str) -> bool:
        """Lower one child by one group although its siblings stay, if the floor lets it."""
        left = self.left[revision.key].get(role, 0)
        if not left or not self._may_be(revision, role, left - 1):
            return False
        self._take(revision, role, left - 1)
        return True

    @property
    def lowered(self) -> Lowered:
        """The changed counts."""
        changes = {
            revision.key: {r: n for r, n in self.left[revision.key].items() if n < revision.of(r).wanted}
            for revision in self.state.old
        }
        return {key: roles for key, roles in changes.items() if roles}

    def remaining(self, role: str) -> int:
        """Groups of the role that remain, over all old revisions."""
        return sum(roles.get(role, 0) for roles in self.left.values())

    def _take_broken(self, revision: RevisionCounts) -> None:
        """Groups that are not ready go first, of any revision; the last group of a role waits."""
        for role, left in self.left[revision.key].items():
            going = min(revision.of(role).broken_on_top, left - 1, self.budget[role])
            if going > 0:
                self._take(revision, role, max(left - going, self._lowest(revision, role)))

    def _lower(self, revision: RevisionCounts) -> None:
        planned = dict(self._planned(revision))
        emptied = [role for role, count in planned.items() if count == 0 < self.left[revision.key][role]]
        if emptied and self._may_go(revision) and self.whole(revision):
            return
        for role, count in planned.items():
            stays = role in emptied and self._has_siblings(revision, role)
            self._take(revision, role, 1 if stays else count)

    def _may_go(self, revision: RevisionCounts) -> bool:
        """Report whether no newer revision has a group: the revision that ran before is given up last."""
        newer = self.state.old[: self.state.old.index(revision)]
        return self.may_empty and not any(any(self.left[each.key].values()) for each in newer)

    def _planned(self, revision: RevisionCounts) -> Iterator[tuple[str, int]]:
        for role, left in self.left[revision.key].items():
            count = max(0, left - max(0, self.budget[role]), self._lowest(revision, role))
            yield role, count

    def _lowest(self, revision: RevisionCounts, role: str) -> int:
        """The lowest count of the child that the floor allows."""
        left, child = self.left[revision.key][role], revision.of(role)
        ready = child.lowest(self.spare[role] + child.cost(left))
        return min(left, max(ready, child.hoped.lowest(self.hope[role] + child.hoped.cost(left))))

    def _may_be(self, revision: RevisionCounts, role: str, count: int) -> bool:
        """Whether the floor lets the child be lowered to so many groups."""
        left, child = self.left[revision.key][role], revision.of(role)
        is_spare = _cost(child, left, count) <= self.spare[role]
        return is_spare and _cost(child.hoped, left, count) <= self.hope[role]

    def _has_siblings(self, revision: RevisionCounts, role: str) -> bool:
        return any(count for other, count in self.left[revision.key].items() if other != role)

    def _take(self, revision: RevisionCounts, role: str, count: int) -> None:
        left, child = self.left[revision.key][role], revision.of(role)
        self.spare[role] -= _cost(child, left, count)
        self.hope[role] -= _cost(child.hoped, left, count)
        self.budget[role] = self.budget.get(role, 0) - (left - count)
        self.left[revision.key][role] = count


def _cost(child: Count, left: int, count: int) -> int:
    """Ready groups lost by lowering from `left` to `count`, if the child was lowered to `left` before."""
    return child.cost(count) - child.cost(left)


# --- Decide with how many groups deleted children of old revisions are restored.


@dataclass(frozen=True, slots=True)
class Lost:
    """initial: groups that the child wanted when the rollout began; None before it does. most: how many it
    had when it was last seen, or more. lingering: of them, those whose leader pods are still there. orphaned:
    those that wait for it, to be taken over.
    """

    initial: int | None
    most: int
    lingering: int = 0
    orphaned: int = 0


def with_lost(state: SliceState, lost: Mapping[str, Mapping[str, Lost]]) -> SliceState:
    """lost: key → role → what is known of a child that there is not.

    They come back with what their siblings have kept of their groups, as far as there is room: what a step
    has taken does not return. Once the target revision is complete, nothing of others comes back.
    """
    if not any(lost.values()) or _is_complete(state):
        return state
    for revision in state.old:
        state = _restored(state, revision, lost.get(revision.key, {}))
    return state


def most_groups(role: RoleTarget) -> int:
    """More of them would take places that new groups need. One at least, where the role is not wanted any
    more: its revision serves nobody without.
    """
    return max(1, role.target)


def _restored(state: SliceState, revision: RevisionCounts, lost: Mapping[str, Lost]) -> SliceState:
    counts, gone = dict(revision.counts), dict(state.gone)
    for role in state.roles:
        known = lost.get(role.name)
        if known is None or role.name in revision.counts:
            continue
        count = _count(state, role, known, revision)
        if count > 0:
            present = max(count, known.lingering, known.orphaned)
            counts[role.name] = Count(
                count,
                present,
                0,
                False,
                known.initial,
                broken_on_top=count,
                starting=count,
                is_lost=True,
                lingering=known.lingering,
            )
    if len(counts) == len(revision.counts):
        return state
    for name in counts.keys() - revision.counts.keys():
        gone[name] = max(0, gone.get(name, 0) - (counts[name].initial or 0))
    old = (replace(each, counts=counts) if each.key == revision.key else each for each in state.old)
    return replace(state, old=tuple(old), gone=gone)


def _count(state: SliceState, role: RoleTarget, known: Lost, revision: RevisionCounts) -> int:
    room = role.ceiling - state.present(role.name)
    if known.initial is None:
        return min(known.most, room) if any(count.wanted for count in revision.counts.values()) else 0
    left = [
        -(-known.initial * count.wanted // count.initial)
        for count in revision.counts.values()
        if count.initial
    ]
    return min((known.initial, known.most, room, most_groups(role), *left)) if left else 0


def _is_complete(state: SliceState) -> bool:
    return all(state.new.of(role.name).wanted >= role.target for role in state.roles)
