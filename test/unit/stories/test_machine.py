"""Tests of sets with any features, with events in any order: the product's own passes on a cluster in memory.

Store, observation, plans and application are real. Each two features that admission does not refuse together
meet in MEETINGS sets. Promises hold in every pass and an independent reader of the objects finds the status
true; the rollout ends from every state. The test plays 1,000 sets by default, and 20,000 for longer with
HYPOTHESIS_PROFILE=nightly.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from itertools import combinations, compress
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
from test.unit.stories.promises import REVISIONS
from test.unit.stories.role_world import RoleWorld
from test.unit.stories.world import FAULTS, GANG, HASH, LASTING, LONGEST_DEADLINE, ROLE, SCHEDULING, World

_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck),
}
PROFILES = {
    "default": settings(max_examples=1050, stateful_step_count=2, derandomize=True, **_COMMON),
    "nightly": settings(max_examples=20_000, stateful_step_count=10, **_COMMON),
}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
MOST_GROUPS = {"default": 3, "nightly": 6}[PROFILE]
MOST_MOVES = {"default": 6, "nightly": 40}[PROFILE]

# Repeated entries are drawn more often.
counts = st.sampled_from([2, MOST_GROUPS, 1, 2, 0])
indices = st.integers(0, MOST_GROUPS)
_RECREATING = "RecreateGroupOnPodRestart"
seeds = st.integers(0, 2**16)
revisions = st.sampled_from(REVISIONS)
unavailable = st.sampled_from([1, 1, 2, 0, "25%", "50%"])
surges = st.sampled_from([0, 0, 1, 2, "25%"])
restarts = st.sampled_from(["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"])
startups = st.sampled_from(["LeaderCreated", "LeaderReady"])
courses = st.integers(0, 2**20)
"""Seed of what follows an event: moves in random order, and writes that may fail."""


Features = frozenset[str]


def _of_kind(kinds: Sequence[tuple[str, ...]], is_chosen: Sequence[bool]) -> st.SearchStrategy[Features]:
    """Return a strategy of sets with all features of one kind, and some of those that every set may have."""
    choices = st.lists(st.sampled_from(is_chosen), min_size=len(_WITH_ALL), max_size=len(_WITH_ALL))
    return st.builds(
        lambda kind, chosen: frozenset([*kind, *compress(_WITH_ALL, chosen)]), st.sampled_from(kinds), choices
    )


START, PREWARM, LIMIT, BACKOFF = "startStrategy", "prewarm", "restart limit", "back-off"
RETURN, PARTITION, PAUSE, SURGE, BUDGET = "node-return", "partition", "pause", "surge", "disruption budget"
EXCLUDED = {
    frozenset({HASH, PREWARM}): "not supported with groupIdentity Hash",
    frozenset({HASH, PARTITION}): "partition is not supported with groupIdentity Hash",
    frozenset({ROLE, PARTITION}): "partition is not supported by DisaggregatedSet",
}
"""Pairs of features that admission refuses, and its words."""
_WITH_ALL = (START, LIMIT, BACKOFF, RETURN, GANG, SCHEDULING, PAUSE, SURGE, BUDGET)
FEATURES = (HASH, PREWARM, PARTITION, ROLE, *_WITH_ALL)
MEETINGS = 200
"""The least number of sets in which each two features meet, unless admission refuses the pair."""
_KINDS = ((HASH, ROLE), (PREWARM, ROLE), (PREWARM, PARTITION), (HASH,))
_ALONE = ((), (HASH,), (PREWARM,), (PARTITION,))
_OFTEN, _RARELY = [True] * 29 + [False], [False, False, False, True]
features = st.one_of(
    *[_of_kind([kind], _OFTEN) for kind in (*_KINDS, *_KINDS, *_KINDS, *_KINDS[:2])],
    _of_kind(_ALONE, _RARELY),
)


def add_features(world: World, chosen: Features, chance: random.Random) -> None:
    """Add the features that the set has not had from the beginning. Their details are random."""
    pick = chance.choice
    if START in chosen:
        world.start_in_waves(seedGroups=pick([1, 1, 2]))
    if PREWARM in chosen:
        world.prewarm(pick([5, 600]), 2, pick([True, False]))
    if LIMIT in chosen:
        world.limit_restarts(pick([0, 1, 2]), pick([True, False]))
    if BACKOFF in chosen:
        world.back_off(pick([1, 30]), pick([60, 120]))
    if RETURN in chosen:
        returns = "Preferred" if HASH in chosen else pick(["Preferred", "Required"])
        world.return_to_nodes(returns, pick([True, False]))
    if PARTITION in chosen:
        world.configure(partition=pick([1, 2]))
    if PAUSE in chosen and pick([True, False, False]):
        world.pause(True)
    if BUDGET in chosen:
        world.limit_disruptions(pick([1, 2]))
    if pick([True, False]):
        world.expect_progress(pick([20, 60, LONGEST_DEADLINE]))
    if HASH in chosen and pick([True, False, False]):
        world.replace_at_once()


class Machine(RuleBasedStateMachine):
    """One set and the events that happen to it. met: how many sets had each two features."""

    met: Counter[Features]
    without: Features = frozenset()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.world: World

    @initialize(
        chosen=features,
        beginning=st.tuples(st.booleans(), revisions, counts),
        is_new=st.sampled_from([False, False, False, True]),
        budget=st.tuples(unavailable, surges),
        policies=st.tuples(restarts, startups),
        details=courses,
        revision=revisions,
        is_hopeless=st.booleans(),
        losses=st.lists(st.tuples(st.sampled_from(FAULTS), seeds), max_size=2),
    )
    def begin(
        self,
        chosen: Features,
        beginning: tuple[bool, str, int],
        is_new: bool,
        budget: tuple[int | str, int | str],
        policies: tuple[str, str],
        details: int,
        revision: str,
        is_hopeless: bool,
        losses: list[tuple[str, int]],
    ) -> None:
        """Begin with a set, settled or new, whose user wants another revision, and which loses pods."""
        chosen -= self.without
        of_world = RoleWorld if ROLE in chosen else World
        lasting = chosen & {*LASTING}
        make = of_world.new if is_new else of_world.settled
        self.world = self.first(make(self.loop, *beginning, lasting))
        self.world.configure(maxUnavailable=budget[0], maxSurge=budget[1] if SURGE in chosen else 0)
        startup = "LeaderCreated" if SCHEDULING in chosen else policies[1]
        restart = policies[0] if not chosen & {LIMIT, BACKOFF} or policies[0] != "None" else _RECREATING
        self.world.set_policies(restart, startup, "Parallel" if beginning[2] % 2 else "Default")
        chance = random.Random(details)
        self.world.refused.clear()
        add_features(self.world, chosen, chance)
        assert not self.world.refused, f"{chosen}: {self.world.refused}"
        self.met.update(map(frozenset, combinations(sorted(chosen), 2)))
        self._begin_rollout(revision, is_hopeless)
        self.world.go_on_fairly(chance.choice([0, 1, 3, 6]))
        if PAUSE in chosen:
            self.world.pause(not self.world.is_paused or chance.choice([True, False]))
        for loss in losses:
            self.world.strike(*loss)
            self.world.go_on_fairly(chance.choice([0, 1, 3]))

    def _begin_rollout(self, revision: str, is_hopeless: bool) -> None:
        if is_hopeless and revision != self.world.revision and len(self.world.nodes.hopeless) < 2:
            self.world.nodes.hopeless |= {revision}
        self.world.change(revision)

    def first(self, world: World) -> World:
        """Return the world that the course begins in."""
        return world

    @rule(revision=revisions, is_hopeless=st.booleans(), course=courses)
    def change(self, revision: str, is_hopeless: bool, course: int) -> None:
        self._begin_rollout(revision, is_hopeless)
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

    @rule(course=courses)
    def clean(self, course: int) -> None:
        self.world.clean()
        self._go_on(course)

    @rule(course=courses)
    def recover(self, course: int) -> None:
        self.world.recover()
        self._go_on(course)

    @rule(number=seeds, course=courses)
    def lose_set(self, number: int, course: int) -> None:
        self.world.lose_set(number)
        self._go_on(course)

    @rule(tamper=st.sampled_from(["garble", "lose", "lose but for its pods"]), course=courses)
    def tamper(self, tamper: str, course: int) -> None:
        if tamper == "garble":
            self.world.garble()
        else:
            self.world.lose_leaders(leaves_pods=tamper != "lose")
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

    @rule(course=courses)
    def rest(self, course: int) -> None:
        self.world.rest()
        self._go_on(course)

    def _go_on(self, course: int) -> None:
        seed, moves = divmod(course, MOST_MOVES + 1)
        self.world.go_on(moves, seed, trouble=0.2 * (seed % 2))

    def teardown(self) -> None:
        if hasattr(self, "world") and self.world.is_sound:
            self.world.settle()


def test_every_rollout_keeps_its_promises_and_ends(loop: asyncio.AbstractEventLoop) -> None:
    Machine.met = Counter()
    run_state_machine_as_test(lambda: Machine(loop), settings=PROFILES[PROFILE])
    for pair in map(frozenset, combinations(FEATURES, 2)):
        assert Machine.met[pair] >= MEETINGS or pair in EXCLUDED, f"{set(pair)}: {Machine.met[pair]} sets"


@pytest.mark.parametrize(("pair", "words"), EXCLUDED.items())
def test_admission_refuses_the_pairs_that_never_meet(
    loop: asyncio.AbstractEventLoop, pair: Features, words: str
) -> None:
    world = (RoleWorld if ROLE in pair else World).new(loop, False, "C", 2, pair & {*LASTING})
    add_features(world, pair, random.Random(0))
    assert any(words in error for error in world.refused), world.refused


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
    """The same course of a set that another controller runs. A role never has such a set."""

    without = frozenset({ROLE})

    def first(self, world: World) -> World:
        return ForeignWorld(self.loop, world.cluster)

    def teardown(self) -> None:
        if hasattr(self, "world") and self.world.is_sound:
            self.world.go_on_fairly(8)


def test_a_set_of_another_controller_is_never_written(loop: asyncio.AbstractEventLoop) -> None:
    ForeignMachine.met = Counter()
    few = settings(PROFILES[PROFILE], max_examples=PROFILES[PROFILE].max_examples // 5)
    run_state_machine_as_test(lambda: ForeignMachine(loop), settings=few)


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
