"""Tests of lws.leaderworkerset.rollout.simulation: the steps of a rollout, predicted without a cluster."""

from __future__ import annotations

import random
from dataclasses import replace

from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.simulation import Simulation, simulate
from lws.leaderworkerset.rollout.state import RolloutState, make_budget
from test.unit.seeds import for_each_seed
from test.unit.stories.letters import groups, letters_of
from test.unit.stories.story import Story, Wish


def changed(letters: str, unavailable: int = 1, surge: int = 0, **stored: object) -> RolloutState:
    """Return a set whose template has just changed, with groups as the letters say."""
    count = len(letters)
    statefulset = LeaderStatefulSet(replicas=count, partition=0, last_replicas=count, is_current=False)
    return RolloutState(
        replicas=count,
        budget=make_budget(count, unavailable, surge),
        groups=groups(letters),
        statefulset=replace(statefulset, **stored),
    )


def steps_of(simulation: Simulation) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return partition, replicas and replaced leaders of each step."""
    return [
        (step.rollout.partition, step.rollout.replicas, step.rollout.replace) for step in simulation.steps
    ]


def test_groups_move_one_by_one_from_the_top() -> None:
    simulation = simulate(changed("rrr"))
    assert steps_of(simulation) == [(3, 3, ()), (2, 3, (2,)), (1, 3, (1,)), (0, 3, (0,))]
    assert [letters_of(step.groups, 3) for step in simulation.steps] == ["rrr", "rrr", "rrR", "rRR"]
    assert [(step.partition, step.replicas) for step in simulation.steps] == [(0, 3), (3, 3), (2, 3), (1, 3)]
    assert (letters_of(simulation.groups, 3), simulation.waiting_for) == ("RRR", "")


def test_a_surge_is_created_and_deleted() -> None:
    simulation = simulate(changed("rr", unavailable=1, surge=1))
    replicas = [step.rollout.replicas for step in simulation.steps]
    assert (replicas[0], max(replicas), replicas[-1]) == (3, 3, 2)
    assert letters_of(simulation.groups, 3) == "RR-"


def test_a_new_set_is_created() -> None:
    simulation = simulate(RolloutState(2, make_budget(2, 1, 0)))
    (step,) = simulation.steps
    assert (step.partition, step.replicas, step.groups) == (None, None, ())
    assert step.rollout.why == "2 groups to be created"
    assert (letters_of(simulation.groups, 2), simulation.waiting_for) == ("RR", "")


def test_a_settled_set_has_no_steps() -> None:
    at_rest = changed("RR", is_current=True)
    assert simulate(at_rest) == Simulation((), at_rest.groups, "")


def test_a_paused_rollout_waits_to_be_resumed() -> None:
    simulation = simulate(replace(changed("rrR", is_current=True, partition=2), paused=True))
    assert (simulation.steps, simulation.waiting_for) == ((), "the rollout to be resumed")


def test_groups_below_the_partition_of_the_set_stay() -> None:
    simulation = simulate(replace(changed("rrrr"), floor=2))
    assert letters_of(simulation.groups, 4) == "rrRR"
    assert min(step.rollout.partition for step in simulation.steps) == 2


def test_a_broken_group_stays_broken_until_it_is_replaced() -> None:
    simulation = simulate(changed("xrr"))
    assert letters_of(simulation.groups, 3) == "RRR"
    assert [letters_of(step.groups, 3)[0] for step in simulation.steps[:-1]] == ["x"] * (
        len(simulation.steps) - 1
    )


def test_scaling_down_during_a_rollout() -> None:
    simulation = simulate(replace(changed("rrrr"), replicas=2, budget=make_budget(2, 1, 0)))
    assert letters_of(simulation.groups, 4) == "RR--"


def test_a_changed_limit_applies_from_the_first_step_on() -> None:
    state = changed("rrrr", unavailable=3, max_unavailable=1)
    assert steps_of(simulate(state, max_unavailable=3)) == [(4, 4, ()), (1, 4, (3, 2, 1)), (0, 4, (0,))]


def test_a_rollout_continues_after_its_replicas_were_recorded() -> None:
    """The set was scaled to the number of groups that the surge had created."""
    stored = LeaderStatefulSet(5, 1, last_replicas=4)
    state = RolloutState(5, make_budget(5, 1, 1), groups=groups("rRRRR"), statefulset=stored)
    simulation = simulate(state)
    assert steps_of(simulation) == [(1, 5, ()), (0, 5, (0,))]
    assert simulation.steps[0].rollout.why == "replicas or maxUnavailable of the set changed"


@for_each_seed(60)
def test_the_steps_match_those_of_the_stories(seed: int) -> None:
    """The model of the StatefulSet controller in the stories takes the same steps."""
    draw = random.Random(seed)
    replicas, has_feature = draw.randint(1, 7), draw.random() < 0.5
    limits = [(draw.randint(0, 3), draw.randint(0, 3)) for _ in range(2)]
    (former_unavailable, former_surge), (unavailable, surge) = draw.choice([limits, limits[:1] * 2])
    wish = Wish(replicas, unavailable=former_unavailable, surge=former_surge, floor=draw.choice([0, 0, 2]))
    story = Story(wish, has_feature).settled()
    broken = draw.sample(range(replicas), draw.randint(0, min(2, replicas)))
    for index in broken:
        story.break_group(index)
    wish.revision, wish.unavailable, wish.surge = "B", unavailable, surge
    letters = "".join("x" if index in broken else "r" for index in range(replicas))
    stored_limit = max(1, former_unavailable + former_surge) if has_feature else None
    state = replace(changed(letters, unavailable, surge, max_unavailable=stored_limit), floor=wish.floor)

    simulation = simulate(state, max_unavailable=max(1, unavailable + surge))

    story.play()
    assert len(simulation.steps) == len(story.log)
    lines = [line.split() for line in story.log]
    assert [f"{replicas},{partition}" for partition, replicas, _ in steps_of(simulation)] == [
        line[2] for line in lines
    ]
    assert [
        letters_of(step.groups, len(line[1])) for step, line in zip(simulation.steps, lines, strict=True)
    ] == [line[1] for line in lines]
