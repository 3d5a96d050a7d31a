"""Situations of rollouts, each played to its end with the feature MaxUnavailableStatefulSet off and on.

The tests check how few groups were ready, how many there were, and which leaders each step replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from test.unit.stories.fake_cluster import NAME
from test.unit.stories.story import Story, Wish
from test.unit.stories.world import World

FEATURES = pytest.mark.parametrize("has_feature", [False, True], ids=["feature off", "feature on"])


@dataclass
class Course:
    """What was seen in the course of a rollout.

    replaced: leaders that we deleted, pass by pass.
    """

    fewest_ready: int
    most_groups: int
    rounds: int
    replaced: list[str]
    at_rest: bool


def course_of(story: Story) -> Course:
    """Play the story to its end. Return what was seen after every round."""
    story.log.clear()
    fewest, most, rounds = _ready(story), _groups(story), 0
    while story.settle() or story.moves():
        fewest, most = min(fewest, _ready(story)), max(most, _groups(story))
        for move in story.moves():
            move()
        rounds += 1
        assert rounds < 200, story.log
    replaced = [line.split()[3] for line in story.log]
    return Course(fewest, most, rounds, [groups for groups in replaced if groups != "-"], story.is_finished)


def _ready(story: Story) -> int:
    return sum(state.ready for state in story.states)


def _groups(story: Story) -> int:
    return len(story.states)


def settled(has_feature: bool, replicas: int, unavailable: int = 1, surge: int = 0, **more: int) -> Story:
    return Story(Wish(replicas, unavailable=unavailable, surge=surge, **more), has_feature).settled()


@FEATURES
@pytest.mark.parametrize(
    ("broken", "fewest"),
    [
        pytest.param([4], 4, id="at the top: costs nothing"),
        pytest.param([2], 3, id="in the middle: one healthy group at a time"),
        pytest.param([0], 3, id="at the bottom: one healthy group at a time"),
        pytest.param([0, 2, 4], 2, id="scattered"),
        pytest.param([0, 1, 2, 3, 4], 0, id="everywhere"),
    ],
)
def test_broken_groups_do_not_block_a_rollout(has_feature: bool, broken: list[int], fewest: int) -> None:
    story = settled(has_feature, 5)
    for index in broken:
        story.break_group(index)
    story.wish.revision = "B"
    course = course_of(story)
    assert course.at_rest
    assert course.fewest_ready == fewest
    assert course.most_groups == 5


@FEATURES
@pytest.mark.parametrize("surge", [0, 1])
def test_broken_groups_are_replaced_together_with_healthy_groups_above_them(
    has_feature: bool, surge: int
) -> None:
    story = settled(has_feature, 5, unavailable=2, surge=surge)
    for index in (3, 2):
        story.break_group(index)
    story.wish.revision = "B"
    course = course_of(story)
    assert course.at_rest
    assert {2, 3} <= set(map(int, ",".join(course.replaced[:2]).split(",")))


@FEATURES
@pytest.mark.parametrize("stuck", [5, 4, 3])
def test_one_stuck_group_does_not_block_the_groups_below(has_feature: bool, stuck: int) -> None:
    story = settled(has_feature, 6, unavailable=2)
    story.wish.revision = "B"
    assert story.statefulset is not None
    while not any(
        pod.revision == "B" and not pod.terminating
        for index, pod in story.statefulset.pods.items()
        if index == stuck
    ):
        story.play(rounds=1)
    story.break_group(stuck)
    course = course_of(story)
    updated = {state.index for state in story.states if state.settled}
    assert updated == set(range(6)) - {stuck}
    assert course.fewest_ready >= 4


@FEATURES
@pytest.mark.parametrize(("unavailable", "surge"), [(1, 0), (2, 0), (0, 1), (1, 2), (0, 0)])
def test_the_fix_for_a_completely_broken_set_always_proceeds(
    has_feature: bool, unavailable: int, surge: int
) -> None:
    story = settled(has_feature, 4, unavailable, surge)
    for index in range(4):
        story.break_group(index)
    story.wish.revision = "B"
    course = course_of(story)
    assert course.at_rest
    assert course.rounds <= 10


@FEATURES
@pytest.mark.parametrize(("unavailable", "surge"), [(1, 0), (2, 0), (0, 1), (1, 2)])
def test_the_fix_for_a_broken_revision_proceeds(has_feature: bool, unavailable: int, surge: int) -> None:
    story = settled(has_feature, 4, unavailable, surge)
    story.wish.revision, story.wish.bad = "B", frozenset("B")
    course = course_of(story)
    assert not course.at_rest
    assert course.fewest_ready >= 4 - unavailable
    story.wish.revision = "C"
    course = course_of(story)
    assert course.at_rest
    assert course.fewest_ready >= 4 - unavailable


@FEATURES
@pytest.mark.parametrize(
    ("replicas", "surge", "fewest", "most"),
    [
        pytest.param(6, 0, 3, 6, id="up"),
        pytest.param(6, 2, 3, 8, id="up, with surge"),
        pytest.param(2, 0, 1, 4, id="down"),
        pytest.param(2, 2, 1, 4, id="down, with surge"),
        pytest.param(0, 1, 0, 4, id="to zero"),
    ],
)
def test_a_new_revision_with_scaling_keeps_floor_and_ceiling(
    has_feature: bool, replicas: int, surge: int, fewest: int, most: int
) -> None:
    story = settled(has_feature, 4, unavailable=1, surge=surge)
    story.wish.revision, story.wish.replicas = "B", replicas
    course = course_of(story)
    assert course.at_rest
    assert course.fewest_ready >= fewest
    assert course.most_groups <= most


@FEATURES
@pytest.mark.parametrize("revisions", ["BC", "BA", "BCA", "BAB", "BCDE"])
@pytest.mark.parametrize(
    ("rounds", "fewest"),
    [
        pytest.param(0, 3, id="at once"),
        pytest.param(1, 3, id="a round apart"),
        pytest.param(3, 3, id="three rounds apart"),
        # Groups that still start on the former revision do not serve: one healthy one may go before them.
        pytest.param(6, 2, id="while two groups start"),
    ],
)
def test_several_changes_in_a_row_end_at_the_last_revision(
    has_feature: bool, revisions: str, rounds: int, fewest: int
) -> None:
    story = settled(has_feature, 4, unavailable=1, surge=1)
    for revision in revisions[:-1]:
        story.wish.revision = revision
        if rounds:
            story.play(rounds)
        else:
            story.run_pass()
    story.wish.revision = revisions[-1]
    course = course_of(story)
    assert course.at_rest
    assert course.fewest_ready >= fewest


@FEATURES
@pytest.mark.parametrize(
    ("replicas", "surge", "fewest"),
    [
        pytest.param(3, 0, 1, id="three groups: two are down at once"),
        pytest.param(1, 1, 0, id="one group: its surge group is removed while it starts"),
    ],
)
def test_a_change_while_a_lower_group_starts_costs_one_more_group(
    has_feature: bool, replicas: int, surge: int, fewest: int
) -> None:
    """The price of fixes that are never held up, as docs/concepts/rollouts.md describes it."""
    story = settled(has_feature, replicas, unavailable=1, surge=surge)
    story.wish.revision = "B"
    top = replicas + surge - 1
    while not {(top, True), (top - 1, False)} <= {
        (state.index, state.settled) for state in story.states if not state.outdated and not state.terminating
    }:
        story.play(rounds=1)
    story.wish.revision = "C"
    course = course_of(story)
    assert course.at_rest
    assert course.fewest_ready == fewest


def test_a_rollback_replaces_only_updated_groups() -> None:
    story = settled(False, 4)
    story.wish.revision = "B"
    story.play(rounds=5)
    moved = [state.index for state in story.states if not state.outdated]
    story.wish.revision = "A"
    course = course_of(story)
    assert course.at_rest
    assert set(map(int, course.replaced)) == set(moved) < {0, 1, 2, 3}


@FEATURES
@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_a_budget_of_zero_acts_as_one_group(has_feature: bool, replicas: int) -> None:
    story = settled(has_feature, replicas, unavailable=0, surge=0)
    story.wish.revision = "B"
    course = course_of(story)
    assert course.at_rest
    assert (course.fewest_ready, course.most_groups) == (replicas - 1, replicas)
    assert course.replaced == [str(index) for index in reversed(range(replicas))]


@FEATURES
@pytest.mark.parametrize("rounds", [0, 2, 6])
def test_a_garbled_record_of_the_replicas_is_repaired(has_feature: bool, rounds: int) -> None:
    story = settled(has_feature, 4, unavailable=1, surge=1)
    story.wish.revision = "B"
    story.play(rounds)
    assert story.statefulset is not None
    story.statefulset.last_replicas = None
    story.wish.replicas = 5
    course = course_of(story)
    assert course.at_rest
    assert course.fewest_ready >= 3
    assert story.statefulset.last_replicas == 5


@FEATURES
@pytest.mark.parametrize("surge", [0, 2])
@pytest.mark.parametrize("broken", [[], [0], [1, 3]], ids=["all ready", "one broken", "two broken"])
def test_a_scale_down_without_rollout_takes_effect_at_once(
    has_feature: bool, surge: int, broken: list[int]
) -> None:
    story = settled(has_feature, 6, surge=surge)
    for index in broken:
        story.break_group(index)
    story.wish.replicas = 2
    story.run_pass()
    assert story.statefulset is not None
    assert (story.statefulset.replicas, story.statefulset.partition) == (2, 0)


@FEATURES
def test_a_partition_may_move_both_ways(has_feature: bool) -> None:
    story = settled(has_feature, 6, floor=4)
    story.wish.revision = "B"
    floors: list[tuple[int, Callable[[int], bool]]] = [
        (4, lambda index: index >= 4),
        (2, lambda index: index >= 2),
        (5, lambda index: index >= 2),
        (0, lambda index: True),
    ]
    for floor, is_updated in floors:
        story.wish.floor = floor
        course = course_of(story)
        assert course.at_rest
        assert course.fewest_ready >= 5
        assert all(state.settled == is_updated(state.index) for state in story.states)


def shown_of_surge(world: World) -> list[tuple[float, int, int, int]]:
    """Return every state that a reader could see until nothing changes any more.

    Each has the time, the existing and the updated groups of the status, and the replicas of the StatefulSet.
    """
    seen, rings = [], 0
    while rings < 5:
        if world.go_on_fairly(1):
            rings = 0
        else:
            world.manager.ring()
            rings += 1
        status, statefulset = world.lws["status"], world.cluster.find("StatefulSet", NAME)
        assert statefulset is not None
        counts = status["replicas"], status.get("updatedReplicas", 0)
        seen.append((world.cluster.now.timestamp(), *counts, statefulset["spec"]["replicas"]))
    return seen


@FEATURES
def test_a_surge_is_visible_before_it_is_removed(loop: asyncio.AbstractEventLoop, has_feature: bool) -> None:
    """Kueue makes room for surge groups as long as the status shows them and fewer updated groups than
    desired. It has a second for that, even if pods become ready faster.
    """
    world = World.settled(loop, has_feature, "A", 4)
    world.configure(maxUnavailable=2, maxSurge=2)
    world.change("B")
    seen = shown_of_surge(world)
    created_at = next(at for at, _, _, replicas in seen if replicas == 6)
    shown_at = [at for at, existing, updated, _ in seen if existing == 6 and updated < 4]
    gone_at = next(at for at, _, _, replicas in seen if replicas < 6 and at > created_at)
    assert shown_at and shown_at[0] == created_at, "the status says at once that there is a surge"
    assert 1 <= max(shown_at) - created_at <= gone_at - created_at <= 3
    assert seen[-1][1:] == (4, 4, 4)


@FEATURES
def test_an_unready_surge_blocks_nothing(loop: asyncio.AbstractEventLoop, has_feature: bool) -> None:
    world = World.settled(loop, has_feature, "A", 4)
    world.configure(maxUnavailable=2, maxSurge=2)
    world.change("B")
    world.go_on_fairly(1)
    for index in (4, 5):
        pod = world.cluster.find("Pod", f"{NAME}-{index}")
        assert pod is not None
        world.nodes.hang(pod)
    assert shown_of_surge(world)[-1][1:] == (4, 4, 4)
