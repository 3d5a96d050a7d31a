"""A set with groupIdentity Hash in memory, between models of the controllers around it.

The models cover Deployment and ReplicaSet controllers, groups that start and terminate, and the manager that
lifts gates. The controllers follow Kubernetes 1.37. Each move is one reconcile of one controller, so that
controllers see each other's work late. Users and nodes act on the set. The result is its groups, or an
AssertionError if the gate lets too many of them hold nodes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lws.leaderworkerset.rollout import replacement
from lws.leaderworkerset.rollout.replacement import (
    Leader,
    Teardown,
    leader_of,
    leaders_of,
    surplus_kept_groups,
    teardowns_of,
)
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    NAME_LABEL,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
    WORKER_INDEX_LABEL,
)

COST = "controller.kubernetes.io/pod-deletion-cost"
Planner = Callable[[Sequence[Leader], Sequence[Teardown], int, int, bool], tuple[Leader, ...]]


@dataclass
class Group:
    """A group.

    pods_left: number of its terminating pods; None while its leader is live. is_kept: whether it has used up
    its restarts.
    """

    number: int
    revision: str
    is_gated: bool = True
    is_ready: bool = False
    pods_left: int | None = None
    is_kept: bool = False

    @property
    def is_live(self) -> bool:
        return self.pods_left is None

    def pods(self) -> list[dict[str, Any]]:
        """Return the leader and one worker. The leader of a terminating group ends first."""
        pods = [self._pod(f"demo-rs-{self.number}", "0")] if self.pods_left != 1 else []
        if not self.is_gated:
            pods.append(self._pod(f"demo-{self.number}-1", "1"))
        return pods

    def _pod(self, name: str, worker: str) -> dict[str, Any]:
        labels = {
            NAME_LABEL: "demo",
            REVISION_LABEL: self.revision,
            GROUP_INDEX_LABEL: str(self.number),
            WORKER_INDEX_LABEL: worker,
        }
        metadata: dict[str, Any] = {
            "name": name,
            "labels": labels,
            "creationTimestamp": f"2026-01-01T00:00:{self.number:09}Z",
        }
        if not self.is_live:
            metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
        if self.is_kept:
            metadata["finalizers"] = [RESTART_BUDGET_FINALIZER]
            metadata["annotations"] = {RESTART_BUDGET_EXHAUSTED_ANNOTATION: "true"}
        if not self.is_gated or worker != "0":
            return {"metadata": metadata, "spec": {}}
        metadata["annotations"] = {COST: "-100"}
        return {"metadata": metadata, "spec": {"schedulingGates": [{"name": GROUP_REPLACEMENT_GATE}]}}


@dataclass
class HashWorld:
    """The set and everything that acts on it.

    replicasets: desired pods by revision, in order of creation.
    """

    replicas: int
    unavailable: int = 1
    surge: int = 0
    revision: str = "a"
    is_immediate: bool = False
    planner: Planner = replacement.leaders_to_admit
    replicasets: dict[str, int] = field(default_factory=dict)
    hopeless: set[str] = field(default_factory=set)
    groups: list[Group] = field(default_factory=list)
    admissions: int = 0
    _scaled: tuple[int, int] = (0, 0)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def live(self, revision: str | None = None) -> list[Group]:
        return [group for group in self.groups if group.is_live and revision in (None, group.revision)]

    @property
    def teardowns(self) -> list[Group]:
        return [group for group in self.groups if not group.is_live]

    @property
    def gated(self) -> list[Group]:
        return [group for group in self.live() if group.is_gated]

    @property
    def holding(self) -> int:
        """Number of groups that hold nodes or may get some."""
        return sum(not group.is_gated for group in self.groups)

    # --- Users and nodes

    def change(self, revision: str, is_hopeless: bool = False) -> None:
        """Set another template, whose groups never become ready if `is_hopeless`."""
        self.revision = revision
        self.hopeless -= {revision}
        if is_hopeless:
            self.hopeless |= {revision}
            for group in self.live(revision):
                group.is_ready = False

    def lose(self, position: int, pods: int = 2) -> None:
        """Delete the leader of a group. Its pods take a while to terminate."""
        if live := self.live():
            self._delete(live[position % len(live)], pods)

    def exhaust(self, position: int) -> None:
        """Let a group use up its restarts."""
        if admitted := [group for group in self.live() if not group.is_gated]:
            group = admitted[position % len(admitted)]
            self._delete(group, 2)
            group.is_kept = True

    def recover(self) -> None:
        """Request new groups in place of those that used up their restarts."""
        for group in self.groups:
            group.is_kept = False

    # --- Controllers: each returns whether it did anything.

    def move(self, chance: random.Random) -> bool:
        """Make one of the possible moves."""
        moves = [self.sync_deployment, self.sync_replicasets, self.lift_gates, self.start, self.terminate]
        moves.append(self.release)
        chance.shuffle(moves)
        return any(move(chance) for move in moves)

    def settle(self, chance: random.Random) -> None:
        """Move until nothing changes any more."""
        for _ in range(10_000):
            if not self.move(chance):
                return
        raise AssertionError(f"never settles: {self}")

    def assert_settled(self) -> None:
        kept_groups = self.teardowns
        assert all(group.is_kept and group.revision == self.revision for group in kept_groups)
        # A surge that is removed while a rollout is stuck leaves more leaders than places.
        surplus = max(len(self.live()) - self.replicas - self._max_surge, 0)
        waiting = len(self.gated) - len(kept_groups)
        assert 0 <= waiting <= surplus, f"{self.gated} of {self.groups} wait for {kept_groups}"
        if kept_groups:
            # Kept groups hold up a rollout, as other groups that are not ready do.
            self.recover()
            self.settle(random.Random(0))
            self.assert_settled()
        elif self.revision not in self.hopeless:
            states = [(group.revision, group.is_ready) for group in self.groups]
            assert states == [(self.revision, True)] * self.replicas

    def lift_gates(self, chance: random.Random) -> bool:
        """Play the manager, which lifts the gates of leaders."""
        chance.shuffle(self.groups)
        pods = [pod for group in self.groups for pod in group.pods()]
        leaders, teardowns = leaders_of(pods, self.revision), teardowns_of(pods, self.revision)
        assert len(teardowns) == len(self.teardowns)
        names = [
            leader.name
            for leader in self.planner(leaders, teardowns, self.replicas, self.surge, self.is_immediate)
        ]
        before = {is_current: self._count(self.gated, is_current) for is_current in (True, False)}
        for group in self.gated:
            (leader,) = group.pods()
            if leader["metadata"]["name"] in names:
                group.is_gated = False
        self.admissions += len(names)
        for is_current in (True, False):
            waiting, kept_count = (self._count(groups, is_current) for groups in (self.gated, self.teardowns))
            assert waiting >= kept_count or waiting == before[is_current], "each kept group holds one back"
        if names and not self.is_immediate:
            self._assert_places(leaders, teardowns)
        return bool(names)

    def _count(self, groups: Sequence[Group], is_current: bool) -> int:
        """Count the live or kept groups of the current revision, or else of former ones."""
        of_class = [group for group in groups if (group.revision == self.revision) == is_current]
        return sum(group.is_live or group.is_kept for group in of_class)

    def _assert_places(self, leaders: Sequence[Leader], teardowns: Sequence[Teardown]) -> None:
        assert self.holding <= self.replicas + self.surge
        is_rolling = any(group.revision != self.revision for group in self.groups)
        if not is_rolling and len(leaders) <= self.replicas:
            assert self.holding <= self.replicas, "no rollout uses the surge"

    def release(self, chance: random.Random) -> bool:
        """Play the manager, which releases kept groups that the set does not need any more."""
        pods = [pod for group in self.live() for pod in group.pods()]
        kept_groups = {f"demo-rs-{group.number}": group for group in self.groups if group.is_kept}
        ended = [leader_of(group.pods()[0], self.revision) for group in kept_groups.values()]
        released = [
            leader.name
            for leader in surplus_kept_groups(ended, leaders_of(pods, self.revision), self.replicas)
        ]
        for name, group in kept_groups.items():
            group.is_kept = name not in released and group.revision == self.revision
        return len(kept_groups) != sum(group.is_kept for group in self.groups)

    def start(self, chance: random.Random) -> bool:
        """Make an admitted group ready."""
        starting = [
            group
            for group in self.live()
            if not group.is_gated and not group.is_ready and group.revision not in self.hopeless
        ]
        if starting:
            chance.choice(starting).is_ready = True
        return bool(starting)

    def terminate(self, chance: random.Random) -> bool:
        """Remove a pod of a terminating group."""
        terminating = [group for group in self.teardowns if not group.is_kept]
        if not terminating:
            return False
        group = chance.choice(terminating)
        group.pods_left = (group.pods_left or 1) - 1
        if group.pods_left == 0:
            self.groups.remove(group)
        return True

    def sync_replicasets(self, chance: random.Random) -> bool:
        revisions = [*self.replicasets]
        chance.shuffle(revisions)
        return any(self._sync_replicaset(revision) for revision in revisions)

    def _sync_replicaset(self, revision: str) -> bool:
        live, desired = self.live(revision), self.replicasets[revision]
        for _ in range(desired - len(live)):
            self.groups.append(Group(next(self._numbers), revision))
        # Pods without a node first, then pods that are not ready; of equal ones, the younger first.
        live.sort(key=lambda group: (not group.is_gated, group.is_ready, -group.number))
        for group in live[: max(len(live) - desired, 0)]:
            self._delete(group, 2)
        return desired != len(live)

    def _delete(self, group: Group, pods: int) -> None:
        if group.is_gated:
            # The API server deletes pods without a node at once.
            self.groups.remove(group)
        else:
            group.pods_left, group.is_ready = pods, False

    def sync_deployment(self, chance: random.Random) -> bool:
        sets = self.replicasets
        before = [*sets.items()]
        size = (self.replicas, self._max_surge)
        if self.revision in sets:
            # The newest ReplicaSet is the last.
            sets[self.revision] = sets.pop(self.revision)
        if sets and self._scaled[0] != self.replicas:
            self._scale()
        else:
            sets.setdefault(self.revision, 0)
            self._roll()
        self._scaled = size
        return before != [*sets.items()]

    @property
    def _max_surge(self) -> int:
        return self.surge if self.replicas else 0

    def _scale(self) -> None:
        sets, (replicas, surge) = self.replicasets, self._scaled
        active = [revision for revision, desired in sets.items() if desired]
        if len(active) <= 1:
            sets[active[0] if active else [*sets][-1]] = self.replicas
            return
        allowed = self.replicas + self._max_surge
        remaining = allowed - sum(sets.values())
        order = sorted(active, key=lambda revision: sets[revision], reverse=True)
        former = max(replicas + surge, 1)
        for revision in order:
            part = round(sets[revision] * allowed / former) - sets[revision]
            part = max(min(part, remaining), 0) if remaining > 0 else min(max(part, remaining), 0)
            part = max(part, -sets[revision])
            sets[revision] += part
            remaining -= part
        sets[order[0]] = max(sets[order[0]] + remaining, 0)

    def _roll(self) -> None:
        sets, new = self.replicasets, self.revision
        total = sum(sets.values())
        if sets[new] > self.replicas:
            sets[new] = self.replicas
            return
        room = min(self.replicas + self._max_surge - total, self.replicas - sets[new])
        if room > 0:
            sets[new] += room
        else:
            self._scale_down_old()

    def _scale_down_old(self) -> None:
        sets, new = self.replicasets, self.revision
        old = [revision for revision in sets if revision != new and sets[revision]]
        available = {revision: sum(group.is_ready for group in self.live(revision)) for revision in sets}
        unavailable = max(self.unavailable, 0 if self._max_surge else 1)
        least = self.replicas - min(unavailable, self.replicas)
        room = sum(sets.values()) - least - max(sets[new] - available[new], 0)
        if room <= 0:
            return
        for revision in old:
            broken = max(min(room, sets[revision] - available[revision]), 0)
            sets[revision] -= broken
            room -= broken
        room = sum(available.values()) - least
        for revision in old:
            healthy = max(min(room, sets[revision]), 0)
            sets[revision] -= healthy
            room -= healthy
