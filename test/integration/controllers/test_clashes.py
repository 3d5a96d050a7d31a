"""Objects of other owners with a name that a set needs are left alone and reported.

The whole file has one namespace: its sets wait at the same time until those objects are deleted.
"""

from __future__ import annotations

from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL
from test.harness.events import events_of
from test.harness.groups import (
    condition,
    controller_of,
    pod_uids,
    settle,
)
from test.harness.identities import differences, identities, specs
from test.harness.manifests import a_set, new_image
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from tools.localcluster import ApiError

# No event reports the deletion of another owner's object, so sets check again at intervals. On a new cluster,
# the garbage collector also takes half a minute to discover a new kind.
GONE_SECONDS = 300


def foreign_statefulset(name: str) -> dict[str, Any]:
    labels = {"app": "foreign"}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "serviceName": "foreign",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "foreign:1"}]},
            },
        },
    }


def foreign_service(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": "foreign"}, "ports": [{"port": 80}]},
    }


def _create_headless(
    world: World, name: str, labels: dict[str, str], selector: dict[str, str]
) -> dict[str, Any]:
    metadata, spec = {"name": name, "labels": labels}, {"clusterIP": "None", "selector": selector}
    return world.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


def wait_for_clash(world: World, name: str, words: str) -> dict[str, Any]:
    """Wait for the condition, and return it."""
    return eventually(
        f"{name} reports the conflict with {words}",
        lambda: condition(world.get(SET, name), "ReplicaFailure"),
        lambda failure: failure.get("status") == "True" and words in failure["message"],
    )


def warning_of(world: World, name: str) -> str:
    """Wait for warnings, and return the only text, which several writers may report."""

    def notes() -> set[str]:
        return {event.note for event in events_of(world, name) if event.type == "Warning"}

    (note,) = eventually(f"there is a warning about {name}", notes)
    return note


@pytest.fixture(scope="module")
def world(shared_world: World) -> World:
    """Objects of other owners, then the sets that need their names.

    Group 0 of `b` also needs the name `b-0`.
    """
    shared_world.create(foreign_statefulset("taken"))
    shared_world.create(foreign_service("served"))
    shared_world.create(foreign_statefulset("led-0"))
    eventually(
        "the foreign StatefulSets run",
        lambda: _ready(shared_world, "taken") and _ready(shared_world, "led-0"),
    )
    for manifest in (a_set("a", replicas=1), a_set("b-0", replicas=1), a_set("b", replicas=0)):
        shared_world.create(manifest)
    settle(shared_world, "a", "b-0", "b")
    return shared_world


@pytest.fixture(scope="module")
def foreign_objects(world: World) -> dict[str, Any]:
    """Return the conflicting objects as they were before the conflict, and create the sets."""
    before = {key: spec for key, spec in specs(identities(world)).items() if not key.endswith(" b")}
    for name in ("taken", "served", "led"):
        world.create(a_set(name, replicas=1))
    # Scaling bypasses admission, which would have rejected this.
    world.kubectl("scale", "lws/b", "--replicas=1")
    return before


def test_a_foreign_statefulset_is_left_alone_and_reported(
    world: World, foreign_objects: dict[str, Any]
) -> None:
    failure = wait_for_clash(world, "taken", "StatefulSet taken")
    assert failure["reason"] == "NameClash"
    assert "StatefulSet taken exists and is not controlled by anything" in warning_of(world, "taken")
    assert condition(world.get(SET, "taken"), "Available").get("status") != "True"


def test_a_foreign_service_is_left_alone_and_reported(world: World, foreign_objects: dict[str, Any]) -> None:
    failure = wait_for_clash(world, "served", "Service served")
    assert failure["reason"] == "NameClash"
    assert warning_of(world, "served") == failure["message"]


def test_a_foreign_worker_statefulset_is_left_alone_and_reported(
    world: World, foreign_objects: dict[str, Any]
) -> None:
    wait_for_clash(world, "led", "StatefulSet led-0")
    assert "StatefulSet led-0 exists and is not controlled by anything" in warning_of(world, "led")


def test_sets_with_clashing_derived_names_do_not_interfere(
    world: World, foreign_objects: dict[str, Any]
) -> None:
    # `a` came first, so its workers have the name that the leaders of `a-0` need, and the set is rejected.
    with pytest.raises(
        ApiError, match="is the name of the StatefulSet or Service of group 0 of LeaderWorkerSet a"
    ):
        world.create(a_set("a-0", replicas=1))
    # `b-0` came first, so its leaders have the name that the workers of `b` need.
    wait_for_clash(world, "b", "StatefulSet b-0 exists and is controlled by LeaderWorkerSet b-0")


def test_an_equivalent_service_of_a_user_is_used_and_outlives_the_set(world: World) -> None:
    """Services with the name of a set and of a group; the first even has the labels of the set."""
    unique = {"subdomainPolicy": "UniquePerReplica"}
    _create_headless(world, "mine", {NAME_LABEL: "mine"}, {NAME_LABEL: "mine"})
    _create_headless(world, "own-0", {}, {NAME_LABEL: "own", GROUP_INDEX_LABEL: "0"})
    before = {name: world.get("Service", name)["metadata"] for name in ("mine", "own-0")}
    world.create(a_set("mine", replicas=1))
    world.create(a_set("own", replicas=1, networkConfig=unique))
    settle(world, "mine", "own")
    stays(
        "both Services are unchanged",
        lambda: {name: world.get("Service", name)["metadata"] for name in before},
        2,
    )
    for name in ("mine", "own"):
        assert not condition(world.get(SET, name), "ReplicaFailure")
        assert [event.note for event in events_of(world, name) if event.type == "Warning"] == []
        world.delete(SET, name, "Foreground")
        eventually(f"{name} is gone", lambda: world.find(SET, name) is None, seconds=GONE_SECONDS)  # noqa: B023
    assert {name: world.get("Service", name)["metadata"] for name in before} == before


def test_objects_with_only_the_name_label_are_not_adopted(world: World) -> None:
    labelled = {NAME_LABEL: "copied"}
    for manifest in (foreign_statefulset("copied"), foreign_service("copied")):
        world.create({**manifest, "metadata": {"name": "copied", "labels": labelled}})
    uids = {kind: world.uid(kind, "copied") for kind in ("StatefulSet", "Service")}
    world.create(a_set("copied", replicas=1))
    for kind in uids:
        wait_for_clash(world, "copied", f"{kind} copied")
    assert [controller_of(world.get(kind, "copied")) for kind in uids] == [{}, {}]
    world.delete(SET, "copied", "Foreground")
    eventually("the set is gone", lambda: world.find(SET, "copied") is None, seconds=GONE_SECONDS)
    assert {kind: world.uid(kind, "copied") for kind in uids} == uids


def test_foreign_objects_are_unchanged(world: World, foreign_objects: dict[str, Any]) -> None:
    for name in ("taken", "served", "b"):
        wait_for_clash(world, name, name)
    world.patch(SET, "taken", new_image("server:2"))
    world.patch(SET, "b", new_image("server:2"))
    eventually("both sets are observed again", lambda: _observed(world, "taken") and _observed(world, "b"))
    stays("the foreign objects do not change", lambda: _untouched(world, foreign_objects), 2)
    assert _untouched(world, foreign_objects) == []


def test_a_set_recovers_after_the_foreign_object_is_deleted(
    world: World, foreign_objects: dict[str, Any]
) -> None:
    for name in ("taken", "served", "b"):
        wait_for_clash(world, name, name)
    world.delete("StatefulSet", "taken")
    world.delete("StatefulSet", "led-0")
    world.delete("Service", "served")
    world.delete(SET, "b-0")
    sets = ("taken", "served", "led", "b")
    settle(world, *sets, seconds=GONE_SECONDS)
    for name in sets:
        assert condition(world.get(SET, name), "ReplicaFailure").get("status") != "True"
    assert controller_of(world.get("Service", "served"))["kind"] == SET
    assert set(pod_uids(world, "b")) == {"b-0", "b-0-1"}


def _ready(world: World, statefulset: str) -> bool:
    return bool(world.get("StatefulSet", statefulset)["status"].get("readyReplicas"))


def _observed(world: World, name: str) -> bool:
    lws = world.get(SET, name)
    return bool(lws["status"]["observedGeneration"] == lws["metadata"]["generation"])


def _untouched(world: World, before: dict[str, Any]) -> list[str]:
    """Return the differences in the objects that existed before."""
    after = specs(identities(world))
    return differences(before, {key: spec for key, spec in after.items() if key in before})
