"""Rollouts in any order of events, with the product's own store, observation, plans and application, against
a cluster in memory: promises hold in every pass, and from every state the rollout ends.

300 rollouts by default; HYPOTHESIS_PROFILE=nightly plays 20,000 longer ones.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from test.unit.stories.promises import SIZES
from test.unit.stories.world import World

_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck),
}
PROFILES = {
    "default": settings(max_examples=300, stateful_step_count=6, derandomize=True, **_COMMON),
    "nightly": settings(max_examples=20_000, stateful_step_count=20, **_COMMON),
}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
MOST_GROUPS = {"default": 3, "nightly": 6}[PROFILE]
MOST_MOVES = {"default": 8, "nightly": 40}[PROFILE]

counts = st.integers(0, MOST_GROUPS)
seeds = st.integers(0, 2**16)
revisions = st.sampled_from(sorted(SIZES))
unavailable = st.sampled_from([1, 0, 2, "25%", "50%"])
surges = st.sampled_from([0, 1, 2, "25%"])
restarts = st.sampled_from(["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"])
startups = st.sampled_from(["LeaderCreated", "LeaderReady"])


class Machine(RuleBasedStateMachine):
    """One set and what happens to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.world: World

    @initialize(
        beginning=st.tuples(st.booleans(), revisions, counts),
        is_settled=st.booleans(),
        budget=st.tuples(unavailable, surges),
        policies=st.tuples(restarts, startups),
    )
    def begin(
        self,
        beginning: tuple[bool, str, int],
        is_settled: bool,
        budget: tuple[int | str, int | str],
        policies: tuple[str, str],
    ) -> None:
        self.world = (World.settled if is_settled else World.new)(self.loop, *beginning)
        self.world.configure(maxUnavailable=budget[0], maxSurge=budget[1])
        self.world.set_policies(*policies)

    @rule(moves=st.integers(1, MOST_MOVES), seed=seeds, trouble=st.sampled_from([0.0, 0.2]))
    def go_on(self, moves: int, seed: int, trouble: float) -> None:
        self.world.go_on(moves, seed, trouble)

    @rule(revision=revisions, is_hopeless=st.booleans())
    def change(self, revision: str, is_hopeless: bool) -> None:
        if is_hopeless and revision != self.world.revision and len(self.world.nodes.hopeless) < 2:
            self.world.nodes.hopeless |= {revision}
        self.world.change(revision)

    @rule(replicas=counts)
    def scale(self, replicas: int) -> None:
        self.world.scale(replicas)

    @rule(partition=counts)
    def partition(self, partition: int) -> None:
        self.world.configure(partition=partition)

    @rule(max_unavailable=unavailable, max_surge=surges)
    def budget(self, max_unavailable: int | str, max_surge: int | str) -> None:
        self.world.configure(maxUnavailable=max_unavailable, maxSurge=max_surge)

    @rule(is_paused=st.booleans())
    def pause(self, is_paused: bool) -> None:
        self.world.pause(is_paused)

    @rule(fault=st.sampled_from(["crash", "stuck", "evicted", "node gone", "deleted"]), number=seeds)
    def strike(self, fault: str, number: int) -> None:
        self.world.strike(fault, number)

    @rule()
    def garble(self) -> None:
        self.world.garble()

    @rule(leaves_pods=st.booleans())
    def lose_statefulset(self, leaves_pods: bool) -> None:
        self.world.lose_statefulset(leaves_pods)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule(number=st.integers(0, 4))
    def miss(self, number: int) -> None:
        self.world.miss(number)

    @rule(events=st.integers(1, 5))
    def repeat(self, events: int) -> None:
        self.world.repeat(events)

    @rule(seconds=st.sampled_from([1, 15, 100]))
    def wait(self, seconds: int) -> None:
        self.world.cluster.pass_time(seconds)
        self.world.manager.ring()

    def teardown(self) -> None:
        if hasattr(self, "world") and self.world.is_sound:
            self.world.settle()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_every_rollout_keeps_its_promises_and_ends(loop: asyncio.AbstractEventLoop) -> None:
    run_state_machine_as_test(lambda: Machine(loop), settings=PROFILES[PROFILE])
