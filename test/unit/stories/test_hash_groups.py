"""Tests of lws.leaderworkerset.rollout.replacement with Deployment and ReplicaSets in any order of events.

Groups never hold more places than the set has, and none waits forever. The test plays 300 sets by default,
and 20,000 longer ones with HYPOTHESIS_PROFILE=nightly.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from lws.leaderworkerset.rollout.replacement import Leader, Teardown, leaders_to_admit
from test.unit.seeds import for_each_seed
from test.unit.stories.hash_world import HashWorld, Planner

COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck),
}
PROFILES = {
    "default": settings(max_examples=300, stateful_step_count=8, derandomize=True, **COMMON),
    "nightly": settings(max_examples=20_000, stateful_step_count=30, **COMMON),
}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")

counts = st.sampled_from([3, 2, 1, 5, 8, 0])
budgets = st.sampled_from([(1, 0), (0, 1), (1, 1), (2, 2), (3, 0), (0, 3)])
courses = st.integers(0, 2**20)
"""Seed of what follows an event: moves in random order."""


class Machine(RuleBasedStateMachine):
    """One set and the events that happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = HashWorld(0)

    @initialize(replicas=counts, budget=budgets, course=courses)
    def begin(self, replicas: int, budget: tuple[int, int], course: int) -> None:
        self.world = HashWorld(replicas, *budget)
        self._go_on(course)

    @rule(revision=st.sampled_from("abc"), is_hopeless=st.booleans(), course=courses)
    def change(self, revision: str, is_hopeless: bool, course: int) -> None:
        self.world.change(revision, is_hopeless)
        self._go_on(course)

    @rule(replicas=counts, course=courses)
    def scale(self, replicas: int, course: int) -> None:
        self.world.replicas = replicas
        self._go_on(course)

    @rule(budget=budgets, course=courses)
    def spend(self, budget: tuple[int, int], course: int) -> None:
        self.world.unavailable, self.world.surge = budget
        self._go_on(course)

    @rule(is_immediate=st.booleans(), course=courses)
    def choose(self, is_immediate: bool, course: int) -> None:
        self.world.is_immediate = is_immediate
        self._go_on(course)

    @rule(position=st.integers(0, 9), course=courses)
    def lose(self, position: int, course: int) -> None:
        self.world.lose(position)
        self._go_on(course)

    @rule(position=st.integers(0, 9), course=courses)
    def exhaust(self, position: int, course: int) -> None:
        self.world.exhaust(position)
        self._go_on(course)

    @rule(course=courses)
    def recover(self, course: int) -> None:
        self.world.recover()
        self._go_on(course)

    def _go_on(self, course: int) -> None:
        chance = random.Random(course)
        for _ in range(chance.randrange(12)):
            self.world.move(chance)

    def teardown(self) -> None:
        chance = random.Random(0)
        self.world.settle(chance)
        self.world.assert_settled()


def test_no_group_exceeds_the_limit_or_waits_forever() -> None:
    run_state_machine_as_test(Machine, settings=PROFILES[PROFILE])


def play(planner: Planner, seed: int) -> HashWorld:
    """Play a set with random events to its end."""
    chance = random.Random(seed)
    world = HashWorld(chance.choice([1, 2, 3, 5]), chance.randrange(3), chance.randrange(3), planner=planner)
    for _ in range(chance.randrange(1, 12)):
        event = chance.randrange(6)
        if event == 0:
            world.change(chance.choice("abc"), is_hopeless=chance.random() < 0.3)
        elif event == 1:
            world.replicas = chance.choice([1, 2, 3, 5, 8, 0])
        elif event == 2:
            world.exhaust(chance.randrange(9))
        elif event == 3 and chance.random() < 0.3:
            world.recover()
        else:
            world.lose(chance.randrange(9))
        for _ in range(chance.randrange(15)):
            world.move(chance)
    world.settle(chance)
    world.assert_settled()
    return world


@for_each_seed(300)
def test_random_event_sequences(seed: int) -> None:
    play(leaders_to_admit, seed)


def _without_teardowns(
    leaders: Sequence[Leader], teardowns: Sequence[Teardown], replicas: int, surge: int, is_immediate: bool
) -> tuple[Leader, ...]:
    return leaders_to_admit(leaders, (), replicas, surge, is_immediate)


def _with_surge_always(
    leaders: Sequence[Leader], teardowns: Sequence[Teardown], replicas: int, surge: int, is_immediate: bool
) -> tuple[Leader, ...]:
    return leaders_to_admit(leaders, teardowns, replicas + surge, 0, is_immediate)


def _current_only(
    leaders: Sequence[Leader], teardowns: Sequence[Teardown], replicas: int, surge: int, is_immediate: bool
) -> tuple[Leader, ...]:
    """Admit only leaders of the current revision, as upstream does."""
    admitted = leaders_to_admit(leaders, teardowns, replicas, surge, is_immediate)
    return tuple(leader for leader in admitted if leader.is_current)


def _one_revision(
    leaders: Sequence[Leader], teardowns: Sequence[Teardown], replicas: int, surge: int, is_immediate: bool
) -> tuple[Leader, ...]:
    """Consider only the current revision."""
    current = [leader for leader in leaders if leader.is_current]
    return leaders_to_admit(
        current, [teardown for teardown in teardowns if teardown.is_current], replicas, surge, is_immediate
    )


def _with_kept_as_others(
    leaders: Sequence[Leader], teardowns: Sequence[Teardown], replicas: int, surge: int, is_immediate: bool
) -> tuple[Leader, ...]:
    """Treat kept groups like other terminating ones. With a surge, the successor of a kept group has another
    place.
    """
    others = [replace(teardown, is_kept=False) for teardown in teardowns]
    return leaders_to_admit(leaders, others, replicas, surge, is_immediate)


@pytest.mark.parametrize(
    "planner",
    [_without_teardowns, _with_surge_always, _current_only, _one_revision, _with_kept_as_others],
)
def test_faulty_planners_are_caught(planner: Planner) -> None:
    with pytest.raises(AssertionError):
        for seed in range(300):
            play(planner, seed)


def test_a_rollout_with_surge_uses_every_place() -> None:
    """2 groups, maxUnavailable 1, maxSurge 1: the second new group waits until one of the former is gone."""
    world, chance = HashWorld(2, 1, 1), random.Random(1)
    world.settle(chance)
    world.change("b")
    while world.sync_deployment(chance) or world.sync_replicasets(chance):
        pass
    assert [len(world.live("a")), len(world.teardowns), len(world.gated)] == [1, 1, 2]
    world.lift_gates(chance)
    assert (len(world.gated), world.holding) == (1, 3)
    while world.terminate(chance):
        pass
    world.lift_gates(chance)
    assert (len(world.gated), world.holding) == (0, 3)


def test_a_lost_old_group_is_recreated_while_the_rollout_is_stuck() -> None:
    world, chance = HashWorld(3), random.Random(1)
    world.settle(chance)
    world.change("b", is_hopeless=True)
    world.settle(chance)
    world.lose([group.revision for group in world.live()].index("a"))
    world.settle(chance)
    assert sorted((group.revision, group.is_ready) for group in world.groups) == [
        ("a", True),
        ("a", True),
        ("b", False),
    ]
