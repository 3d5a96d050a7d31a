"""Concurrent writes of owner references: no owner is overwritten, and no reference is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from lws.kube.metadata import owner_reference
from lws.runtime.actions import Reference, SetOwner
from lws.runtime.apply import write_owner
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import Conflict, Overtaken
from test.unit.builders import make_set
from test.unit.stories.fake_cluster import FakeCluster

OURS = owner_reference(make_set())
PLAIN = {"apiVersion": "v1", "kind": "ConfigMap", "name": "app", "uid": "u-app"}
RIVAL = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "theirs", "uid": "u-9", "controller": True}

Object = dict[str, Any]
Change = Callable[[FakeCluster, Object], Any]


def owned_by(*owners: Mapping[str, Any]) -> Change:
    return lambda cluster, obj: cluster.change(obj, {"ownerReferences": list(owners)})


class World:
    """An API server with one object in the state in which the plan saw it."""

    def __init__(self, *owners: Mapping[str, Any]) -> None:
        self.cluster = FakeCluster(has_feature=False)
        metadata = {"name": "demo", "ownerReferences": list(owners)}
        self.planned = self.cluster.add(
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {}}
        )
        self.seen: list[Mapping[str, Any]] = []

    async def write(self, **action: Any) -> Mapping[str, Any]:
        set_owner = SetOwner(Reference.to(self.planned), action.pop("owner", OURS), "because", **action)
        return await write_owner(cast(Cluster, self.cluster), set_owner, self.seen.append)

    def meanwhile(self, change: Change) -> None:
        """Make a change between the read and the write."""

        def once() -> None:
            self.cluster.before_write = lambda: None
            change(self.cluster, self.cluster.objects["Service", "demo"])

        self.cluster.before_write = once

    @property
    def owners(self) -> Any:
        service = self.cluster.find("Service", "demo")
        return service["metadata"].get("ownerReferences") if service else None


@pytest.mark.parametrize(
    ("before", "owner", "is_owner", "after"),
    [
        pytest.param([], OURS, True, [OURS], id="no owners"),
        pytest.param([PLAIN], OURS, True, [PLAIN, OURS], id="owners that are not controllers"),
        pytest.param(
            [{**OURS, "controller": False}, PLAIN], OURS, True, [PLAIN, OURS], id="ours, but no controller"
        ),
        pytest.param([PLAIN, OURS], OURS, False, [PLAIN], id="removed"),
    ],
)
async def test_an_owner_is_added_or_removed_and_all_others_are_kept(
    before: list[Object], owner: Object, is_owner: bool, after: list[Object]
) -> None:
    world = World(*before)
    stored = await world.write(owner=owner, is_owner=is_owner)
    assert world.owners == stored["metadata"]["ownerReferences"] == after


@pytest.mark.parametrize(
    ("before", "is_owner"), [([OURS, PLAIN], True), ([PLAIN], False)], ids=["present", "absent"]
)
async def test_an_unchanged_owner_needs_no_write(before: list[Object], is_owner: bool) -> None:
    world = World(*before)
    assert await world.write(is_owner=is_owner) == world.planned
    assert world.cluster.writes == 0


async def test_an_owner_that_another_client_added_since_the_plan_is_kept() -> None:
    world = World()
    owned_by(PLAIN)(world.cluster, world.planned)
    await world.write()
    assert world.owners == [PLAIN, OURS]


async def test_the_number_of_a_revision_is_raised_by_the_same_write() -> None:
    world = World()
    stored = await world.write(patch={"revision": 3})
    assert (stored["revision"], stored["metadata"]["ownerReferences"]) == (3, [OURS])
    assert world.cluster.writes == 1
    assert (await world.write(patch={"revision": 4}))["revision"] == 4


async def test_other_changes_of_the_metadata_keep_the_owners() -> None:
    world = World(PLAIN)
    world.planned = world.cluster.change(world.planned, {"labels": {"kro.run/owned": "true", "team": "a"}})
    stored = await world.write(patch={"metadata": {"labels": {"kro.run/owned": None}}})
    assert stored["metadata"]["labels"] == {"team": "a"} and world.owners == [PLAIN, OURS]


FASTER = [
    pytest.param(owned_by(RIVAL), id="controlled by another owner"),
    pytest.param(
        lambda cluster, obj: cluster.change(obj, {"deletionTimestamp": "2026-03-01T12:00:00Z"}),
        id="terminating",
    ),
    pytest.param(lambda cluster, obj: cluster.end(obj), id="deleted"),
    pytest.param(
        lambda cluster, obj: (cluster.end(obj), cluster.add({**obj, "spec": {"new": True}})),
        id="recreated",
    ),
]


@pytest.mark.parametrize("change", FASTER)
@pytest.mark.parametrize("is_owner", [True, False], ids=["added", "taken away"])
async def test_an_adoption_before_the_read_is_kept(change: Change, is_owner: bool) -> None:
    world = World(*([] if is_owner else [{**OURS, "controller": False}]))
    change(world.cluster, world.planned)
    before = world.cluster.find("Service", "demo")
    with pytest.raises(Overtaken):
        await world.write(is_owner=is_owner)
    assert world.cluster.find("Service", "demo") == before and world.cluster.writes == 0
    assert world.seen == ([before] if before else []), "the next plan knows"


@pytest.mark.parametrize("change", [*FASTER, pytest.param(owned_by(PLAIN), id="a plain owner came")])
async def test_an_adoption_after_the_read_is_kept(change: Change) -> None:
    world = World()
    world.meanwhile(change)
    with pytest.raises(Overtaken):
        await world.write()
    after = world.cluster.find("Service", "demo")
    assert OURS not in (world.owners or [])
    assert world.seen == ([after] if after else [])


async def test_a_conflict_without_a_concurrent_change_is_an_error() -> None:
    """Webhooks may answer 409 too."""
    world = World()

    def refuse() -> None:
        raise Conflict(409, "Conflict", "a webhook said no")

    world.cluster.before_write = refuse
    with pytest.raises(Conflict, match="a webhook said no"):
        await world.write()
