"""Tests of rollouts of one slice with events in random order.

Every write keeps the promises, and the rollout ends from every state. The test plays 300 rollouts by default,
and 20,000 longer ones with HYPOTHESIS_PROFILE=nightly.
"""

from __future__ import annotations

import os
import random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from lws.disaggregatedset.rollout.state import RoleTarget
from test.unit.stories.disaggregated.days import BUDGETS, TARGETS, play
from test.unit.stories.disaggregated.world import NAMES, World

COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck),
}
PROFILES = {
    "default": settings(max_examples=300, stateful_step_count=6, derandomize=True, **COMMON),
    "nightly": settings(max_examples=20_000, stateful_step_count=20, **COMMON),
}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
DAYS = {"default": 500, "nightly": 100_000}[PROFILE]

names = st.sampled_from(NAMES)
targets = st.sampled_from([2, 3, 1, 5, 4, 0])
budgets = st.sampled_from(BUDGETS)
templates = st.sampled_from("abc")
courses = st.integers(0, 2**20)
"""Seed of what follows an event: passes of the manager, whose writes may fail."""


class Machine(RuleBasedStateMachine):
    """One slice and the events that happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World

    @initialize(
        roles=st.lists(st.tuples(st.sampled_from(TARGETS), budgets), min_size=2, max_size=4),
        is_new=st.sampled_from([False, False, False, True]),
        knows_broken=st.booleans(),
        template=templates,
    )
    def begin(
        self, roles: list[tuple[int, tuple[int, int]]], is_new: bool, knows_broken: bool, template: str
    ) -> None:
        """Begin with a settled or a new slice, whose user wants another revision."""
        targets = {n: RoleTarget(n, t, *budget) for n, (t, budget) in zip(NAMES, roles, strict=False)}
        self.world = World(targets, knows_broken=knows_broken)
        if not is_new:
            self.world.begin_settled()
        self.world.change(template)

    @rule(template=templates, is_hopeless=st.booleans(), course=courses)
    def change(self, template: str, is_hopeless: bool, course: int) -> None:
        self.world.change(template)
        if is_hopeless:
            self.world.give_up_on_target()
        self._go_on(course)

    @rule(role=names, groups=targets, course=courses)
    def scale(self, role: str, groups: int, course: int) -> None:
        self.world.scale(role, groups)
        self._go_on(course)

    @rule(role=names, budget=budgets, course=courses)
    def spend(self, role: str, budget: tuple[int, int], course: int) -> None:
        self.world.spend(role, *budget)
        self._go_on(course)

    @rule(role=names, groups=targets, budget=budgets, course=courses)
    def add_role(self, role: str, groups: int, budget: tuple[int, int], course: int) -> None:
        self.world.add_role(RoleTarget(role, groups, *budget))
        self._go_on(course)

    @rule(role=names, course=courses)
    def remove_role(self, role: str, course: int) -> None:
        self.world.remove_role(role)
        self._go_on(course)

    @rule(course=courses)
    def rename_all(self, course: int) -> None:
        self.world.rename_all()
        self._go_on(course)

    @rule(groups=st.integers(1, 6), course=courses)
    def break_groups(self, groups: int, course: int) -> None:
        dice = random.Random(course)
        for _ in range(groups):
            self.world.break_group(dice)
        self._go_on(course)

    @rule(course=courses)
    def heal_group(self, course: int) -> None:
        self.world.heal_group(random.Random(course))
        self._go_on(course)

    @rule(course=courses)
    def lose_child(self, course: int) -> None:
        self.world.lose_child(random.Random(course))
        self._go_on(course)

    @rule(course=courses)
    def lose_memory(self, course: int) -> None:
        self.world.lose_memory()
        self._go_on(course)

    @rule(course=courses)
    def pause(self, course: int) -> None:
        self.world.pause()
        self._go_on(course)

    @rule(course=courses)
    def go_on(self, course: int) -> None:
        self._go_on(course)

    def _go_on(self, course: int) -> None:
        dice = random.Random(course)
        self.world.go_on(dice, course % 8, trouble=0.3 * (course % 2), speed=(0.2, 0.6, 1.0)[course % 3])

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()


def test_every_rollout_keeps_its_promises_and_ends() -> None:
    run_state_machine_as_test(Machine, settings=PROFILES[PROFILE])


def test_groups_above_the_ceiling_are_deleted_when_a_role_shrinks_in_a_rollback() -> None:
    """The role is ahead of the plan. Groups above its ceiling are deleted, however few the other roles have
    lost.
    """
    world = World({"x": RoleTarget("x", 4), "z": RoleTarget("z", 5, 3, 1)})
    world.begin_settled()
    world.change("b")
    world.go_on(random.Random(0), 5, speed=1)
    world.change("c")
    world.go_on(random.Random(0), 3, speed=1)
    world.scale("z", 2)
    world.change("b")
    world.settle()
    assert "c:xz/z=1" in world.writes


def test_random_event_sequences_end_well() -> None:
    for seed in range(DAYS):
        try:
            play(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
