"""Simulate the steps of a rollout from a given state to its end, assuming that every new group becomes ready.

The planner runs against a model of the StatefulSet controller (Kubernetes 1.37, podManagementPolicy
Parallel). The model has no time: both controllers act until nothing is left to do, then every pod advances
one stage. Outdated groups that are not ready stay so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lws.leaderworkerset.rollout.groups import GroupState, LeaderStatefulSet
from lws.leaderworkerset.rollout.plan import plan_rollout
from lws.leaderworkerset.rollout.state import Beginning, Rollout, RolloutState

# Each group takes a handful of steps; a set that needs more than this never settles.
_STEPS_PER_GROUP = 10
_STEPS_AT_LEAST = 100

_GONE, _CREATED, _FORMED, _LEADER_READY, _READY = range(-1, 4)


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """One step, and what precedes it: the StatefulSet's fields (None before it exists) and the groups."""

    partition: int | None
    replicas: int | None
    groups: tuple[GroupState, ...]
    rollout: Rollout


@dataclass(frozen=True, slots=True)
class Simulation:
    """Result of a simulated rollout. steps: steps in order. groups: state of the groups at the end.
    waiting_for: what the rollout waits for at the end; empty if it is done.
    """

    steps: tuple[SimulatedStep, ...]
    groups: tuple[GroupState, ...]
    waiting_for: str


def simulate(
    state: RolloutState, begun: Beginning | None = None, max_unavailable: int | None = None
) -> Simulation:
    """Run the rollout until nothing changes. begun: how the StatefulSet is created; None as for a new set.
    max_unavailable: what the first step writes to a stored maxUnavailable; None to leave it.
    """
    model = _Model(state, max_unavailable)
    steps: list[SimulatedStep] = []
    limit = _STEPS_AT_LEAST + _STEPS_PER_GROUP * max(state.replicas, len(state.groups))
    is_created = state.statefulset is None and begun is not None
    rollout = begun.rollout if begun is not None and is_created else plan_rollout(model.state)
    is_former = begun is not None and is_created and begun.former is not None
    while len(steps) < limit:
        if model.is_changed_by(rollout):
            stored = model.state.statefulset
            partition = stored.partition if stored is not None else None
            replicas = stored.replicas if stored is not None else None
            why = rollout.why or "replicas or maxUnavailable of the set changed"
            steps.append(SimulatedStep(partition, replicas, model.state.groups, replace(rollout, why=why)))
            model.apply(rollout, is_former)
            is_former = False
            model.sync()
        elif not model.sync() and not model.move():
            break
        rollout = plan_rollout(model.state)
    return Simulation(tuple(steps), model.state.groups, rollout.waiting_for)


@dataclass(slots=True)
class _Group:
    is_new: bool
    stage: int = _CREATED
    is_terminating: bool = False
    is_stuck: bool = False

    @property
    def is_available(self) -> bool:
        """Whether the group is available as the StatefulSet controller counts: by its leader alone."""
        return self.stage >= _LEADER_READY and not self.is_terminating


class _Model:
    """Model of the leader StatefulSet with its controller, and of the groups."""

    def __init__(self, state: RolloutState, max_unavailable: int | None) -> None:
        self._given = state
        self._max_unavailable = max_unavailable
        self._stored = state.statefulset
        self._is_observed = state.statefulset is not None and state.statefulset.observed
        # After the StatefulSet controller has seen the new template, lost groups below the partition are
        # still recreated on the old one until the rollout is done.
        self._is_rolling = any(group.outdated for group in state.groups)
        self._groups = {group.index: _group_of(group) for group in state.groups}

    @property
    def state(self) -> RolloutState:
        stored = self._stored
        if stored is None:
            return replace(self._given, groups=(), statefulset=None)
        stored_now = replace(stored, observed=self._is_observed, awaited=not self._is_observed)
        groups = tuple(self._state_of(index, group) for index, group in sorted(self._groups.items()))
        return replace(self._given, groups=groups, statefulset=stored_now)

    def is_changed_by(self, rollout: Rollout) -> bool:
        return bool(rollout.replace) or self._updated(rollout) != self._stored

    def apply(self, rollout: Rollout, is_former: bool = False) -> None:
        """Delete all leaders that the step replaces, then update the StatefulSet.
        is_former: whether the StatefulSet is created with the previous revision.
        """
        self._is_rolling |= is_former
        self._terminate(list(rollout.replace))
        updated = self._updated(rollout, is_former)
        if updated != self._stored:
            self._is_observed = False
        self._stored = updated

    def _updated(self, rollout: Rollout, is_former: bool = False) -> LeaderStatefulSet:
        stored = self._stored or LeaderStatefulSet(replicas=0, partition=0)
        max_unavailable = stored.max_unavailable
        if None not in (max_unavailable, self._max_unavailable):
            max_unavailable = self._max_unavailable
        return replace(
            stored,
            partition=rollout.partition,
            replicas=rollout.replicas,
            last_replicas=self._given.replicas,
            is_current=not is_former,
            max_unavailable=max_unavailable,
        )

    def sync(self) -> bool:
        """Run one pass of the StatefulSet controller; return whether it did or reported anything."""
        stored = self._stored
        if stored is None:
            return False
        has_reported, self._is_observed = not self._is_observed, True
        acted = self._create_missing(stored) | self._scale_down(stored) | self._update(stored)
        groups = self._groups.values()
        if len(groups) == stored.replicas and all(group.is_new and group.is_available for group in groups):
            self._is_rolling = False
        return acted or has_reported

    def move(self) -> bool:
        """Advance every pod by one stage; return whether any could advance."""
        movable = [
            group
            for group in self._groups.values()
            if group.is_terminating or (not group.is_stuck and group.stage < _READY)
        ]
        for group in movable:
            group.stage = _GONE if group.is_terminating else group.stage + 1
        self._groups = {index: group for index, group in self._groups.items() if group.stage != _GONE}
        return bool(movable)

    def _create_missing(self, stored: LeaderStatefulSet) -> bool:
        missing = [index for index in range(stored.replicas) if index not in self._groups]
        for index in missing:
            is_recreated_old = self._is_rolling and index < stored.partition
            self._groups[index] = _Group(is_new=stored.is_current and not is_recreated_old)
        return bool(missing)

    def _scale_down(self, stored: LeaderStatefulSet) -> bool:
        groups = self._groups.items()
        return self._terminate(
            [i for i, group in groups if i >= stored.replicas and not group.is_terminating]
        )

    def _terminate(self, indices: list[int]) -> bool:
        for index in indices:
            self._groups[index].is_terminating = True
        return bool(indices)

    def _update(self, stored: LeaderStatefulSet) -> bool:
        if not stored.is_current:
            return False
        deleted = self._one_at_a_time(stored)
        if stored.max_unavailable is not None:
            down = sum(not self._groups[index].is_available for index in range(stored.replicas))
            outdated = self._outdated(stored)
            available = [index for index in outdated if self._groups[index].is_available]
            spared = available[max(0, stored.max_unavailable - down) :]
            deleted = [index for index in outdated if index not in spared]
        return self._terminate(deleted)

    def _one_at_a_time(self, stored: LeaderStatefulSet) -> list[int]:
        outdated = self._outdated(stored)
        for index in reversed(range(stored.partition, stored.replicas)):
            if index in outdated:
                return [index]
            if not self._groups[index].is_available:
                return []
        return []

    def _outdated(self, stored: LeaderStatefulSet) -> list[int]:
        """Return the groups that the controller would replace, highest first."""
        indices = reversed(range(stored.partition, stored.replicas))
        return [i for i in indices if not self._groups[i].is_new and not self._groups[i].is_terminating]

    def _state_of(self, index: int, group: _Group) -> GroupState:
        return GroupState(
            index=index,
            ready=group.stage == _READY and not group.is_terminating,
            formed=group.stage >= _FORMED,
            outdated=not group.is_new,
            terminating=group.is_terminating,
            leader_ready=group.is_available,
            replaceable=not group.is_new,
        )


def _group_of(group: GroupState) -> _Group:
    stage = _FORMED if group.formed else _CREATED
    if group.ready:
        stage = _READY
    elif group.leader_ready:
        stage = _LEADER_READY
    return _Group(
        is_new=not group.outdated,
        stage=stage,
        is_terminating=group.terminating,
        is_stuck=group.broken,
    )
