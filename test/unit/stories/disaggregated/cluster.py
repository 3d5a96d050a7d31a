"""Children of one slice with their groups, in memory, as a LeaderWorkerSet controller would keep them.

Groups start, become ready, break, terminate and linger. The highest index is deleted first.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from lws.disaggregatedset.rollout.state import Count


class Group(Enum):
    STARTING = "starting"
    READY = "ready"
    BROKEN = "broken"
    TERMINATING = "terminating"


@dataclass
class Child:
    """A LeaderWorkerSet with its groups.

    is_hopeless: whether its groups never become ready.
    """

    desired: int
    groups: dict[int, Group] = field(default_factory=dict)
    is_there: bool = True
    is_hopeless: bool = False
    has_acted: bool = False

    @property
    def present(self) -> int:
        return max(self.desired if self.is_there else 0, len(self.groups))

    @property
    def serving(self) -> int:
        """Number of ready groups below the desired count."""
        desired = self.desired if self.is_there else 0
        return sum(group is Group.READY for index, group in self.groups.items() if index < desired)

    @property
    def is_healthy(self) -> bool:
        return self.is_there and self.serving == self.desired

    def want(self, replicas: int) -> None:
        self.desired, self.is_there, self.has_acted = replicas, True, False

    def act(self) -> None:
        """Play one pass of the controller of this child."""
        desired = self.desired if self.is_there else 0
        for index in list(self.groups):
            if index >= desired:
                self.groups[index] = Group.TERMINATING
        for index in range(desired):
            self.groups.setdefault(index, Group.STARTING)
        self.has_acted = True

    @property
    def once_started(self) -> int:
        """Number of groups that serve once the starting groups are ready."""
        desired = self.desired if self.is_there else 0
        hopeful = (Group.READY, Group.STARTING)
        return sum(group in hopeful for index, group in self.groups.items() if index < desired)

    def move(self, dice: random.Random, speed: float) -> None:
        """Let each group take a step of its own, with the probability `speed`."""
        for index, group in list(self.groups.items()):
            if dice.random() > speed:
                continue
            if group is Group.TERMINATING:
                del self.groups[index]
                self.has_acted = False
            elif group is Group.STARTING:
                self.groups[index] = Group.BROKEN if self.is_hopeless else Group.READY

    def count(self, initial: int | None, knows_broken: bool) -> Count:
        ready = sum(group is Group.READY for group in self.groups.values())
        is_settled = self.has_acted and self.is_healthy
        if not knows_broken:
            return Count(self.desired, self.present, ready, is_settled, initial)
        states = [self.groups.get(index) for index in reversed(range(self.desired))]
        on_top = _before(states, Group.READY)
        return Count(
            self.desired,
            self.present,
            ready,
            is_settled,
            initial,
            on_top,
            starting=states.count(Group.STARTING),
            failed_on_top=min(on_top, _before(states, Group.STARTING)),
        )


def _before(states: list[Group | None], state: Group) -> int:
    """Return how many states precede the first occurrence of `state`."""
    return states.index(state) if state in states else len(states)


@dataclass
class Children:
    """All children by revision key and role, with the revisions in order of creation."""

    by_key: dict[str, dict[str, Child]] = field(default_factory=dict)

    def get(self, key: str, role: str) -> Child | None:
        child = self.by_key.get(key, {}).get(role)
        return child if child is not None and child.is_there else None

    def all(self) -> Iterator[tuple[str, str, Child]]:
        for key, roles in self.by_key.items():
            for role, child in roles.items():
                yield key, role, child

    def of_role(self, role: str) -> Iterator[Child]:
        return (child for _, name, child in self.all() if name == role)

    def want(self, key: str, role: str, replicas: int) -> None:
        """Create or scale a child. Groups of a lost child of that name keep their indices until they are
        deleted.
        """
        self.by_key.setdefault(key, {}).setdefault(role, Child(replicas)).want(replicas)

    def forget(self) -> None:
        """Remove lost children that have no groups left."""
        for key, roles in list(self.by_key.items()):
            for role, child in list(roles.items()):
                if not child.is_there and not child.groups:
                    del roles[role]
            if not roles:
                del self.by_key[key]
