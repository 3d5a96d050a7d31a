"""Rollouts as text, compared with golden/*.txt: a change of behaviour changes the text.

To rewrite the texts, run pytest with UPDATE_STORIES=1 in the environment and read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lws.leaderworkerset.spec import StartWaves
from test.unit.stories.story import Story, Wish

GOLDEN = Path(__file__).parent / "golden"
LEGEND = (
    "One line for each pass that changes something.",
    "  stored    replicas,partition of the leader StatefulSet before",
    "  groups    from group 0 on; - missing",
    "            r ready, x not ready, t on its way out: on an old revision",
    "            R ready, u not ready, T on its way out: on the new one",
    "  told      replicas,partition that the leader StatefulSet is told",
    "  replaced  leaders deleted by us just before it is told",
)


class Book:
    """One set that begins with all groups ready on revision A, and what happens to it, chapter by chapter."""

    def __init__(self, wish: Wish, has_feature: bool = False) -> None:
        self.story = Story(wish, has_feature).settled()
        self.lines = [*LEGEND, ""]

    def chapter(self, heading: str, rounds: int | None = None, **wishes: Any) -> None:
        """Change the user's wishes and play the consequences, to the end or for some rounds."""
        for wish, value in wishes.items():
            setattr(self.story.wish, wish, value)
        self.story.log.clear()
        self.story.play(rounds)
        self.lines += [f"{heading}:", f"  {'stored':<7}{'groups':<15}{'told':<7}{'replaced':<10}why"]
        self.lines += [f"  {line}" for line in self.story.log or ["(nothing to do)"]] + [""]

    @property
    def text(self) -> str:
        assert self.story.is_finished
        return "\n".join(self.lines)


def four() -> Book:
    book = Book(Wish(4, unavailable=1))
    book.chapter("4 groups, maxUnavailable 1; a new revision", revision="B")
    return book


def four_two_missing() -> Book:
    book = Book(Wish(4, unavailable=2))
    book.chapter("4 groups, maxUnavailable 2; a new revision", revision="B")
    return book


def four_with_surge() -> Book:
    book = Book(Wish(4, unavailable=1, surge=1))
    book.chapter("4 groups, maxUnavailable 1, maxSurge 1; a new revision", revision="B")
    return book


def ten_with_one_broken() -> Book:
    book = Book(Wish(10, unavailable=2, surge=3))
    book.story.break_group(1)
    book.chapter("10 groups, maxUnavailable 2, maxSurge 3, group 1 broken; a new revision", revision="B")
    return book


def ten_with_the_feature_on() -> Book:
    book = Book(Wish(10, unavailable=2, surge=3), has_feature=True)
    book.story.break_group(1)
    heading = "10 groups, maxUnavailable 2, maxSurge 3, group 1 broken, feature MaxUnavailableStatefulSet on"
    book.chapter(f"{heading}; a new revision", revision="B")
    return book


def canary() -> Book:
    book = Book(Wish(6, unavailable=1, floor=4))
    book.chapter("6 groups, maxUnavailable 1, partition 4; a new revision", revision="B")
    book.chapter("partition 2", floor=2)
    book.chapter("partition 0", floor=0)
    return book


def set_of_one() -> Book:
    book = Book(Wish(1, unavailable=1, surge=1))
    heading = "1 group, maxUnavailable 1, maxSurge 1; a new revision, never without a ready group"
    book.chapter(heading, revision="B")
    return book


def bad_then_good() -> Book:
    book = Book(Wish(4, unavailable=1, bad=frozenset("B")))
    book.chapter("4 groups, maxUnavailable 1; a new revision that never gets ready", revision="B")
    book.chapter("its successor replaces what is broken first", revision="C")
    return book


def all_broken() -> Book:
    book = Book(Wish(4, unavailable=1))
    for index in range(4):
        book.story.break_group(index)
    book.chapter("4 groups, maxUnavailable 1, all broken; a new revision replaces them at once", revision="B")
    return book


def broken_at_the_bottom() -> Book:
    book = Book(Wish(4, unavailable=1))
    book.story.break_group(0)
    book.chapter("4 groups, maxUnavailable 1, group 0 broken; a new revision, one by one", revision="B")
    return book


def stuck_at_the_top() -> Book:
    book = Book(Wish(5, unavailable=2))
    book.chapter("5 groups, maxUnavailable 2; a new revision", rounds=3, revision="B")
    book.story.break_group(4)
    book.chapter("group 4 does not get ready, the others go on")
    book.story.recover()
    book.chapter("group 4 gets ready at last")
    return book


def scaled_while_rolling() -> Book:
    book = Book(Wish(4, unavailable=1, surge=1))
    book.chapter("4 groups, maxUnavailable 1, maxSurge 1; a new revision", rounds=6, revision="B")
    book.chapter("scaled to 6", rounds=6, replicas=6)
    book.chapter("scaled to 3", replicas=3)
    return book


def changed_back() -> Book:
    book = Book(Wish(4, unavailable=1))
    book.chapter("4 groups, maxUnavailable 1; a new revision", rounds=5, revision="B")
    book.chapter("back to the former one: groups that have not moved stay as they are", revision="A")
    return book


def paused() -> Book:
    book = Book(Wish(4, unavailable=1, surge=1))
    book.chapter("4 groups, maxUnavailable 1, maxSurge 1; a new revision", rounds=4, revision="B")
    book.chapter("paused: the group on its way out comes back as it was", paused=True)
    book.story.lose(0)
    book.chapter("group 0 is lost and comes back as it was")
    book.chapter("scaled to 5 meanwhile", replicas=5)
    book.chapter("resumed", paused=False)
    return book


def no_budget() -> Book:
    book = Book(Wish(2, unavailable=0))
    book.chapter("2 groups, maxUnavailable 0, maxSurge 0; a new revision, one by one", revision="B")
    return book


def two_stuck_of_six() -> Book:
    book = Book(Wish(6, unavailable=3))
    book.chapter("6 groups, maxUnavailable 3; a new revision", rounds=3, revision="B")
    book.story.break_group(5)
    book.story.break_group(3)
    book.chapter("groups 5 and 3 do not get ready: the others go on, one at a time")
    book.chapter("a fix: what is stuck goes first", revision="C")
    return book


def start_waves() -> Book:
    book = Book(Wish(4, unavailable=8, start_strategy=StartWaves(1, 2)), has_feature=True)
    book.chapter("4 groups, maxUnavailable 8, seedGroups 1, growthFactor 2; a new revision", revision="B")
    book.chapter("scaled to 12", replicas=12)
    return book


def prewarmed() -> Book:
    book = Book(Wish(4, unavailable=2, prewarms=True))
    book.chapter("4 groups, maxUnavailable 2, prewarm; a new revision", revision="B")
    book.chapter("scaled to 5 meanwhile", replicas=5)
    book.story.warmed()
    book.chapter("nodes have the images")
    return book


STORIES: dict[str, Callable[[], Book]] = {
    "four": four,
    "four-two-missing": four_two_missing,
    "four-with-surge": four_with_surge,
    "ten-with-one-broken": ten_with_one_broken,
    "ten-with-the-feature-on": ten_with_the_feature_on,
    "canary": canary,
    "set-of-one": set_of_one,
    "bad-then-good": bad_then_good,
    "all-broken": all_broken,
    "broken-at-the-bottom": broken_at_the_bottom,
    "stuck-at-the-top": stuck_at_the_top,
    "scaled-while-rolling": scaled_while_rolling,
    "changed-back": changed_back,
    "paused": paused,
    "no-budget": no_budget,
    "two-stuck-of-six": two_stuck_of_six,
    "start-waves": start_waves,
    "prewarm": prewarmed,
}


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    text = STORIES[name]().text
    if os.environ.get("UPDATE_STORIES"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_file_has_a_story() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(STORIES)
