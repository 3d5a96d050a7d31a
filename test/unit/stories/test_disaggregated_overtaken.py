"""Stories of handovers to upstream after one rollout has overtaken another: upstream continues as we do.

Upstream reads nothing but children: their counts, labels and `initial-replicas`. Given those, upstream's
rules as the specification states them (`reference.py`) have to yield the row that we take next. Rollouts
between two revisions: test_disaggregated_way_back.py.
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
from test.unit.stories.test_disaggregated_takeover import NAMES, Example
from test.unit.stories.upstream_sets import INITIAL, upstream_key


@pytest.fixture
def world() -> Iterator[World]:
    loop = asyncio.new_event_loop()
    yield World(loop)
    loop.close()


def begin(world: World, example: Example) -> None:
    """Create the set and play until it is settled on its first revision."""
    roles = example.roles(example.before, example.rows[0][0], "nginx:1")
    obj = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "demo", "namespace": "default"}}
    world.cluster.add(defaulted({**obj, "spec": {"roles": roles}}))
    world.settle()


def ask_for(world: World, example: Example, image: str) -> None:
    """Set the roles at the end of the example, with defaults as the API server stores them."""
    roles = example.roles(example.after, example.rows[-1][1], image)
    stored = defaulted({"apiVersion": API_VERSION, "kind": KIND, "spec": {"roles": roles}})
    world.edit(lambda spec: spec.update(stored["spec"]))


@dataclass(frozen=True)
class Sight:
    """What upstream reads of the set at one moment, summed over old revisions as upstream does.

    start: the counts in the annotations of old children; for a child without one, its desired count.
    """

    start: Counts
    row: Row
    by_key: dict[str, Counts]
    key: str
    is_marked: bool

    def next_row(self, example: Example, target: Counts) -> Row | None:
        """Return the next row by upstream's rules. A role that is not desired any more has the default
        budgets.
        """
        budgets = [
            example.budgets[index] if example.budgets and name in example.after else (1, 0)
            for index, name in enumerate(NAMES[: len(target)])
        ]
        surge, unavailable = (tuple(values) for values in zip(*budgets, strict=True))
        return Rules(self.start, target, surge, unavailable).step(*self.row)


def look(world: World, width: int) -> Sight:
    """Return what upstream reads now.

    width: the number of roles.
    """
    roles = world.get(KIND)["spec"]["roles"]
    key, names = upstream_key(roles), NAMES[:width]
    old, new, start = Counter[str](), Counter[str](), Counter[str]()
    is_marked = True
    for child in world.children:
        labels, replicas = child["metadata"]["labels"], child["spec"]["replicas"]
        if labels[REVISION_LABEL] == key:
            new[labels[ROLE_LABEL]] = replicas
            continue
        text = (child["metadata"].get("annotations") or {}).get(INITIAL)
        is_marked = is_marked and text is not None
        old[labels[ROLE_LABEL]] += replicas
        start[labels[ROLE_LABEL]] += int(text) if text is not None else replicas
    counts = {
        revision: tuple(of_key.get(name, 0) for name in names) for revision, of_key in world.counts().items()
    }
    first, *row = (tuple(counter[name] for name in names) for counter in (start, old, new))
    return Sight(first, (row[0], row[1]), counts, key, is_marked)


def sights(world: World, width: int) -> list[Sight]:
    """Return what upstream reads at each row of the rollout, after the pass that ends in the row."""
    rows: list[Sight] = []

    def see() -> None:
        seen = look(world, width)
        if not rows or rows[-1].row != seen.row:
            rows.append(seen)

    world.after_pass = see
    world.settle()
    return rows


ALL_FOUR = Example("all of them", "4,4|0,0 0,0|4,4")


@pytest.mark.parametrize("left_of_oldest", [3, 2, 1])
def test_upstream_continues_an_overtaken_rollout(world: World, left_of_oldest: int) -> None:
    """A→B→C, with C requested when B has replaced some of A: the same counts of the same revisions."""
    begin(world, ALL_FOUR)
    (oldest,) = world.counts()
    ask_for(world, ALL_FOUR, "nginx:2")
    while set(world.counts()[oldest].values()) != {left_of_oldest}:
        assert world.go_on()
    middle = look(world, 2).key
    ask_for(world, ALL_FOUR, "nginx:3")
    seen = [sight for sight in sights(world, 2) if sight.key in sight.by_key]
    assert seen[0].start == (4, 4) and {oldest, middle} < {*seen[0].by_key}
    assert seen[-1].row == ((0, 0), (4, 4)) and [*world.counts()] == [seen[0].key]
    for number, sight in enumerate(seen[:-1]):
        expected = sight.next_row(ALL_FOUR, (4, 4))
        assert expected is not None and sight.is_marked
        ours = [later.row for later in seen[number + 1 : number + 3]]
        # We create groups only when those that make room are gone, one pass later.
        assert ours[0] == expected or ours == [(expected[0], sight.row[1]), expected]
        budget = tuple(now - then for now, then in zip(sight.row[0], expected[0], strict=True))
        old = {key: counts for key in (middle, oldest) if (counts := sight.by_key.get(key))}
        remaining = dict(zip(old, spread([*old.values()], budget), strict=True))
        assert {key: seen[number + 1].by_key.get(key, (0, 0)) for key in old} == remaining
