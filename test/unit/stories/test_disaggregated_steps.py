"""Tests that a rollout takes the steps that were predicted for it, for every kind of change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lws.cli.steps_ahead import StepsAhead, steps_ahead
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.runtime.actions import Key
from lws_api.disaggregatedset.v1 import REVISION_LABEL, ROLE_LABEL, SCALER_KIND, SLICE_LABEL
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories.disaggregated_world import World

Spec = dict[str, Any]
Edit = Callable[[Spec], Any]
Counts = dict[str, dict[str, int]]
"""Key → role → desired groups of the LeaderWorkerSets."""
Rows = dict[int, list[Counts]]
"""Slice → counts, each time they changed."""


class Watched(World):
    """A world that records the snapshot of each pass over the set, and the desired groups after it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.seen: list[DisaggregatedSnapshot] = []
        self.rows: Rows = {}
        super().__init__(loop)
        self.after_pass = self.look

    def _on_plan(self, key: Key, snapshot: Any, plan: Any) -> None:
        super()._on_plan(key, snapshot, plan)
        if isinstance(snapshot, DisaggregatedSnapshot):
            self.seen.append(snapshot)

    def look(self) -> None:
        now = self._desired()
        for index in self.rows.keys() | now.keys():
            rows, counts = self.rows.setdefault(index, [{}]), now.get(index, {})
            if rows[-1] != counts:
                rows.append(counts)

    def start_again(self) -> None:
        """Start the record again."""
        self.seen.clear()
        self.rows = {index: [counts] for index, counts in self._desired().items()}

    def _desired(self) -> dict[int, Counts]:
        now: dict[int, Counts] = {}
        for child in self.children:
            labels, groups = child["metadata"]["labels"], child["spec"]["replicas"]
            of_slice = now.setdefault(int(labels[SLICE_LABEL]), {})
            if groups:
                of_slice.setdefault(labels[REVISION_LABEL], {})[labels[ROLE_LABEL]] = groups
        return now

    def run(self, steps: int) -> None:
        """Play until the first slice has taken this many steps and pods have made one more move."""
        while len(self.rows[0]) <= steps:
            assert self.go_on(), "it comes to rest before that"

    def as_predicted(self, waiting_for: str = "") -> Rows:
        """Settle, and return what happened. Assert that it was predicted when the first pass began."""
        self.settle()
        happened = {index: rows[1:] for index, rows in self.rows.items() if rows[1:]}
        ahead = steps_ahead(self.seen[0])
        assert rows_of(ahead) == happened
        assert ahead.waiting_for == waiting_for
        return happened


def rows_of(ahead: StepsAhead) -> Rows:
    rows: Rows = {}
    for step in ahead.steps:
        counts = {key: dict(of_key) for key, of_key in step.counts.items()}
        rows.setdefault(step.slice_index, []).append(counts)
    return rows


def started(loop: asyncio.AbstractEventLoop, **spec: Any) -> Watched:
    """Return a world with a settled set."""
    world = Watched(loop)
    obj = make_disaggregated(**spec)
    del obj["metadata"]["uid"]
    world.cluster.add(obj)
    world.settle()
    world.start_again()
    return world


def roles(*counts: int, surge: int | str = 1, unavailable: int | str = 0) -> list[dict[str, Any]]:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    names = ("prefill", "decode", "router")
    return [make_role(name, count, rolling=rolling) for name, count in zip(names, counts, strict=False)]


def image(name: str = "app:2") -> Edit:
    def edit(spec: Spec) -> None:
        for role in spec["roles"]:
            role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = name

    return edit


def replicas(*counts: int) -> Edit:
    def edit(spec: Spec) -> None:
        for role, count in zip(spec["roles"], counts, strict=True):
            role["spec"]["replicas"] = count

    return edit


def also(*edits: Edit) -> Edit:
    return lambda spec: [edit(spec) for edit in edits]


@pytest.mark.parametrize(
    ("counts", "surge", "unavailable"),
    [
        ((4, 2), 1, 0),
        ((4, 2), 0, 1),
        ((7, 3), 2, 1),
        ((7, 3), "50%", "25%"),
        ((3, 3), 3, 0),
        ((3, 3), 0, 2),
        ((1, 1), 1, 0),
        ((1, 1), 0, 1),
        ((2, 5, 1), 1, 0),
        ((2, 5, 1), "100%", 0),
    ],
)
def test_a_rollout_takes_the_predicted_steps(
    loop: asyncio.AbstractEventLoop, counts: tuple[int, ...], surge: int | str, unavailable: int | str
) -> None:
    world = started(loop, roles=roles(*counts, surge=surge, unavailable=unavailable))
    world.edit(image())
    (rows,) = world.as_predicted().values()
    assert len(rows) > 1


CHANGES: dict[str, tuple[dict[str, Any], Edit]] = {
    "scaled up": ({"roles": roles(2, 1)}, replicas(5, 2)),
    "scaled down": ({"roles": roles(5, 3)}, replicas(2, 1)),
    "rolled and scaled up": ({"roles": roles(2, 4)}, also(image(), replicas(5, 4))),
    "rolled and scaled down": ({"roles": roles(6, 2)}, also(image(), replicas(3, 2))),
    "rolled and scaled both ways": ({"roles": roles(3, 5)}, also(image(), replicas(5, 3))),
    "to nothing": ({"roles": roles(3, 2)}, replicas(0, 0)),
    "from nothing": ({"roles": roles(0, 0)}, also(image(), replicas(3, 2))),
    "a role more": ({"roles": roles(3, 2)}, lambda spec: spec["roles"].append(make_role("router", 2))),
    "a role less": ({"roles": roles(3, 2, 2)}, lambda spec: spec["roles"].pop(1)),
    "all renamed": ({"roles": roles(2, 2)}, lambda spec: spec.update(roles=[make_role("a", 2)])),
    "more slices": ({"roles": roles(2, 1)}, lambda spec: spec.update(slices=3)),
    "fewer slices": ({"roles": roles(2, 1), "slices": 3}, lambda spec: spec.update(slices=1)),
    "slices roll": ({"roles": roles(3, 2), "slices": 3}, image()),
    "slices roll one by one": (
        {"roles": roles(3, 2), "slices": 3, "rolloutStrategy": {"maxUpdatingSlices": 1}},
        image(),
    ),
    "slices come in a rollout": ({"roles": roles(3, 2)}, also(image(), lambda spec: spec.update(slices=2))),
    "slices go in a rollout": (
        {"roles": roles(3, 2), "slices": 2},
        also(image(), lambda spec: spec.update(slices=1)),
    ),
    "another order": ({"roles": roles(3, 2)}, lambda spec: spec["roles"].reverse()),
    "nothing": ({"roles": roles(3, 2)}, lambda spec: None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_at_rest_takes_the_predicted_steps(loop: asyncio.AbstractEventLoop, name: str) -> None:
    spec, edit = CHANGES[name]
    world = started(loop, **spec)
    world.edit(edit)
    world.manager.resync()
    happened = world.as_predicted()
    assert bool(happened) == (name not in ("another order", "nothing"))


IN_A_ROLLOUT: dict[str, tuple[int, Edit]] = {
    "scaled up": (1, replicas(7, 5)),
    "scaled up late": (5, replicas(7, 5)),
    "scaled down": (3, replicas(2, 1)),
    "scaled both ways": (4, replicas(2, 6)),
    "taken back": (3, image("app:1")),
    "overtaken": (4, image("app:3")),
    "overtaken and scaled": (3, also(image("app:3"), replicas(5, 4))),
    "a role more": (3, lambda spec: spec["roles"].append(make_role("router", 2))),
    "a role less": (5, lambda spec: spec["roles"].pop(1)),
    "a slice more": (2, lambda spec: spec.update(slices=2)),
    "nothing": (4, lambda spec: None),
}


@pytest.mark.parametrize("name", IN_A_ROLLOUT)
def test_a_change_in_a_rollout_takes_the_predicted_steps(loop: asyncio.AbstractEventLoop, name: str) -> None:
    moment, edit = IN_A_ROLLOUT[name]
    world = started(loop, roles=roles(4, 3))
    world.edit(image())
    world.run(moment)
    world.edit(edit)
    world.start_again()
    assert world.as_predicted()


def test_a_paused_rollout_is_predicted_to_wait(loop: asyncio.AbstractEventLoop) -> None:
    world = started(loop, roles=roles(4, 3))
    world.edit(image())
    world.run(3)
    world.edit(lambda spec: spec.update(rolloutStrategy={"paused": True}))
    world.start_again()
    assert not world.as_predicted("slice 0: the rollout is paused")
    world.edit(replicas(4, 6))
    world.start_again()
    assert world.as_predicted("slice 0: the rollout is paused"), "scaling continues"


def test_the_rollout_of_an_externally_scaled_role_is_predicted(loop: asyncio.AbstractEventLoop) -> None:
    world = started(loop, roles=[make_role("prefill", None), make_role("decode", 2)], slices=2)
    world.edit(lambda spec: spec.update(replicas=5), SCALER_KIND, "demo-prefill")
    world.start_again()
    assert {index: rows[-1] for index, rows in world.as_predicted().items()}.keys() == {0, 1}
    world.edit(image())
    world.start_again()
    assert world.as_predicted()
    # The scaler is created with the present number of groups.
    world.edit(lambda spec: spec["roles"][1].update(scaling={"mode": "External"}))
    world.edit(image("app:3"))
    world.start_again()
    assert world.as_predicted()


def test_the_recreation_of_a_lost_child_is_predicted(loop: asyncio.AbstractEventLoop) -> None:
    world = started(loop, roles=roles(4, 3))
    world.edit(image())
    world.run(3)
    world.cluster.request_deletion(world.children[-1])
    world.start_again()
    assert world.as_predicted()


def test_a_broken_revision_is_predicted_to_be_deleted_first(loop: asyncio.AbstractEventLoop) -> None:
    world = started(loop, roles=roles(4, 3))
    world.nodes.hopeless = frozenset({"app:2"})
    world.edit(image())
    world.settle()
    world.edit(image("app:3"))
    world.start_again()
    assert world.as_predicted()


@pytest.mark.parametrize("index", [3, 0])
@pytest.mark.parametrize("budget", [(1, 0), (0, 1), (0, 2)])
def test_unready_old_groups_are_predicted_to_stay_unready(
    loop: asyncio.AbstractEventLoop, index: int, budget: tuple[int, int]
) -> None:
    world = started(loop, roles=roles(4, 3, surge=budget[0], unavailable=budget[1]))
    (leaders,) = [
        child["metadata"]["name"] for child in world.children if "prefill" in child["metadata"]["name"]
    ]
    world.nodes.hang(world.get("Pod", f"{leaders}-{index}"))
    world.settle()
    # Until then the group may become ready at any moment.
    world.cluster.pass_time(7200)
    world.manager.resync()
    world.settle()
    world.edit(image())
    world.start_again()
    world.as_predicted()


def test_the_creation_order_of_roles_is_predicted(loop: asyncio.AbstractEventLoop) -> None:
    world = Watched(loop)
    obj = make_disaggregated(roles=[make_role("decode", 2, startAfter=["prefill"]), make_role("prefill", 1)])
    del obj["metadata"]["uid"]
    world.cluster.add(obj)
    (rows,) = world.as_predicted().values()
    assert [sorted(*row.values()) for row in rows] == [["prefill"], ["decode", "prefill"]]
