"""Tests of thousands of states against upstream's rules, which share no code with the planner."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

from lws.leaderworkerset.rollout.state import make_budget
from test.unit.lws.leaderworkerset.rollout.reference import (
    Case,
    is_held_up,
    is_rolling,
    planned_step,
    reference,
)


def test_random_states_match_the_reference() -> None:
    """Without broken groups upstream's rules hold, except for deviations that the test recognises."""
    generator = random.Random(20260301)
    seen: Counter[str] = Counter()
    for _ in range(6000):
        state = _random_case(generator)
        ours, theirs = planned_step(state), reference(state)
        seen[_compare_partition(state, ours[0], theirs[0])] += 1
        seen[_compare_replicas(state, ours, theirs[1])] += 1
    # The test below covers more of these cases.
    del seen["the only group at once"]
    assert seen["same partition"] > 4500
    assert seen["same replicas"] > 4500
    assert min(seen.values()) > 20, seen


def test_sets_of_one_match_the_reference() -> None:
    """The group is replaced at once, except with a surge, a partition, or doubts about its state."""
    seen: Counter[str] = Counter()
    budgets = [(unavailable, surge) for unavailable in (0, 1, 3) for surge in (0, 1)]
    for letter, (unavailable, surge), floor, last in product("ruRT-t", budgets, (0, 1), (0, 1, None, 3)):
        limits = make_budget(1, unavailable, surge)
        state = Case(letter, 1, 1, 0, limits.unavailable, limits.surge, floor, last, is_new_revision=True)
        ours, theirs = planned_step(state), reference(state)
        seen[_compare_partition(state, ours[0], theirs[0])] += 1
        _compare_replicas(state, ours, theirs[1])
    assert seen["the only group at once"] == 3 * 4, "three budgets, each with four former numbers of replicas"


def _random_case(generator: random.Random) -> Case:
    desired = generator.randint(0, 9)
    limits = make_budget(desired, generator.randint(0, 4), generator.randint(0, 4))
    surged = desired + limits.surge
    existing = max(
        0, generator.choice([desired, desired, surged, surged, desired + generator.randint(-3, 5)])
    )
    old = generator.randint(0, existing)
    if generator.random() < 0.5:
        drawn = generator.choices("rrrrrrt-", k=old) + generator.choices("RRRRRuT-", k=existing - old)
    else:
        drawn = generator.choices("rrrRRuu-tT", k=existing)
    return Case(
        letters="".join(drawn),
        desired=desired,
        existing=existing,
        stored_partition=generator.choice([0, existing, generator.randint(0, existing + 1)]),
        unavailable=limits.unavailable,
        surge=limits.surge,
        floor=generator.choice([0, 0, 0, generator.randint(0, desired + 1)]),
        last=generator.choice([desired, desired, None, existing, generator.randint(0, 9)]),
        is_new_revision=generator.random() < 0.15,
    )


def _compare_partition(state: Case, ours: int, theirs: int) -> str:
    spare = max(0, state.ready - state.min_ready)
    covered = state.existing if state.is_new_revision else state.stored_partition
    if theirs < covered and state.letters[theirs:].count("r") > spare:
        # Upstream's rules exceed the remaining budget. Ours stay within it.
        assert theirs < ours, state
        assert ours >= covered or state.letters[ours:].count("r") <= spare, state
        return "partition within the availability floor"
    if is_rolling(state) and is_held_up(state):
        assert ours <= theirs, state
        assert ours == theirs or state.letters[ours:].count("r") <= spare, state
        return "partition past a stuck group"
    if state.is_new_revision and (state.desired, state.existing, state.surge) == (1, 1, 0) and ours < theirs:
        assert (ours, theirs) == (0, 1) and state.floor == 0 and state.letters[0] == "r", state
        return "the only group at once"
    assert ours == theirs, state
    return "same partition"


def _compare_replicas(state: Case, decision: tuple[int, int], upstream: int) -> str:
    (partition, ours), theirs = decision, upstream
    outdated = set(state.letters[: state.desired]) & set("rt")
    if is_rolling(state) and not outdated:
        theirs = state.desired
    updating = set(state.letters[state.floor : state.desired]) & set("rt")
    is_plain = not state.is_new_revision and state.last == state.existing > state.desired and not updating

    def staying(replicas: int) -> int:
        return state.letters[:replicas].count("R") + state.letters[: min(partition, replicas)].count("r")

    if theirs < state.existing and not is_plain and staying(theirs) < state.min_ready:
        # Upstream's rules would take groups that are needed. Ours stop at the first of these.
        assert theirs < ours <= state.existing, state
        assert ours == state.existing or staying(ours) >= state.min_ready > staying(ours - 1), state
        return "surge kept"
    assert ours == theirs, state
    return "same replicas" if theirs == upstream else "no surge without outdated groups"
