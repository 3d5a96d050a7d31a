"""Tests that a DisaggregatedSet without progress is stalled in time, with a quiet status before and after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lws.kube.conditions import find
from lws.runtime.errors import ApiError, Forbidden
from lws_api.disaggregatedset.v1 import KIND, ROLE_LABEL
from test.unit.disaggregated import make_disaggregated
from test.unit.stories.disaggregated_world import CHILD, World
from test.unit.stories.test_disaggregated_attacks import image

DEADLINE = 60
QUOTA = Forbidden(403, "Forbidden", "exceeded quota: sets")
WEBHOOK = ApiError(500, "InternalError", "failed calling webhook")
Refused = Callable[[Mapping[str, Any]], bool]


def is_child(obj: Mapping[str, Any]) -> bool:
    return bool(obj["kind"] == CHILD)


def is_decode(obj: Mapping[str, Any]) -> bool:
    return is_child(obj) and obj["metadata"]["labels"][ROLE_LABEL] == "decode"


def is_revision(obj: Mapping[str, Any]) -> bool:
    return bool(obj["kind"] == "ControllerRevision")


def refuse(world: World, is_meant: Refused, error: ApiError) -> None:
    """Make the API server reject creations of such objects."""
    create = world.cluster.create

    async def refusing(obj: Mapping[str, Any]) -> Mapping[str, Any]:
        if is_meant(obj):
            raise error
        return await create(obj)

    world.cluster.create = refusing  # type: ignore[method-assign]


def begin(world: World, **spec: Any) -> None:
    obj = make_disaggregated(**{"progressDeadlineSeconds": DEADLINE, **spec})
    del obj["metadata"]["uid"]
    world.cluster.add(obj)
    world.settle()


def wait(world: World, seconds: float, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Let time pass. Delayed passes run when they are due."""
    end = (world.cluster.now.timestamp()) + seconds
    while world.cluster.now.timestamp() < end:
        meanwhile()
        if not world.manager.ring():
            world.cluster.pass_time(5.0)
        world.settle()


def stalled(world: World) -> str:
    """Return the status of the condition Stalled; empty if there is none."""
    condition = find(world.status.get("conditions"), "Stalled")
    return str(condition["status"]) if condition is not None else ""


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize("error", [QUOTA, WEBHOOK], ids=["refused", "fails"])
@pytest.mark.parametrize("is_meant", [is_child, is_decode, is_revision])
def test_a_set_without_any_object_stalls_in_time_and_then_writes_nothing(
    loop: asyncio.AbstractEventLoop, is_meant: Refused, error: ApiError, slices: int
) -> None:
    world = World(loop)
    refuse(world, is_meant, error)
    begin(world, slices=slices)
    assert stalled(world) == ""
    wait(world, 2 * DEADLINE)
    assert stalled(world) == "True" and world.reasons.count("Stalled") == 1
    statuses = len(world.cluster.log[KIND])
    wait(world, 20 * DEADLINE)
    assert len(world.cluster.log[KIND]) == statuses, "it has nothing new to say"


def test_a_revision_without_groups_stalls_although_old_groups_flap(
    loop: asyncio.AbstractEventLoop,
) -> None:
    world = World(loop)
    begin(world)
    refuse(world, is_child, QUOTA)
    world.edit(image("app:2"))
    world.settle()

    def flap() -> None:
        (pod, *_) = world.cluster.of_kind("Pod")
        world.nodes.crash(pod)

    wait(world, 3 * DEADLINE, flap)
    assert stalled(world) == "True"


def test_a_revision_without_ready_groups_stalls_although_old_groups_flap(
    loop: asyncio.AbstractEventLoop,
) -> None:
    world = World(loop)
    begin(world)
    world.nodes.hopeless = frozenset({"app:2"})
    world.edit(image("app:2"))
    world.settle()

    def flap() -> None:
        pods = world.cluster.of_kind("Pod")
        world.nodes.crash(next(pod for pod in pods if pod["spec"]["containers"][0]["image"] == "app:1"))

    wait(world, 3 * DEADLINE, flap)
    assert stalled(world) == "True"


def test_a_stalled_set_recovers_when_its_objects_can_be_created(loop: asyncio.AbstractEventLoop) -> None:
    world = World(loop)
    create = world.cluster.create
    refuse(world, is_decode, QUOTA)
    begin(world)
    wait(world, 2 * DEADLINE)
    world.cluster.create = create  # type: ignore[method-assign]
    wait(world, 2 * DEADLINE)
    assert stalled(world) == "False" and world.conditions["Available"] == "True"


def test_a_paused_set_never_stalls(loop: asyncio.AbstractEventLoop) -> None:
    world = World(loop)
    begin(world)

    def edit(spec: dict[str, Any]) -> None:
        image("app:2")(spec)
        spec["rolloutStrategy"] = {"paused": True}

    world.edit(edit)
    world.settle()
    wait(world, 3 * DEADLINE)
    assert stalled(world) == ""
