"""The original takes over when a rollout of ours has overtaken another: it finds what it needs, and goes on
as we do.

It reads nothing but children: their counts, labels and `initial-replicas`. Fed with those, its rules as they
are written down (`reference.py`) have to give the row that ours takes next. One revision to another:
test_disaggregated_way_back.py.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lws_api.crds import defaulted
from lws_api.disaggregatedset.v1 import API_VERSION, KIND, REVISION_LABEL, ROLE_LABEL
from test.unit.lws.disaggregatedset.rollout.reference import Counts, Row, Rules, spread
from test.unit.stories.disaggregated_world import World
from test.unit.stories.original_sets import INITIAL, original_key
from test.unit.stories.test_disaggregated_takeover import NAMES, Example


@pytest.fixture
def world() -> Iterator[World]:
    loop = asyncio.new_event_loop()
    yield World(loop)
    loop.close()


def begin(world: World, example: Example) -> None:
    """At rest, before the rollout."""
    roles = example.roles(example.before, example.rows[0][0], "nginx:1")
    made = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "demo", "namespace": "default"}}
    world.cluster.add(defaulted({**made, "spec": {"roles": roles}}))
    world.settle()


def ask_for(world: World, example: Example, image: str) -> None:
    """What the example is to come to. An API server stores the defaults."""
    roles = example.roles(example.after, example.rows[-1][1], image)
    stored = defaulted({"apiVersion": API_VERSION, "kind": KIND, "spec": {"roles": roles}})
    world.edit(lambda spec: spec.update(stored["spec"]))


@dataclass(frozen=True)
class Sight:
    """What the original reads of the set at one moment, summed over old revisions as it does.

    start: what the annotations on old children say; that of a child without one is what it wants now.
    """

    start: Counts
    row: Row
    by_key: dict[str, Counts]
    key: str
    is_marked: bool

    def next_row(self, example: Example, target: Counts) -> Row | None:
        """By its rules. A role that is not wanted any more has the budgets of one that says none."""
        budgets = [
            example.budgets[index] if example.budgets and name in example.after else (1, 0)
            for index, name in enumerate(NAMES[: len(target)])
        ]
        surge, unavailable = (tuple(each) for each in zip(*budgets, strict=True))
        return Rules(self.start, target, surge, unavailable).step(*self.row)


def look(world: World, width: int) -> Sight:
    """width: how many roles there are in all."""
    roles = world.get(KIND)["spec"]["roles"]
    key, names = original_key(roles), NAMES[:width]
    old, new, start = Counter[str](), Counter[str](), Counter[str]()
    is_marked = True
    for child in world.children:
        labels, wanted = child["metadata"]["labels"], child["spec"]["replicas"]
        if labels[REVISION_LABEL] == key:
            new[labels[ROLE_LABEL]] = wanted
            continue
        text = (child["metadata"].get("annotations") or {}).get(INITIAL)
        is_marked = is_marked and text is not None
        old[labels[ROLE_LABEL]] += wanted
        start[labels[ROLE_LABEL]] += int(text) if text is not None else wanted
    counts = {each: tuple(of_key.get(name, 0) for name in names) for each, of_key in world.counts().items()}
    first, *row = (tuple(each[name] for name in names) for each in (start, old, new))
    return Sight(first, (row[0], row[1]), counts, key, is_marked)


def sights(world: World, width: int) -> list[Sight]:
    """One for each row that the rollout passes through, after the pass that ended in it."""
    found: list[Sight] = []

    def see() -> None:
        seen = look(world, width)
        if not found or found[-1].row != seen.row:
            found.append(seen)

    world.after_pass = see
    world.settle()
    return found


ALL_FOUR = Example("all of them", "4,4|0,0 0,0|4,4")


@pytest.mark.parametrize("left_of_oldest", [3, 2, 1])
def test_a_rollout_that_was_overtaken_goes_on_in_the_hands_of_the_original(
    world: World, left_of_oldest: int
) -> None:
    """A→B→C, C asked for when B has replaced some of A: the same counts, of the same revisions."""
    begin(world, ALL_FOUR)
    (oldest,) = world.counts()
    ask_for(world, ALL_FOUR, "nginx:2")
    while set(world.counts()[oldest].values()) != {left_of_oldest}:
        assert world.go_on()
    middle = look(world, 2).key
    ask_for(world, ALL_FOUR, "nginx:3")
    seen = [each for each in sights(world, 2) if each.key in each.by_key]
    assert seen[0].start == (4, 4) and {oldest, middle} < {*seen[0].by_key}
    assert seen[-1].row == ((0, 0), (4, 4)) and [*world.counts()] == [seen[0].key]
    for number, each in enumerate(seen[:-1]):
        expected = each.next_row(ALL_FOUR, (4, 4))
        assert expected is not None and each.is_marked
        ours = [later.row for later in seen[number + 1 : number + 3]]
        # We raise only when the groups that make room are gone, a pass later.
        assert ours[0] == expected or ours == [(expected[0], each.row[1]), expected]
        budget = tuple(now - then for now, then in zip(each.row[0], expected[0], strict=True))
        old = {key: counts for key in (middle, oldest) if (counts := each.by_key.get(key))}
        left = dict(zip(old, spread([*old.values()], budget), strict=True))
        assert {key: seen[number + 1].by_key.get(key, (0, 0)) for key in old} == left
