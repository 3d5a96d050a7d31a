"""Tests that upstream can continue a rollout of this controller: children contain all that it needs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lws.kube.metadata import annotations_of, labels_of
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION, KIND, REVISION_LABEL, ROLE_LABEL
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.lws.disaggregatedset.rollout import reference
from test.unit.lws.disaggregatedset.rollout.reference import Row, Rules
from test.unit.stories.disaggregated_world import World
from test.unit.stories.test_disaggregated_takeover import EXAMPLES, NAMES, Example
from test.unit.stories.upstream_sets import upstream_key


class Upstream:
    """What upstream would do next at each row that we leave.

    rows: old and new counts, each time they changed.
    """

    def __init__(self, world: World, example: Example) -> None:
        self.rows: list[Row] = []
        self.tails: list[list[Row]] = []
        self._world, self._example = world, example
        world.after_pass = self._look

    def _look(self) -> None:
        """Read target and start as upstream does: from the spec, and from annotations of old children."""
        width = len(self._example.rows[0][0])
        new_key = upstream_key(self._world.get(KIND)["spec"]["roles"])
        old, new, initial = ([0] * width for _ in range(3))
        for child in self._world.children:
            index, replicas = NAMES.index(labels_of(child)[ROLE_LABEL]), child["spec"]["replicas"]
            if labels_of(child)[REVISION_LABEL] == new_key:
                new[index] = replicas
            else:
                old[index] = replicas
                initial[index] = int(annotations_of(child).get(INITIAL_REPLICAS_ANNOTATION, replicas))
        row = (tuple(old), tuple(new))
        if self.rows and self.rows[-1] == row:
            return
        self.rows.append(row)
        surge, unavailable = zip(*(self._example.budgets or ((1, 0),) * width), strict=True)
        rules = Rules(tuple(initial), self._example.rows[-1][1], surge, unavailable)
        self.tails.append(_from(rules, row))


def _from(rules: Rules, row: Row) -> list[Row]:
    """Return upstream's rows from this one on."""
    rows, after = [row], rules.step(*row) if any(row[0]) else None
    while after is not None:
        rows.append(after)
        after = rules.step(*after) if any(after[0]) else None
    if not any(rows[-1][0]) and rows[-1][1] != rules.target:
        rows.append((rows[-1][0], rules.target))
    return reference.by_writes(rows)


def made_of(role: dict[str, Any]) -> dict[str, Any]:
    """Return a role of upstream's states, as the API server stores it."""
    return make_role(role["name"]) | role


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_upstream_continues_with_the_same_steps(loop: asyncio.AbstractEventLoop, example: Example) -> None:
    world = World(loop)
    (initial, _), (_, target) = example.rows[0], example.rows[-1]
    obj = make_disaggregated(roles=[made_of(role) for role in example.roles(example.before, initial, "a")])
    del obj["metadata"]["uid"]
    world.cluster.add(obj)
    world.settle()
    upstream = Upstream(world, example)
    after = [made_of(role) for role in example.roles(example.after, target, "b")]
    world.edit(lambda spec: spec.update(roles=after))
    world.settle()
    assert set(example.rows) <= set(upstream.rows)
    for row, tail in zip(upstream.rows, upstream.tails, strict=True):
        if row in example.rows:
            assert tail == example.rows[example.rows.index(row) :], row


def test_every_child_of_an_overtaken_rollout_has_the_data_that_upstream_needs(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """The key of a child is the hash of its template. Old children record with how many groups they began."""
    world = World(loop)
    obj = make_disaggregated(roles=[make_role("prefill", 4), make_role("decode", 2)])
    del obj["metadata"]["uid"]
    world.cluster.add(obj)
    world.settle()
    keys = {upstream_key(world.get(KIND)["spec"]["roles"])}
    for image, least in (("b", 2), ("c", 0)):
        roles = [make_role("prefill", 4, image), make_role("decode", 2, image)]
        world.edit(lambda spec, roles=roles: spec.update(roles=roles))
        newest = upstream_key(world.get(KIND)["spec"]["roles"])
        keys.add(newest)
        while world.counts().get(newest, {}).get("prefill", -1) < least:
            assert world.go_on()
        for child in world.children:
            key = labels_of(child)[REVISION_LABEL]
            assert key in keys
            if key != newest:
                assert int(annotations_of(child)[INITIAL_REPLICAS_ANNOTATION]) >= child["spec"]["replicas"]
    assert len(world.counts()) == len(keys) == 3
