"""Tests of recorded revisions, of keys that recreated leaders have, and of what runs without a record."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from lws.kube.metadata import owner_reference
from lws.leaderworkerset.observe.history import RevisionReader
from lws.leaderworkerset.observe.membership import Membership
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.revisions import reading
from lws.leaderworkerset.revisions.history import SEAL_ANNOTATION, record
from lws.leaderworkerset.tables import TABLES
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import Resource
from lws.runtime.errors import NotFound
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import NAME_LABEL, REVISION_LABEL
from test.unit.builders import (
    KEY,
    build_revision,
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_statefulset,
    statefulset_revision,
)

Object = dict[str, Any]
OLD = "key-old"


class RecordingApi:
    """An API that answers from objects and records the requests."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self.objects = list(objects)
        self.requests: list[str] = []

    async def get(self, kind: str, namespace: str, name: str) -> Object:
        self.requests.append(f"{kind} {namespace}/{name}")
        for obj in self.objects:
            if (obj["kind"], obj["metadata"]["name"]) == (kind, name):
                return obj
        raise NotFound(404, "NotFound", name)

    async def list_page(
        self, resource: Resource, query: Mapping[str, str], metadata_only: bool = False, namespace: str = ""
    ) -> Object:
        self.requests.append(f"{resource.plural} of {namespace}{query or ''}")
        matching = [obj for obj in self.objects if obj["kind"] == resource.kind]
        return {
            "items": [{key: obj[key] for key in obj if key not in ("kind", "apiVersion")} for obj in matching]
        }


class World:
    """The objects of a cluster. The store has all but those whose UIDs are in `hide`."""

    def __init__(self, *objects: Object, hide: Iterable[str] = ()) -> None:
        self.store = Store(lambda before, after: None, TABLES)
        for obj in objects:
            if obj["metadata"]["uid"] not in hide:
                self.store.put(obj)
        self.api = RecordingApi(objects)
        cluster = cast(Cluster, self.api)
        self.history = RevisionReader(
            cluster, self.store, SetWrites(self.store), Membership(self.store, set())
        )


def make_revision(lws: Object, key: str, number: int = 1) -> Object:
    built = copy.deepcopy(dict(build_revision(lws, record(lws), number, key=key)))
    built["data"] = json.loads(built["data"].text)
    built["metadata"] |= {"uid": f"uid-of-revision-{number}", "resourceVersion": "1"}
    return built


def make_own_revision(leader: Object, key: str, owner: Object | None = None) -> Object:
    """Return one of the leader StatefulSet's own ControllerRevisions."""
    template = copy.deepcopy(leader["spec"]["template"])
    template["metadata"]["labels"][REVISION_LABEL] = key
    name = statefulset_revision(leader["metadata"]["name"], key)
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "resourceVersion": "1",
            "labels": template["metadata"]["labels"],
            "ownerReferences": [owner_reference(owner or leader)],
        },
        "revision": 1,
        "data": {"spec": {"template": {"$patch": "replace", **template}}},
    }


def make_moving_leaders() -> Object:
    """Return a leader StatefulSet between two revisions."""
    current = statefulset_revision("demo", OLD)
    return make_leader_statefulset(status={"currentRevision": current})


def make_workers(index: int, key: str, created: str = "2026-01-01T00:00:00Z") -> tuple[Object, Object]:
    pod = make_leader_pod(index=index, key=key)
    workers = make_worker_statefulset(pod)
    workers["metadata"]["creationTimestamp"] = created
    return pod, workers


def test_keys_of_recreated_leaders() -> None:
    leader = make_moving_leaders()
    old, new = make_own_revision(leader, OLD), make_own_revision(leader, KEY)
    assert World(leader, old, new).history.reported_keys(leader) == {OLD, KEY}
    forgotten = make_own_revision(leader, "key-forgotten")
    assert World(leader, old, new, forgotten).history.reported_keys(leader) == {OLD, KEY}
    assert World(leader).history.reported_keys(leader) == frozenset()


def test_keys_of_a_foreign_statefulset_are_ignored() -> None:
    leader = make_moving_leaders()
    stranger = make_leader_statefulset(make_set("other"))
    assert (
        World(leader, make_own_revision(leader, OLD, owner=stranger)).history.reported_keys(leader)
        == frozenset()
    )


def test_a_statefulset_without_a_status_reports_no_keys() -> None:
    leader = make_leader_statefulset()
    del leader["status"]
    assert World(leader, make_own_revision(leader, KEY)).history.reported_keys(leader) == frozenset()


async def test_no_read_without_missing_revisions() -> None:
    lws, leader = make_set(), make_leader_statefulset()
    world = World(lws, leader, make_revision(lws, KEY))
    assert await world.history.unrecorded(lws, leader, [KEY]) == ()
    assert await world.history.unrecorded(lws, leader, []) == ()
    assert world.api.requests == []


async def test_a_revision_missing_from_the_stream_is_read() -> None:
    lws, leader = make_set(), make_leader_statefulset()
    revision = make_revision(lws, KEY)
    world = World(lws, leader, revision, hide=[revision["metadata"]["uid"]])
    assert world.history.recorded(lws) == ()
    assert await world.history.unrecorded(lws, leader, [KEY]) == ()
    assert world.api.requests == ["controllerrevisions of default"]
    assert [recorded.key for recorded in world.history.recorded(lws)] == [KEY]


@pytest.mark.parametrize("label", ["other", None], ids=["edited", "removed"])
async def test_an_owned_revision_is_found_regardless_of_its_name_label(label: str | None) -> None:
    lws, leader = make_set(), make_leader_statefulset()
    revision = make_revision(lws, KEY)
    revision["metadata"]["labels"].pop(NAME_LABEL)
    if label is not None:
        revision["metadata"]["labels"][NAME_LABEL] = label
    # No stream shows a revision without labels.
    world = World(lws, leader, revision, hide=[revision["metadata"]["uid"]] if label is None else [])
    assert await world.history.unrecorded(lws, leader, [KEY]) == ()
    (recorded,) = world.history.recorded(lws)
    assert (recorded.key, recorded.labels.get(NAME_LABEL, "")) == (KEY, label or "")


async def test_no_group_gets_a_template_whose_label_was_edited_to_its_key() -> None:
    """The revision of a lost leader was deleted, and the label of another revision, which all other groups
    run, was edited to its key. Passes over that group see the same as passes over the set.
    """
    lws, key = make_set(image="app:2"), record(make_set(image="app:2")).key
    leader, lost = make_leader_statefulset(lws, key=key), make_leader_pod(lws, 0, key=OLD)
    edited = make_revision(lws, OLD)
    del edited["metadata"]["annotations"][SEAL_ANNOTATION]
    world = World(lws, leader, lost, edited, make_leader_pod(lws, 1, key=key))
    assert [revision.key for revision in world.history.recorded(lws)] == [key]
    assert [revision.key for revision in await world.history.unrecorded(lws, leader, [OLD])] == [OLD]


async def test_orphaned_and_foreign_revisions_are_ignored() -> None:
    lws, leader = make_set(), make_leader_statefulset()
    stranger = make_revision(make_set("other"), KEY, number=7)
    world = World(lws, leader, stranger, hide=[stranger["metadata"]["uid"]])
    (running,) = await world.history.unrecorded(lws, leader, [KEY])
    assert running.key == KEY
    assert world.store.of_kind("ControllerRevision") == ()


async def test_templates_of_both_reported_revisions_are_read() -> None:
    lws, leader = make_set(), make_moving_leaders()
    world = World(lws, leader, make_own_revision(leader, OLD), make_own_revision(leader, KEY))
    new, old = await world.history.unrecorded(lws, leader, {OLD, KEY})
    assert (new.key, new.leader) == (KEY, leader["spec"]["template"])
    assert old.key == OLD
    assert old.leader is not None
    assert "$patch" not in old.leader
    assert old.leader["metadata"]["labels"][REVISION_LABEL] == OLD
    assert old.leader["spec"] == leader["spec"]["template"]["spec"]


async def test_a_template_that_creates_no_leader_is_ignored() -> None:
    lws, leader = make_set(), make_leader_statefulset()
    forgotten = make_own_revision(leader, OLD)
    stranger = make_own_revision(leader, KEY, owner=make_leader_statefulset(make_set("other")))
    world = World(lws, leader, forgotten, stranger)
    (running,) = await world.history.unrecorded(lws, leader, [OLD])
    assert (running.leader, running.claims, running.workers) == (None, (), None)


async def test_the_oldest_workers_are_read_in_full() -> None:
    lws, leader = make_set(), make_leader_statefulset()
    young = make_workers(0, KEY, created="2026-02-02T00:00:00Z")
    old = make_workers(1, KEY, created="2026-02-01T00:00:00Z")
    outdated = make_workers(2, OLD, created="2026-01-01T00:00:00Z")
    world = World(lws, leader, *young, *old, *outdated)
    (running,) = await world.history.unrecorded(lws, leader, [KEY])
    assert running.workers == old[1]
    assert running.workers["spec"]["template"]["spec"]["containers"]
    (first,) = await world.history.unrecorded(lws, leader, [KEY], first=young[1])
    assert first.workers == young[1]


@pytest.mark.parametrize("case", ["gone", "another one", "leader gone", "other leaders", "no owner"])
async def test_workers_of_no_leader_are_skipped(case: str) -> None:
    lws, leader = make_set(), make_leader_statefulset()
    pod, workers = make_workers(0, KEY)
    objects = [lws, leader, pod, workers]
    if case == "leader gone":
        objects.remove(pod)
    elif case == "other leaders":
        pod["metadata"]["ownerReferences"][0]["uid"] = "uid-of-others"
    elif case == "no owner":
        workers["metadata"]["ownerReferences"] = []
    world = World(*objects)
    if case == "gone":
        world.api.objects.remove(workers)
    elif case == "another one":
        successor = copy.deepcopy(workers)
        successor["metadata"]["uid"] = "uid-of-successor"
        world.api.objects = [lws, leader, pod, successor]
    (running,) = await world.history.unrecorded(lws, leader, [KEY])
    assert running.workers is None
    assert running.leader is not None


@pytest.mark.parametrize(
    "data",
    [None, "text", {"spec": []}, {"spec": {"template": []}}, {"spec": {"template": {"spec": "a"}}}],
    ids=str,
)
async def test_invalid_templates_are_ignored(data: Any) -> None:
    lws, leader = make_set(), make_moving_leaders()
    garbled = {**make_own_revision(leader, OLD), "data": data}
    (running,) = await World(lws, leader, garbled).history.unrecorded(lws, leader, {OLD})
    assert (running.key, running.leader) == (OLD, None)


def test_a_broken_revision_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lws = make_set()
    owned, orphan = (make_revision(lws, KEY, number) for number in (1, 2))
    for revision in (owned, orphan):
        revision["data"]["spec"]["leaderWorkerTemplate"]["size"] = "two"
    orphan["metadata"] |= {"name": "orphan", "ownerReferences": []}
    world = World(lws, owned, orphan)
    (recorded,) = world.history.recorded(lws)
    assert "size is 'two'" in recorded.broken
    monkeypatch.setattr(reading, "recorded_fault", lambda data: pytest.fail("it was parsed before"))
    assert world.history.recorded(lws) == (recorded,)
