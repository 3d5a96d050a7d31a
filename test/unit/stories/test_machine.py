"""Tests of rollouts with events in any order: the product's own passes on a cluster in memory.

Store, observation, plans and application are real. Promises hold in every pass, and the rollout ends from
every state. The test plays 300 rollouts by default, and 20,000 longer ones with HYPOTHESIS_PROFILE=nightly.
"""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
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

from lws.leaderworkerset.group import plan as group_plan
from lws.leaderworkerset.observe import observer
from lws.runtime.actions import Key, Plan
from lws_api.leaderworkerset.v1 import KIND
from test.unit.stories.fake_cluster import NAME, FakeCluster
from test.unit.stories.promises import SIZES
from test.unit.stories.world import FAULTS, World

_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck),
}
PROFILES = {
    "default": settings(max_examples=300, stateful_step_count=2, derandomize=True, **_COMMON),
    "nightly": settings(max_examples=20_000, stateful_step_count=10, **_COMMON),
}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
MOST_GROUPS = {"default": 3, "nightly": 6}[PROFILE]
MOST_MOVES = {"default": 6, "nightly": 40}[PROFILE]

# Repeated entries are drawn more often.
counts = st.sampled_from([2, MOST_GROUPS, 1, 2, 0])
indices = st.integers(0, MOST_GROUPS)
seeds = st.integers(0, 2**16)
revisions = st.sampled_from(sorted(SIZES))
unavailable = st.sampled_from([1, 1, 2, 0, "25%", "50%"])
surges = st.sampled_from([0, 0, 1, 2, "25%"])
restarts = st.sampled_from(["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"])
startups = st.sampled_from(["LeaderCreated", "LeaderReady"])
courses = st.integers(0, 2**20)
"""Seed of what follows an event: moves in random order, and writes that may fail."""


class Machine(RuleBasedStateMachine):
    """One set and the events that happen to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.world: World

    @initialize(
        beginning=st.tuples(st.booleans(), revisions, counts),
        is_new=st.sampled_from([False, False, False, True]),
        budget=st.tuples(unavailable, surges),
        policies=st.tuples(restarts, startups),
        seed_groups=st.sampled_from([0, 0, 1, 2]),
        deadline=st.sampled_from([0, 0, 5, 600]),
        is_cold=st.booleans(),
        returns=st.sampled_from(["", "Preferred", "Required", "Required, doomed"]),
        revision=revisions,
    )
    def begin(
        self,
        beginning: tuple[bool, str, int],
        is_new: bool,
        budget: tuple[int | str, int | str],
        policies: tuple[str, str],
        seed_groups: int,
        deadline: int,
        is_cold: bool,
        returns: str,
        revision: str,
    ) -> None:
        """Begin with a set, settled or new, whose user wants another revision."""
        self.world = self.first((World.new if is_new else World.settled)(self.loop, *beginning))
        self.world.configure(maxUnavailable=budget[0], maxSurge=budget[1])
        self.world.set_policies(*policies, "Parallel" if beginning[2] % 2 else "Default")
        if seed_groups:
            self.world.start_in_waves(seedGroups=seed_groups)
        if deadline:
            self.world.prewarm(deadline, 2, is_cold)
        if returns:
            self.world.return_to_nodes(returns.partition(",")[0], "doomed" in returns)
        self.world.change(revision)

    def first(self, world: World) -> World:
        """Return the world that the course begins in."""
        return world

    @rule(revision=revisions, is_hopeless=st.booleans(), course=courses)
    def change(self, revision: str, is_hopeless: bool, course: int) -> None:
        if is_hopeless and revision != self.world.revision and len(self.world.nodes.hopeless) < 2:
            self.world.nodes.hopeless |= {revision}
        self.world.change(revision)
        self._go_on(course)

    @rule(replicas=counts, course=courses)
    def scale(self, replicas: int, course: int) -> None:
        self.world.scale(replicas)
        self._go_on(course)

    @rule(partition=indices, course=courses)
    def move_partition(self, partition: int, course: int) -> None:
        self.world.configure(partition=partition)
        self._go_on(course)

    @rule(budget=st.tuples(unavailable, surges), course=courses)
    def spend(self, budget: tuple[int | str, int | str], course: int) -> None:
        self.world.floor.give_up()
        self.world.configure(maxUnavailable=budget[0], maxSurge=budget[1])
        self._go_on(course)

    @rule(course=courses)
    def pause(self, course: int) -> None:
        self.world.pause(not self.world.is_paused)
        self._go_on(course)

    @rule(fault=st.sampled_from(FAULTS), number=seeds, course=courses)
    def strike(self, fault: str, number: int, course: int) -> None:
        self.world.strike(fault, number)
        self._go_on(course)

    @rule(tamper=st.sampled_from(["garble", "lose", "lose but for its pods"]), course=courses)
    def tamper(self, tamper: str, course: int) -> None:
        if tamper == "garble":
            self.world.garble()
        else:
            self.world.lose_statefulset(leaves_pods=tamper != "lose")
        self._go_on(course)

    @rule(course=courses)
    def restart(self, course: int) -> None:
        self.world.restart()
        self._go_on(course)

    @rule(former=courses, course=courses)
    def fail_over(self, former: int, course: int) -> None:
        standby = self.world.stand_by()
        self._go_on(former)
        self.world.take_over(standby)
        self._go_on(course)

    @rule(missed=st.integers(0, 4), repeated=st.integers(0, 5), course=courses)
    def disturb_streams(self, missed: int, repeated: int, course: int) -> None:
        self.world.miss(missed)
        self.world.repeat(repeated)
        self._go_on(course)

    @rule(seconds=st.sampled_from([1, 15, 100]), course=courses)
    def wait(self, seconds: int, course: int) -> None:
        self.world.cluster.pass_time(seconds)
        self.world.manager.ring()
        self._go_on(course)

    @rule(hours=st.sampled_from([-1, 1]), course=courses)
    def set_clock(self, hours: int, course: int) -> None:
        self.world.cluster.set_clock(timedelta(hours=hours))
        self._go_on(course)

    @rule(rounds=st.integers(1, 8))
    def go_on(self, rounds: int) -> None:
        self.world.go_on_fairly(rounds)

    def _go_on(self, course: int) -> None:
        seed, moves = divmod(course, MOST_MOVES + 1)
        self.world.go_on(moves, seed, trouble=0.2 * (seed % 2))

    def teardown(self) -> None:
        if hasattr(self, "world") and self.world.is_sound:
            self.world.settle()


def test_every_rollout_keeps_its_promises_and_ends(loop: asyncio.AbstractEventLoop) -> None:
    run_state_machine_as_test(lambda: Machine(loop), settings=PROFILES[PROFILE])


class ForeignWorld(World):
    """A world whose set another controller runs (managedBy) and whose objects that controller has created."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: FakeCluster) -> None:
        lws = cluster.objects[KIND, NAME]
        cluster.change(lws, spec={**lws["spec"], "managedBy": "example.com/another"})
        super().__init__(loop, cluster)

    def check(self) -> None:
        """Check that we have written neither the set nor its children nor Events."""
        assert not self.cluster.writes, self.picture

    def _on_plan(self, key: Key, snapshot: Any, plan: Plan) -> None:
        assert plan.is_empty, f"{key}: {plan}"


class ForeignMachine(Machine):
    """The same course of a set that another controller runs."""

    def first(self, world: World) -> World:
        return ForeignWorld(self.loop, world.cluster)

    def teardown(self) -> None:
        if hasattr(self, "world") and self.world.is_sound:
            self.world.go_on_fairly(8)


def test_a_set_of_another_controller_is_never_written(loop: asyncio.AbstractEventLoop) -> None:
    run_state_machine_as_test(lambda: ForeignMachine(loop), settings=PROFILES[PROFILE])


def _without_webhook(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.cluster.has_former = lambda pod: False


def _lifted_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "former_pods", lambda *_: ())
    monkeypatch.setattr(group_plan, "_is_of_former_leader", lambda *_: False)


def _lifted_by_names(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count only the former pods whose names the new group needs."""
    every = observer.former_pods
    needed = f"{NAME}-1-1"

    def found(*args: Any) -> Any:
        return tuple(pod for pod in every(*args) if pod["metadata"]["name"] == needed)

    monkeypatch.setattr(observer, "former_pods", found)


@pytest.mark.parametrize("mutant", [_without_webhook, _lifted_at_once, _lifted_by_names])
@pytest.mark.parametrize("has_feature", [False, True])
def test_old_workers_meet_new_leaders_without_a_part_of_the_gate(
    loop: asyncio.AbstractEventLoop, has_feature: bool, mutant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_broken in (False, True):
        world = World.settled(loop, has_feature, "E", 2)
        world.change("C")
        name = f"{NAME}-1-2"
        last = world.cluster.find("Pod", name)
        assert last is not None
        world.nodes.held.add(last["metadata"]["uid"])
        if not is_broken:
            world.go_on_fairly(20)
            world.settle()
            continue
        mutant(world, monkeypatch)
        with pytest.raises(AssertionError, match=f"{NAME}-1-[12] of a former leader meets {NAME}-1"):
            world.go_on_fairly(20)
