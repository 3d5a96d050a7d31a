"""Tests that a pass records a new revision of a DisaggregatedSet before it acts on it, whatever fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lws.kube.metadata import annotations_of, controller_of
from lws.runtime.actions import Key
from lws.runtime.errors import ApiError
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION, KIND, SLICE_LABEL
from test.unit.disaggregated import make_disaggregated
from test.unit.stories.disaggregated_world import World
from test.unit.stories.test_disaggregated_attacks import BUDGETS, begin, image, lose_status

PASS_OF_SET = Key("disaggregatedset", "default", "demo")


def test_an_orphaned_history_is_adopted_with_a_new_revision(loop: asyncio.AbstractEventLoop) -> None:
    world, obj = World(loop), make_disaggregated()
    del obj["metadata"]["uid"]
    world.cluster.add(obj)
    world.settle()
    revisions = world.cluster.of_kind("ControllerRevision")
    (old,) = [revision for revision in revisions if (controller_of(revision) or {}).get("kind") == KIND]
    world.cluster.change(old, {"ownerReferences": []})
    world.cluster.request_deletion(world.get(KIND))
    for _ in range(5):
        world.settle()
        world.cluster.pass_time(60.0)
    image("app:2")(obj["spec"])
    world.cluster.add(obj)
    world.settle()
    world.manager.resync()
    world.settle()
    assert controller_of(world.get("ControllerRevision", old["metadata"]["name"])) is not None


def test_a_retried_record_creates_nothing_for_a_deleted_set(
    loop: asyncio.AbstractEventLoop,
) -> None:
    attack = begin(loop, BUDGETS[0])
    world, key = attack.world, Key("disaggregatedset", "default", "demo")
    attack.at, attack.fault = 1, "500"
    world.edit(image("b"))
    world.manager.read(KIND)
    world.manager.run_pass(key)
    world.cluster.request_deletion(world.get(KIND))
    attack.writes.clear()
    attack.at = 0
    world.manager.queue.add(key)
    world.manager.run_pass(key)
    assert not [write for write in attack.writes if "create LeaderWorkerSet" in write]


def test_a_slice_that_cannot_be_created_does_not_block_other_slices(loop: asyncio.AbstractEventLoop) -> None:
    world, obj = World(loop), make_disaggregated(slices=3)
    del obj["metadata"]["uid"]
    create = world.cluster.create
    names: list[str] = []

    async def refusing(intent: Any) -> Any:
        names.append(intent["metadata"]["name"])
        if names[-1].startswith("demo-0-"):
            raise ApiError(500, "InternalError", "not this one")
        return await create(intent)

    world.cluster.create = refusing  # type: ignore[method-assign]
    world.cluster.add(obj)
    world.manager.read(KIND)
    while len({child["metadata"]["labels"][SLICE_LABEL] for child in world.children}) < 2:
        assert world.manager.run_pass(PASS_OF_SET), f"it waits: {names}"
    first = [name for name in names if name.startswith("demo-0-")]
    assert len(first) == 1, "in the same pass as the first one that failed"


@pytest.mark.parametrize("fault", ["500", "late"])
def test_children_record_the_initial_replicas_although_the_first_record_failed(
    loop: asyncio.AbstractEventLoop, fault: str
) -> None:
    attack = begin(loop, BUDGETS[1])
    before = {child["metadata"]["name"] for child in attack.world.children}
    attack.at, attack.fault = 1, fault
    attack.world.edit(image("b"))
    while len(attack.world.counts()) < 2:
        attack.go(1)
        attack.world.manager.ring()
    old = [child for child in attack.world.children if child["metadata"]["name"] in before]
    assert old and all(INITIAL_REPLICAS_ANNOTATION in annotations_of(child) for child in old)


def test_a_record_without_response_keeps_the_floor_when_the_status_is_lost_too(
    loop: asyncio.AbstractEventLoop,
) -> None:
    attack = begin(loop, BUDGETS[1])
    attack.at, attack.fault = 1, "late"
    attack.world.edit(image("b"))
    attack.go(1)
    lose_status(attack.world)
    attack.go()
    attack.check_end()


@pytest.mark.parametrize("field", ["currentRevision", "updateRevision", "conditions"])
def test_a_status_field_lost_at_rest_is_restored(loop: asyncio.AbstractEventLoop, field: str) -> None:
    attack = begin(loop, BUDGETS[0])
    complete = attack.world.status
    without_field = {name: value for name, value in complete.items() if name != field}
    attack.world.cluster.change(attack.world.get(KIND), status=without_field)
    attack.go()
    assert attack.world.status.keys() == complete.keys()
    attack.check_end()
