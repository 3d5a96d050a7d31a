"""Answers: which pods are a group, and is the group ready?

In: pods of a set and the leader pod that each worker StatefulSet belongs to. Out: groups. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from tools.demo.facts import Pod

Leaders = Mapping[str, str]
"""UID of a worker StatefulSet → UID of the leader pod that owns it."""


@dataclass(frozen=True, slots=True)
class Group:
    """A leader and its own workers; workers that a former leader has left behind are not among them.

    leader: None while there is none.
    """

    index: int
    size: int
    leader: Pod | None
    workers: tuple[Pod, ...]

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The leader, if there is one, and its workers."""
        return self.workers if self.leader is None else (self.leader, *self.workers)

    @property
    def ready_workers(self) -> int:
        return sum(pod.is_ready for pod in self.workers)

    @property
    def is_ready(self) -> bool:
        """Whole, and every pod ready: only then does it serve."""
        return len(self.pods) == self.size and all(pod.is_ready for pod in self.pods)


def groups_of(pods: Iterable[Pod], leaders: Leaders) -> tuple[Group, ...]:
    """The groups that pods of one set form, by index."""
    ordered = sorted(pods, key=lambda pod: (pod.group, pod.index))
    return tuple(
        _group(index, tuple(members), leaders)
        for index, members in groupby(ordered, key=lambda pod: pod.group)
    )


def _group(index: int, members: tuple[Pod, ...], leaders: Leaders) -> Group:
    leader = next((pod for pod in members if pod.is_leader), None)
    uid = leader.uid if leader is not None else None
    workers = tuple(pod for pod in members if not pod.is_leader and leaders.get(pod.owner) == uid)
    return Group(index, members[0].size, leader, workers)
