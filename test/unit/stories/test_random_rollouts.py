"""Tests of hundreds of rollouts with events in random order, with the promises checked after every pass."""

from __future__ import annotations

import random

import pytest

from lws.leaderworkerset.spec import StartWaves
from test.unit.seeds import for_each_seed
from test.unit.stories.letters import letters_of
from test.unit.stories.story import Story, Wish

MOST_MOVES = 4000
QUIET = 40
"""Number of moves without any change after which to check whether the story is at its end."""

EVENTS = ("change", "undo", "bad change", "scale", "partition", "budget", "break", "lose", "garble")


class Player:
    """One story with a random user, random faults and random timing, all from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        replicas = self.random.randint(0, 8)
        self.wish = Wish(
            replicas,
            unavailable=self.random.randint(0, 4),
            surge=self.random.choice([0, 0, 1, 2, 3, 5]),
            floor=self.random.choice([0, 0, 0, self.random.randint(0, replicas)]),
        )
        if self.random.random() < 0.3:
            self.wish.start_strategy = StartWaves(self.random.randint(1, 3), self.random.randint(2, 3))
        self.wish.prewarms = self.random.random() < 0.3
        self.story = Story(self.wish, has_feature=self.random.random() < 0.5)
        self.story.is_patient = self.random.random() < 0.8
        if self.random.random() < 0.8:
            self.story.settled()
        self.events = ["change", *self.random.choices(EVENTS, k=self.random.randint(1, 4))]
        self.revisions = iter("BCDEFGHIJKL")
        self.previous = "A"

    def play(self) -> None:
        """Make random moves until nothing changes any more, and check that all is as the user wants it."""
        quiet = 0
        for _ in range(MOST_MOVES):
            if self.events and self.random.random() < 0.06:
                self._happen(self.events.pop(0))
                quiet = 0
            moves = [*self.story.moves(), self.story.run_pass, self.story.sync]
            if self.random.random() < 0.1:
                moves.append(self.story.warmed)
            quiet = 0 if self.random.choice(moves)() else quiet + 1
            if quiet > QUIET and self._is_over():
                return
        letters = letters_of(self.story.states, 12)
        pytest.fail(f"no end after {MOST_MOVES} moves: {self.wish}, groups {letters}")

    def _is_over(self) -> bool:
        if self.events or self.story.moves() or self.story.run_pass() or self.story.sync():
            return False
        if self.story.warmed() or self.story.recover():
            return False
        assert self.story.is_finished, f"stuck: {self.wish}, groups {letters_of(self.story.states, 12)}"
        return True

    def _happen(self, event: str) -> None:
        wish, statefulset = self.wish, self.story.statefulset
        if event in ("change", "bad change"):
            self.previous, wish.revision = wish.revision, next(self.revisions)
        if event == "bad change":
            wish.bad |= {wish.revision}
            self.events.append("change")
        elif event == "undo":
            if self.previous not in wish.bad:
                self.previous, wish.revision = wish.revision, self.previous
        elif event == "scale":
            wish.replicas = self.random.randint(0, 8)
            wish.floor = min(wish.floor, wish.replicas)
        elif event == "partition":
            wish.floor = self.random.choice([0, self.random.randint(0, wish.replicas)])
        elif event == "budget":
            wish.unavailable, wish.surge = self.random.randint(0, 4), self.random.randint(0, 3)
        elif event == "garble" and statefulset is not None:
            statefulset.last_replicas = None
        elif event in ("break", "lose") and statefulset is not None and statefulset.pods:
            index = self.random.choice(sorted(statefulset.pods))
            if event == "lose":
                statefulset.pods[index].terminating = True
            else:
                self.story.break_group(index)


@for_each_seed(100)
def test_every_rollout_ends_and_keeps_its_promises(seed: int) -> None:
    Player(seed).play()


@pytest.mark.parametrize("has_feature", [False, True], ids=["feature off", "feature on"])
@for_each_seed(20)
def test_the_statefulset_controller_deletes_only_what_a_step_leaves_to_it(
    seed: int, has_feature: bool
) -> None:
    generator = random.Random(seed)
    replicas = generator.randint(1, 8)
    wish = Wish(replicas, unavailable=generator.randint(1, 3), surge=generator.randint(0, 2))
    story = Story(wish, has_feature).settled()
    wish.revision = "B"
    while story.settle() or story.moves():
        generator.choice(story.moves())()
    assert story.is_finished
    assert story.statefulset is not None
    assert sorted(story.statefulset.taken) == sorted(story.left)


def test_without_status_reports_nothing_is_deleted_and_the_partition_still_moves() -> None:
    wish = Wish(4, unavailable=1)
    story = Story(wish).settled()
    assert story.statefulset is not None
    story.statefulset.observed_generation = 0
    wish.revision = "B"
    while story.run_pass():
        assert not any(pod.terminating for pod in story.statefulset.pods.values())
    assert (story.statefulset.replicas, story.statefulset.partition) == (4, 3)
