"""List the steps of a rollout from here to its end, if every new group becomes ready.

The planner plays against a model of the StatefulSet controller (Kubernetes 1.37, podManagementPolicy
Parallel).

The model has no time: both controllers do what they can, then every pod makes one move. Outdated groups that
are not ready stay so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lws.leaderworkerset.rollout.groups import GroupState, LeaderStatefulSet
from lws.leaderworkerset.rollout.plan import plan_rollout
from lws.leaderworkerset.rollout.state import Rollout, RolloutState

# Each group costs a handful of steps; a set that needs more than this many never comes to rest.
_STEPS_PER_GROUP = 10
_STEPS_AT_LEAST = 100

_GONE, _CREATED, _FORMED, _LEADER_READY, _READY = range(-1, 4)


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """One thing that the controller does.

    partition, replicas: what the leader StatefulSet was told before; None where there is none yet.
    groups: how they stood just before the step. rollout: what is done, and why.
    """

    partition: int | None
    replicas: int | None
    groups: tuple[GroupState, ...]
    rollout: Rollout


@dataclass(frozen=True, slots=True)
class Simulation:
    """steps: in order. groups: at the end. waiting_for: what the last word is, empty if all is done."""

    steps: tuple[SimulatedStep, ...]
    groups: tuple[GroupState, ...]
    waiting_for: str


@dataclass(frozen=True, slots=True)
class Begun:
    """With what a leader StatefulSet that does not exist is made. is_former: with a revision that the set
    came from, not with the wanted one.
    """

    rollout: Rollout
    is_former: bool = False


def simulate(state: RolloutState, begun: Begun | None = None) -> Simulation:
    """Play the rollout until nothing happens any more. begun: None for how a new set begins."""
    model = _Model(state)
    steps: list[SimulatedStep] = []
    limit = _STEPS_AT_LEAST + _STEPS_PER_GROUP * max(state.replicas, len(state.groups))
    is_made = state.statefulset is None and begun is not None
    rollout = begun.rollout if begun is not None and is_made else plan_rollout(model.state)
    is_former = begun is not None and is_made and begun.is_former
    while len(steps) < limit:
        if model.is_changed_by(rollout):
            before = model.state
            stored = before.statefulset
            steps.append(
                SimulatedStep(
                    stored.partition if stored is not None else None,
                    stored.replicas if stored is not None else None,
                    before.groups,
                    rollout,
                )
            )
            model.tell(rollout, is_former)
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
        """As the StatefulSet controller counts: the leader alone."""
        return self.stage >= _LEADER_READY and not self.is_terminating


class _Model:
    """The leader StatefulSet with its controller, and the groups."""

    def __init__(self, state: RolloutState) -> None:
        self._given = state
        self._stored = state.statefulset
        self._is_observed = state.statefulset is not None and state.statefulset.observed
        # Once its controller has seen the new template, lost groups below the partition still come back as
        # they were until the rollout is done.
        self._is_rolling = any(group.outdated for group in state.groups)
        self._groups = {group.index: _group_of(group) for group in state.groups}

    @property
    def state(self) -> RolloutState:
        """What the next step is decided from."""
        stored = self._stored
        if stored is None:
            return replace(self._given, groups=(), statefulset=None)
        told = replace(stored, observed=self._is_observed, awaited=not self._is_observed)
        groups = tuple(self._state_of(index, each) for index, each in sorted(self._groups.items()))
        return replace(self._given, groups=groups, statefulset=told)

    def is_changed_by(self, rollout: Rollout) -> bool:
        """Whether carrying the step out would write anything that matters."""
        stored = self._stored
        if stored is None or rollout.replace or not stored.is_current:
            return True
        return (rollout.partition, rollout.replicas) != (stored.partition, stored.replicas)

    def tell(self, rollout: Rollout, is_former: bool = False) -> None:
        """Carry a step out: leaders first, then what the StatefulSet is told. is_former: it is made with a
        revision that the set came from.
        """
        self._is_rolling |= is_former
        for index in rollout.replace:
            self._groups[index].is_terminating = True
        stored = self._stored
        if stored is None:
            stored = LeaderStatefulSet(replicas=0, partition=0)
        told = replace(
            stored,
            partition=rollout.partition,
            replicas=rollout.replicas,
            last_replicas=self._given.replicas,
            is_current=not is_former,
        )
        if told != self._stored:
            self._is_observed = False
        self._stored = told

    def sync(self) -> bool:
        """One pass of the StatefulSet controller; True if it did or reported anything."""
        stored = self._stored
        if stored is None:
            return False
        has_news, self._is_observed = not self._is_observed, True
        acted = self._create_missing(stored) | self._scale_down(stored) | self._update(stored)
        groups = self._groups.values()
        if len(groups) == stored.replicas and all(each.is_new and each.is_available for each in groups):
            self._is_rolling = False
        return acted or has_news

    def move(self) -> bool:
        """Every pod makes one move; True if any could."""
        movable = [each for each in self._groups.values() if each.is_terminating or not each.is_stuck]
        movable = [each for each in movable if each.is_terminating or each.stage < _READY]
        for each in movable:
            each.stage = _GONE if each.is_terminating else each.stage + 1
        self._groups = {index: each for index, each in self._groups.items() if each.stage != _GONE}
        return bool(movable)

    def _create_missing(self, stored: LeaderStatefulSet) -> bool:
        missing = [index for index in range(stored.replicas) if index not in self._groups]
        for index in missing:
            comes_back_old = self._is_rolling and index < stored.partition
            self._groups[index] = _Group(is_new=stored.is_current and not comes_back_old)
        return bool(missing)

    def _scale_down(self, stored: LeaderStatefulSet) -> bool:
        going = [
            each
            for index, each in self._groups.items()
            if index >= stored.replicas and not each.is_terminating
        ]
        for each in going:
            each.is_terminating = True
        return bool(going)

    def _update(self, stored: LeaderStatefulSet) -> bool:
        if not stored.is_current:
            return False
        taken = self._one_at_a_time(stored)
        if stored.max_unavailable is not None:
            down = sum(not self._groups[index].is_available for index in range(stored.replicas))
            outdated = self._outdated(stored)
            available = [index for index in outdated if self._groups[index].is_available]
            spared = available[max(0, stored.max_unavailable - down) :]
            taken = [index for index in outdated if index not in spared]
        for index in taken:
            self._groups[index].is_terminating = True
        return bool(taken)

    def _one_at_a_time(self, stored: LeaderStatefulSet) -> list[int]:
        outdated = self._outdated(stored)
        for index in reversed(range(stored.partition, stored.replicas)):
            if index in outdated:
                return [index]
            if not self._groups[index].is_available:
                return []
        return []

    def _outdated(self, stored: LeaderStatefulSet) -> list[int]:
        """Those that the controller would replace, highest first."""
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
