"""Tests that groups start in waves: on creation, on scale-up, and in a rollout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.plan import is_small_step, plan_rollout
from lws.leaderworkerset.rollout.simulation import simulate
from lws.leaderworkerset.rollout.state import Budget, RolloutState
from lws.leaderworkerset.spec import SetSpec, StartWaves
from test.unit.builders import make_set
from test.unit.stories.letters import groups, letters_of

TWO_THEN_DOUBLE = StartWaves(2, 2)
MUCH = Budget(9, 0)


def state(letters: str, replicas: int, stored: LeaderStatefulSet, limits: Budget = MUCH) -> RolloutState:
    return RolloutState(
        replicas, limits, groups=groups(letters), statefulset=stored, start_strategy=TWO_THEN_DOUBLE
    )


@pytest.mark.parametrize(
    ("start_strategy", "expected"),
    [
        ({"seedGroups": 3, "growthFactor": 4}, StartWaves(3, 4)),
        ({}, StartWaves(1, 2)),
        ({"seedGroups": None, "growthFactor": "4"}, StartWaves(1, 2)),
        (None, None),
    ],
)
def test_start_strategy_of_a_set(start_strategy: object, expected: StartWaves | None) -> None:
    lws = make_set()
    lws["spec"]["startStrategy"] = start_strategy
    assert SetSpec.of(lws).start_strategy == expected


def test_a_set_is_created_in_waves() -> None:
    simulation = simulate(RolloutState(10, Budget(1, 0), start_strategy=TWO_THEN_DOUBLE))
    assert [step.rollout.replicas for step in simulation.steps] == [2, 4, 8, 10]
    assert letters_of(simulation.groups, 10) == "R" * 10
    first = plan_rollout(RolloutState(10, Budget(1, 0), start_strategy=TWO_THEN_DOUBLE))
    assert first.why == "2 groups to be created"


@pytest.mark.parametrize(
    ("letters", "replicas"),
    [
        pytest.param("RRuu", 4, id="the second wave is starting"),
        pytest.param("RRRu", 6, id="each group that is ready lets more start"),
        pytest.param("RRR-", 6, id="a group that is missing comes by itself"),
        pytest.param("RRRR", 8, id="all of the second wave are ready"),
        pytest.param("uuuu", 4, id="none is ready"),
    ],
)
def test_a_scale_up_starts_in_waves(letters: str, replicas: int) -> None:
    rollout = plan_rollout(state(letters, 20, LeaderStatefulSet(4, 0, last_replicas=20)))
    assert (rollout.partition, rollout.replicas, rollout.replace) == (0, replicas, ())


@pytest.mark.parametrize(
    ("letters", "replicas"),
    [
        pytest.param("--", 2, id="the pods of the first wave are still to come"),
        pytest.param("RR--", 4, id="those of the second"),
        pytest.param("RRRR", 8, id="all are ready"),
        pytest.param("--rr", 6, id="those that come back are on another revision"),
    ],
)
def test_a_scale_up_below_the_partition_starts_in_waves(letters: str, replicas: int) -> None:
    """Each pass that ran before the pods started added groups to the wave."""
    before = state(letters, 20, LeaderStatefulSet(len(letters), 20, last_replicas=20))
    rollout = plan_rollout(replace(before, floor=20))
    assert (rollout.partition, rollout.replicas, rollout.replace) == (20, replicas, ())


@pytest.mark.parametrize(
    ("letters", "replicas"),
    [
        pytest.param("rrrrrrRR", 8, id="neither has been seen to go"),
        pytest.param("rrrrrtRR", 8, id="one has"),
        pytest.param("rrrruRRR", 10, id="one is starting, and three are ready"),
    ],
)
def test_groups_that_a_step_replaces_count_before_they_are_deleted(letters: str, replicas: int) -> None:
    """A scale-up right after a rollout step started a whole wave in addition to the step's groups."""
    rollout = plan_rollout(state(letters, 20, LeaderStatefulSet(8, 4, last_replicas=8, max_unavailable=9)))
    assert rollout.replicas == replicas


def test_waiting_reason_of_a_scale_up() -> None:
    rollout = plan_rollout(state("uu", 20, LeaderStatefulSet(2, 0, last_replicas=20)))
    assert rollout.waiting_for == "groups 0 to 1 to be ready, before 18 more start"


def test_a_scale_down_is_not_delayed() -> None:
    assert plan_rollout(state("uuuu", 1, LeaderStatefulSet(4, 0, last_replicas=4))).replicas == 1


def test_a_rollout_moves_a_few_groups_first() -> None:
    stored = LeaderStatefulSet(12, 0, is_current=False, last_replicas=12, max_unavailable=9)
    simulation = simulate(state("r" * 12, 12, stored))
    waves = [len(step.rollout.replace) for step in simulation.steps if step.rollout.replace]
    assert waves == [2, 2, 4, 4]
    assert letters_of(simulation.groups, 12) == "R" * 12


@pytest.mark.parametrize(
    ("letters", "partition", "replaced"),
    [
        pytest.param("rrrrrrRR", 4, (5, 4), id="two are ready, two more may start"),
        pytest.param("rrrrrrRu", 6, (), id="of three that would, two are on their way"),
        pytest.param("xxxxxxRR", 4, (5, 4), id="broken ones start as well"),
        pytest.param("xxxxxxuu", 6, (), id="nothing has become ready"),
    ],
)
def test_a_rollout_step_starts_a_wave(letters: str, partition: int, replaced: tuple[int, ...]) -> None:
    stored = LeaderStatefulSet(8, 6, last_replicas=8, max_unavailable=9)
    rollout = plan_rollout(state(letters, 8, stored))
    assert (rollout.partition, rollout.replace) == (partition, replaced)


def test_the_surge_starts_in_waves_too() -> None:
    stored = LeaderStatefulSet(8, 0, is_current=False, last_replicas=8)
    rollout = plan_rollout(state("r" * 8, 8, stored, Budget(0, 6)))
    assert (rollout.partition, rollout.replicas, rollout.replace) == (8, 10, ())


def test_a_surge_group_without_a_node_does_not_block_a_wave() -> None:
    """The surge group may wait for the node of a group that the wave would replace."""
    stored = LeaderStatefulSet(9, 8, last_replicas=8, max_unavailable=9)
    before = replace(state("r" * 8 + "u", 8, stored, Budget(2, 1)), start_strategy=StartWaves(1, 2))
    assert plan_rollout(before).partition == 8
    unplaced = replace(before.groups[-1], unscheduled=True)
    rollout = plan_rollout(replace(before, groups=(*before.groups[:-1], unplaced)))
    assert (rollout.partition, rollout.replicas, rollout.replace) == (7, 9, (7,))
    # A group within the replicas counts however long it waits: otherwise more groups would start each time.
    added = state("uu", 20, LeaderStatefulSet(2, 0, last_replicas=20))
    waiting = tuple(replace(group, unscheduled=True) for group in added.groups)
    assert plan_rollout(replace(added, groups=waiting)).replicas == 2


def test_a_scale_up_while_paused_starts_in_waves() -> None:
    stored = LeaderStatefulSet(2, 2, last_replicas=2)
    rollout = plan_rollout(replace(state("rR", 20, stored), paused=True))
    assert rollout.replicas == 3


@pytest.mark.parametrize("held", [{"paused": True}, {"prewarming": "nodes to pull the images"}])
def test_a_scale_up_beside_a_kept_surge_starts_in_waves(held: dict[str, Any]) -> None:
    """The surge group has not started yet, so no further group may start on its revision."""
    stored = LeaderStatefulSet(4, 3, last_replicas=3)
    before = replace(state("rrru", 4, stored, Budget(2, 1)), start_strategy=StartWaves(1, 2))
    assert plan_rollout(replace(before, **held)).replicas == 4


def test_small_steps_are_not_combined() -> None:
    before = state("r" * 20, 20, LeaderStatefulSet(20, 20, last_replicas=20), Budget(10, 0))
    rollout = plan_rollout(before)
    assert rollout.partition == 18
    assert not is_small_step(before, rollout)
    assert is_small_step(replace(before, start_strategy=None), rollout)
