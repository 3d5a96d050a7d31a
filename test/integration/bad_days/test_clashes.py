"""Objects of other owners that take names a running set needs are left alone and reported.

All of them exist at once, because a manager needs up to half a minute to notice their deletion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from test.harness.events import events_of
from test.harness.groups import condition, pod_uids, settle
from test.harness.identities import Identity, identities
from test.harness.manifests import a_set, scaled_to
from test.harness.product import Product
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World

pytestmark = pytest.mark.local_only

UNIQUE = {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}
SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "spec": {"clusterIP": "None", "selector": {"app": "stranger"}},
}
STATEFULSET: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "spec": {
        "replicas": 0,
        "serviceName": "stranger",
        "selector": {"matchLabels": {"app": "stranger"}},
        "template": {
            "metadata": {"labels": {"app": "stranger"}},
            "spec": {"containers": [{"name": "main", "image": "stranger:1"}]},
        },
    },
}
# The second groups of the first two sets need names that other objects have; the third set lost its leader
# StatefulSet.
FOREIGN_OBJECTS = {
    "served": (SERVICE, "served-1"),
    "worked": (STATEFULSET, "worked-1"),
    "led": (STATEFULSET, "led"),
}


def test_foreign_objects_created_later_are_left_alone_and_reported(product: Product, world: World) -> None:
    for name in FOREIGN_OBJECTS:
        world.create(a_set(name, replicas=1, size=2, **UNIQUE))
    settle(world, *FOREIGN_OBJECTS)
    first = pod_uids(world, "served") | pod_uids(world, "worked")
    product.stop()
    world.delete("StatefulSet", "led")
    eventually("the StatefulSet of the leaders is gone", lambda: world.find("StatefulSet", "led") is None)
    for manifest, name in FOREIGN_OBJECTS.values():
        world.create({**manifest, "metadata": {"name": name}})
    before = dict(foreign_objects_in(world))
    product.start()
    for name in ("served", "worked"):
        world.patch(SET, name, scaled_to(3))

    for name, (manifest, foreign) in FOREIGN_OBJECTS.items():
        wait_for_clash(world, name, f"{manifest['kind']} {foreign} ")
    stays("the foreign objects do not change", lambda: dict(foreign_objects_in(world)), seconds=2)
    assert dict(foreign_objects_in(world)) == before
    eventually(
        "the set is not available",
        lambda: condition(world.get(SET, "led"), "Available").get("status"),
        lambda status: status == "False",
    )
    # Other groups do not wait for the incomplete one.
    for name in ("served", "worked"):
        complete = {f"{name}-2", f"{name}-2-1"}
        eventually("the third group is complete", lambda: complete <= pod_uids(world, name).keys())  # noqa: B023
    assert first.items() <= (pod_uids(world, "served") | pod_uids(world, "worked")).items()

    for manifest, name in FOREIGN_OBJECTS.values():
        world.delete(manifest["kind"], name)
    settle(world, *FOREIGN_OBJECTS)
    for name in FOREIGN_OBJECTS:
        eventually("the condition is gone", lambda: not condition(world.get(SET, name), "ReplicaFailure"))  # noqa: B023


def foreign_objects_in(world: World) -> Iterator[tuple[str, Identity]]:
    """Yield the objects of other owners, without versions, because their controllers write their status."""
    objects = identities(world, "Service", "StatefulSet")
    for manifest, name in FOREIGN_OBJECTS.values():
        key = f"{manifest['kind']} {name}"
        yield key, objects[key]._replace(version="")


def wait_for_clash(world: World, name: str, about: str) -> None:
    """Wait until the condition and a warning name the conflicting object."""
    eventually(
        f"the condition of {name} about {about}",
        lambda: condition(world.get(SET, name), "ReplicaFailure"),
        lambda seen: seen.get("status") == "True" and about in seen["message"],
    )
    eventually(
        f"the warning for {name} about {about}",
        lambda: [event.note for event in events_of(world, name) if event.type == "Warning"],
        lambda notes: any(about in note for note in notes),
    )
