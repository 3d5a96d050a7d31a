"""Adding and removing a finalizer keeps all others, also during concurrent writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from lws.runtime.actions import Merge, Reference, SetFinalizer
from lws.runtime.apply import write_finalizer, write_merge
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import Overtaken
from test.unit.stories.fake_cluster import FakeCluster

OURS, THEIRS, LATER = "example.com/ours", "example.com/theirs", "foregroundDeletion"


class World:
    """An API server with one pod in the state in which the plan saw it."""

    def __init__(self, *finalizers: str, is_terminating: bool = False) -> None:
        self.cluster = FakeCluster(has_feature=False)
        metadata: dict[str, Any] = {"name": "demo-0"}
        metadata |= {"finalizers": list(finalizers)} if finalizers else {}
        metadata |= {"deletionTimestamp": "2026-03-01T12:00:00Z"} if is_terminating else {}
        self.planned = self.cluster.add(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{}]}}
        )
        self.seen: list[Mapping[str, Any]] = []

    async def write(self, is_there: bool, **patch: Any) -> Mapping[str, Any] | None:
        action = SetFinalizer(Reference.to(self.planned), OURS, "because", is_there=is_there, patch=patch)
        return await write_finalizer(cast(Cluster, self.cluster), action, self.seen.append)

    @property
    def finalizers(self) -> Any:
        pod = self.cluster.find("Pod", "demo-0")
        return (pod["metadata"].get("finalizers") or []) if pod is not None else None


@pytest.mark.parametrize(
    ("before", "is_there", "after"),
    [
        pytest.param([], True, [OURS], id="the first"),
        pytest.param([THEIRS], True, [THEIRS, OURS], id="beside another"),
        pytest.param([OURS, THEIRS], False, [THEIRS], id="removed"),
        pytest.param([OURS], False, [], id="the last"),
    ],
)
async def test_other_finalizers_are_kept(before: list[str], is_there: bool, after: list[str]) -> None:
    world = World(*before)
    await world.write(is_there)
    assert world.finalizers == after and not world.seen


async def test_a_finalizer_added_since_the_plan_is_kept() -> None:
    world = World(OURS)
    world.cluster.change(world.planned, {"finalizers": [OURS, LATER]})
    await world.write(is_there=False)
    assert world.finalizers == [LATER]


async def test_the_same_write_may_change_other_fields() -> None:
    world = World()
    await world.write(is_there=True, metadata={"annotations": {"a": "b"}})
    assert world.cluster.writes == 1
    stored = world.cluster.objects["Pod", "demo-0"]["metadata"]
    assert (stored["finalizers"], stored["annotations"]) == ([OURS], {"a": "b"})


async def test_a_missing_finalizer_needs_no_write() -> None:
    world = World(THEIRS)
    assert await world.write(is_there=False) is not None
    assert world.cluster.writes == 0


async def test_a_terminating_object_gets_no_finalizer() -> None:
    world = World(THEIRS, is_terminating=True)
    with pytest.raises(Overtaken):
        await world.write(is_there=True)
    assert world.finalizers == [THEIRS] and world.seen
    assert await World(OURS, is_terminating=True).write(is_there=True) is not None, (
        "the finalizer exists already"
    )


@pytest.mark.parametrize("is_there", [True, False], ids=["added", "taken away"])
@pytest.mark.parametrize("is_another", [True, False], ids=["another one", "deleted"])
async def test_a_recreated_object_is_not_written(is_there: bool, is_another: bool) -> None:
    world = World(OURS)
    world.cluster.end(world.planned)
    if is_another:
        world.cluster.add({**world.planned, "metadata": {"name": "demo-0", "finalizers": [OURS]}})
    if is_there:
        with pytest.raises(Overtaken):
            await world.write(is_there)
    else:
        assert (await world.write(is_there) is None) is not is_another
    assert world.cluster.writes == 0


async def test_a_conflict_is_left_to_the_next_pass() -> None:
    world = World(OURS)

    def once() -> None:
        world.cluster.before_write = lambda: None
        world.cluster.change(world.planned, {"finalizers": [OURS, THEIRS]})

    world.cluster.before_write = once
    with pytest.raises(Overtaken):
        await world.write(is_there=False)
    assert world.finalizers == [OURS, THEIRS] and world.seen


@pytest.mark.parametrize("is_changed", [False, True], ids=["that version", "a later one"])
async def test_a_patch_with_a_version_is_written_only_to_that_version(is_changed: bool) -> None:
    world = World()
    version = world.planned["metadata"]["resourceVersion"]
    patch = {"metadata": {"annotations": {"a": "1"}, "resourceVersion": version}}
    if is_changed:
        world.cluster.change(world.planned, {"annotations": {"a": "2"}})
    merge = write_merge(
        cast(Cluster, world.cluster),
        Merge(Reference.to(world.planned), patch, why="because"),
        world.seen.append,
    )
    if is_changed:
        with pytest.raises(Overtaken):
            await merge
    else:
        await merge
    annotations = world.cluster.objects["Pod", "demo-0"]["metadata"]["annotations"]
    assert annotations == {"a": "2" if is_changed else "1"}
    assert bool(world.seen) is is_changed
