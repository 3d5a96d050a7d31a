"""Stories of DisaggregatedSets while writes fail, processes end, caches lag, and users change everything."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from lws import timing
from lws.runtime.actions import Object, Reference
from lws_api.disaggregatedset.v1 import KIND, SCALER_KIND
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories.disaggregated_attack import FAULTS, Attack
from test.unit.stories.disaggregated_world import CHILD, World

Edit = Callable[[dict[str, Any]], None]


def image(name: str) -> Edit:
    def edit(spec: dict[str, Any]) -> None:
        for role in spec["roles"]:
            pod = role["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
            pod["containers"][0]["image"] = name

    return edit


def rename_all(spec: dict[str, Any]) -> None:
    for role in spec["roles"]:
        role["name"] += "x"


def replace_a_role(spec: dict[str, Any]) -> None:
    spec["roles"][0] = make_role("router", 1)


def two_slices(spec: dict[str, Any]) -> None:
    image("b")(spec)
    spec["slices"] = 2


def scale_from_outside(spec: dict[str, Any]) -> None:
    image("b")(spec)
    del spec["roles"][0]["spec"]["replicas"]
    spec["roles"][0]["scaling"] = {"mode": "External"}


EDITS: tuple[Edit, ...] = (image("b"), rename_all, replace_a_role, two_slices, scale_from_outside)
LATER: tuple[Edit, ...] = (image("app:1"), image("c"), rename_all, lambda spec: spec.update(slices=1))
BUDGETS = ({"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}, {"maxSurge": 2})


def begin(
    loop: asyncio.AbstractEventLoop, rolling: dict[str, Any], counts: tuple[int, int] = (3, 2)
) -> Attack:
    """Return a settled set under attack.

    counts: groups of each role.
    """
    attack = Attack(loop)
    bring_to_rest(attack, rolling, counts)
    return attack


def bring_to_rest(attack: Attack, rolling: dict[str, Any], counts: tuple[int, int] = (3, 2)) -> None:
    """Create a set whose roles have this many groups, and play until it is settled."""
    names = ("prefill", "decode")
    roles = [make_role(name, count, rolling=rolling) for name, count in zip(names, counts, strict=True)]
    obj = make_disaggregated(roles=roles)
    del obj["metadata"]["uid"]
    attack.world.cluster.add(obj)
    attack.go()
    attack.writes.clear()


def lose(kind: str) -> Callable[[World], None]:
    def hit(world: World) -> None:
        owned = world.cluster.owned_by(world.get(KIND)["metadata"]["uid"], kind)
        if owned:
            world.cluster.request_deletion(owned[0])

    return hit


def lose_status(world: World) -> None:
    world.cluster.change(world.get(KIND), status={})


HITS: tuple[Callable[[World], None], ...] = (
    lose("LeaderWorkerSet"),
    lose("Service"),
    lose("DisaggregatedSetRoleScaler"),
    lose_status,
    *(lambda world, edit=edit: world.edit(edit) for edit in LATER),
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_write_breaks_no_promise(loop: asyncio.AbstractEventLoop, fault: str) -> None:
    dice = random.Random(fault)
    for edit in dice.sample(EDITS, 2):
        attack = begin(loop, dice.choice(BUDGETS))
        attack.at, attack.fault = dice.randint(1, 20), fault
        attack.world.edit(edit)
        attack.go()
        attack.check_end()


@pytest.mark.parametrize("hit", range(len(HITS)))
def test_an_event_in_the_middle_of_a_step_breaks_no_promise(
    loop: asyncio.AbstractEventLoop, hit: int
) -> None:
    dice = random.Random(hit)
    attack = begin(loop, dice.choice(BUDGETS))
    attack.at, attack.hit = dice.randint(1, 20), HITS[hit]
    attack.world.edit(dice.choice(EDITS))
    attack.go()
    attack.check_end()


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("failure", ["crash", "fail"])
def test_a_group_that_fails_once_costs_no_healthy_group(
    loop: asyncio.AbstractEventLoop, failure: str, index: int
) -> None:
    attack = begin(loop, BUDGETS[1], (3, 3))
    pods = attack.world.cluster.of_kind("Pod")
    (pod,) = (obj for obj in pods if obj["metadata"]["name"].endswith(f"-prefill-{index}"))
    getattr(attack.world.nodes, failure)(pod)
    attack.world.edit(image("b"))
    attack.go()
    attack.check_end()


@pytest.mark.parametrize("at", range(9, 17))
def test_an_overtaken_rollout_keeps_its_initial_floor(loop: asyncio.AbstractEventLoop, at: int) -> None:
    """The middle revision is replaced first, and its groups count as long as the oldest one has some."""
    attack = begin(loop, BUDGETS[1])
    attack.at, attack.hit = at, lambda world: world.edit(image("c"))
    attack.world.edit(image("b"))
    attack.go()
    attack.check_end()


@pytest.mark.parametrize(
    ("counts", "rolling", "at"),
    [((3, 2), BUDGETS[1], 9), ((3, 2), BUDGETS[1], 10), ((6, 3), BUDGETS[0], 9)],
)
def test_a_lost_status_keeps_the_floor_of_a_rollout_without_its_middle_revision(
    loop: asyncio.AbstractEventLoop, counts: tuple[int, int], rolling: dict[str, Any], at: int
) -> None:
    attack = begin(loop, rolling, counts)
    (oldest,) = attack.world.counts()
    attack.at, attack.hit = at, lambda world: world.edit(image("c"))
    attack.world.edit(image("b"))
    seen: set[str] = set()
    while len(seen) < 3 or len(attack.world.counts()) > 2:
        attack.go(1)
        attack.world.manager.ring()
        seen |= attack.world.counts().keys()
    assert oldest in attack.world.counts()
    lose_status(attack.world)
    attack.go()
    attack.check_end()


@pytest.mark.parametrize("seed", range(4))
def test_lagging_caches_break_no_promise(loop: asyncio.AbstractEventLoop, seed: int) -> None:
    attack = begin(loop, BUDGETS[seed % len(BUDGETS)])
    attack.dice = random.Random(seed)
    attack.world.edit(EDITS[seed])
    attack.go()
    attack.dice = None
    attack.go()
    attack.check_end()


def test_a_status_lost_at_rest_is_restored(loop: asyncio.AbstractEventLoop) -> None:
    attack = begin(loop, BUDGETS[0])
    before = attack.world.status
    lose_status(attack.world)
    attack.go()
    assert attack.world.status["updateRevision"] == before["updateRevision"]
    attack.check_end()


FOREIGN = {"type": "example.com/Checked", "status": "True", "reason": "Checked", "message": "by hand"}


def edited_statuses(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a status as other clients may leave it: emptied, old, without one of its fields, or with another
    value.
    """
    yield {}
    old = [{**condition, "status": "False", "reason": "Old"} for condition in status["conditions"]]
    yield {**status, "conditions": old}
    for field, value in status.items():
        yield {name: value for name, value in status.items() if name != field}
        if isinstance(value, int | str):
            yield {**status, field: type(value)(7)}


def computed_fields(status: dict[str, Any]) -> dict[str, Any]:
    """Return what a pass can compute again: no records, no timestamps, and only conditions that are True."""
    memory = {"lastProgressTime", "members", "rollout", "restarts", "collisionCount", "rollouts"}
    conditions = [
        {**condition, "lastTransitionTime": ""}
        for condition in status["conditions"]
        if condition["type"] != FOREIGN["type"] and condition["status"] == "True"
    ]
    return {name: value for name, value in status.items() if name not in memory} | {"conditions": conditions}


@pytest.mark.parametrize(
    ("kind", "name", "passes"),
    [
        pytest.param(KIND, "demo", "disaggregatedset", id="of a DisaggregatedSet"),
        pytest.param(SCALER_KIND, "demo-prefill", "disaggregatedset", id="of a scaler"),
        pytest.param(CHILD, "", "set", id="of a LeaderWorkerSet"),
    ],
)
def test_an_edited_status_is_repaired_at_once_by_one_write(
    loop: asyncio.AbstractEventLoop, kind: str, name: str, passes: str
) -> None:
    """No time passes in between. Our write starts no other pass, and conditions of other controllers stay."""
    world = World(loop)
    obj = make_disaggregated(roles=[make_role("prefill", 2), make_role("decode", 1)])
    scale_from_outside(obj["spec"])
    world.cluster.add(obj)
    for _ in range(5):
        world.settle()
        world.manager.ring()
    name = name or world.children[0]["metadata"]["name"]
    complete = world.get(kind, name)["status"]
    for edited in edited_statuses(computed_fields(complete)):
        before = {**edited, "conditions": [*edited.get("conditions", ()), FOREIGN]}
        # So long after the last one that it is no conflict between two writers.
        world.cluster.now += timedelta(seconds=timing.ACTIVE_SET_SECONDS + 1)
        world.cluster.change(world.get(kind, name), status=before)
        writes = world.cluster.writes
        world.passes.clear()
        world.settle()
        status = world.get(kind, name)["status"]
        assert computed_fields(status) == computed_fields(complete), edited
        assert FOREIGN in status["conditions"], edited
        assert world.cluster.writes - writes == 1, edited
        assert [key.kind for key in world.passes].count(passes) == 1, edited


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        pytest.param(KIND, {"revisionHistoryLimit": 5}, id="of the set"),
        pytest.param("LeaderWorkerSet", {"progressDeadlineSeconds": 60}, id="of a role"),
    ],
)
def test_a_status_lost_between_read_and_write_is_restored(
    loop: asyncio.AbstractEventLoop, kind: str, change: dict[str, Any]
) -> None:
    """Our merge patch meets an empty status. The stream shows this with the response, and nothing else
    happens.
    """
    world, cleared = begin(loop, BUDGETS[0]).world, set()
    merge = world.cluster.merge

    async def clearing(target: Reference, patch: Object, subresource: str = "") -> Any:
        if target.kind == kind and subresource == "status" and target.name not in cleared:
            cleared.add(target.name)
            world.cluster.change(world.get(kind, target.name), status={})
        return await merge(target, patch, subresource)

    world.cluster.merge = clearing  # type: ignore[method-assign]
    world.edit(lambda spec: (spec if kind == KIND else spec["roles"][0]["spec"]).update(change))
    world.settle()
    for _ in range(5):
        world.manager.ring()
        world.settle()
    assert cleared
    for name in cleared:
        status = world.get(kind, name)["status"]
        assert status.keys() >= {"observedGeneration", "updateRevision", "currentRevision", "conditions"}


@pytest.mark.parametrize(("seed", "rounds"), [(0, 1), (1, 1), (2, 1)])
def test_slices_under_creation_do_not_count_as_broken(
    loop: asyncio.AbstractEventLoop, seed: int, rounds: int
) -> None:
    attack = Attack(loop)
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    roles = [make_role("prefill", 3, rolling=rolling), make_role("decode", 1, rolling=rolling)]
    attack.world.cluster.add(make_disaggregated(roles=roles))
    attack.go()
    attack.dice = random.Random(seed) if seed else None
    attack.world.edit(lambda spec: spec.update(slices=3))
    attack.go(rounds)
    attack.world.edit(image("b"))
    attack.go()
    attack.dice = None
    attack.go()
    attack.check_end()
