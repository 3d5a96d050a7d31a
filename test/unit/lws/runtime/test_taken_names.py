"""Names that other objects already use are recorded until those objects are deleted."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lws.leaderworkerset.children.services import build_service
from lws.leaderworkerset.group.gangs import PROVIDERS
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.plan import plan as plan_set
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Announce, Create
from lws.runtime.apply import Applier, WriteHooks
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import AlreadyExists
from lws.runtime.store import Store
from test.unit import api_server
from test.unit.builders import (
    build_revision,
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_statefulset,
)
from test.unit.lws.leaderworkerset.observe.test_observer import FakeCluster, World

LWS = make_set()
UID = LWS["metadata"]["uid"]
CREATE = Create(build_revision(LWS, record(LWS), 1), why="because")


def a_stranger(**metadata: Any) -> dict[str, Any]:
    """Return an object that shares only the name of the set's first revision."""
    name = CREATE.intent["metadata"]["name"]
    bare = {"name": name, "namespace": "default", **metadata}
    return api_server.stored({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": bare})


def with_existing(obj: dict[str, Any]) -> tuple[Store, SetWrites]:
    """Return a store and records after the create found the object."""
    store = Store(lambda before, after: None, TABLES)
    memory = SetWrites(store)
    memory.put(obj)
    memory.taken.record(CREATE)
    return store, memory


def test_the_object_with_the_name_is_returned_until_it_is_deleted() -> None:
    store, memory = with_existing(a_stranger())
    (obj,) = memory.taken.of_set(UID)
    assert obj["metadata"]["name"] == CREATE.intent["metadata"]["name"]
    assert memory.taken.of_set("uid-of-another-set") == ()
    store.drop(obj)
    assert memory.taken.of_set(UID) == ()


def test_objects_of_the_set_itself_do_not_conflict() -> None:
    own = a_stranger(ownerReferences=CREATE.intent["metadata"]["ownerReferences"])
    assert with_existing(own)[1].taken.of_set(UID) == ()


def test_names_of_other_kinds_are_not_recorded() -> None:
    _, memory = with_existing(a_stranger())
    memory.taken.record(Create({**CREATE.intent, "kind": "Service"}, why="because"))
    assert len(memory.taken.of_set(UID)) == 1


def test_the_number_of_remembered_sets_is_limited() -> None:
    store, memory = with_existing(a_stranger())
    for number in range(5000):
        lws = make_set(f"set-{number}")
        memory.taken.record(Create(build_revision(lws, record(lws), 1), why="because"))
    assert memory.taken.of_set(UID) == ()
    assert store.of_kind("ControllerRevision")


class Api(FakeCluster):
    """A cluster in which the name of every create is taken. created: the kind and name of each."""

    created: list[str]

    async def create(self, intent: Any) -> Any:
        key = intent["kind"], intent["metadata"]["name"]
        self.created.append(" ".join(key))
        assert key in self.objects, "nothing else is missing"
        raise AlreadyExists(409, "AlreadyExists", "there")

    async def apply(self, intent: Any, force: bool) -> Any:
        return self.objects[intent["kind"], intent["metadata"]["name"]]

    async def merge(self, target: Any, patch: Any, subresource: str = "") -> Any:
        return {**self.objects[target.kind, target.name], **patch}


class RecordedEvents(list[str]):
    """A recorder of warnings, in order."""

    def announce(self, announce: Announce) -> None:
        if announce.type == "Warning":
            self.append(announce.note)


UNIQUE = {"subdomainPolicy": "UniquePerReplica"}


@pytest.mark.parametrize(
    ("key", "kind", "name", "changes"),
    [
        pytest.param("set", "Service", "demo", {}, id="shared Service"),
        pytest.param(
            "set",
            "Service",
            "demo-leader",
            {"leaderService": {"ports": [{"port": 80}]}},
            id="Service of leaders",
        ),
        pytest.param("set", "PodDisruptionBudget", "demo", {"podDisruptionBudget": {}}, id="budget"),
        pytest.param("group", "StatefulSet", "demo-0", {}, id="workers"),
        pytest.param("group", "Service", "demo-0", {"networkConfig": UNIQUE}, id="Service of a group"),
        pytest.param("group", "PodGroup", "demo-0-{key}", {}, id="PodGroup"),
    ],
)
async def test_a_create_whose_name_is_taken_is_tried_once_and_reported(
    key: str, kind: str, name: str, changes: dict[str, Any]
) -> None:
    """The other object has no label of ours, so no stream shows it.

    The create finds it, and the next pass reports it.
    """
    lws = make_set(size=3, **changes)
    revision = api_server.stored(dict(build_revision(lws, record(lws), 1)))
    pod = make_leader_pod(lws, 0, key=record(lws).key)
    leaders = make_leader_statefulset(lws, key=record(lws).key)
    world = World(lws, leaders, revision, pod)
    name = name.format(key=record(lws).key)
    stranger = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"containers": []}}},
    }
    world.hide(api_server.stored(stranger, uid="u-9"))
    others = [make_worker_statefulset(pod), build_service("demo", "demo", {}, lws)]
    for obj in others:
        if (obj["kind"], obj["metadata"]["name"]) != (kind, name):
            world.show(api_server.stored(obj))
    if kind == "PodGroup":
        world.gang = PROVIDERS["volcano"]
    world.cluster.__class__ = Api
    api, events = cast(Api, world.cluster), RecordedEvents()
    api.created = []
    memory = world.memory
    applier = Applier(
        cast(Cluster, api),
        events,
        WriteHooks(memory.put, memory.record_apply, lambda *_: None, memory.taken.record),
    )
    for _ in range(3):
        snapshot = await (world.of_set() if key == "set" else world.of_group())
        await applier.apply(plan_set(snapshot) if key == "set" else plan_group(snapshot))
    assert api.created.count(f"{kind} {name}") == 1
    assert any(f"{kind} {name} exists and is not controlled by anything" in note for note in events)
