"""The children of a deleted DisaggregatedSet are deleted, or orphaned and adopted by the next one."""

from __future__ import annotations

from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, SCALER_KIND
from test.harness.disaggregated.manifests import a_disaggregated_set, a_role, new_roles, roles
from test.harness.disaggregated.standing import OWN_REVISIONS, SECONDS, images_of, remaining_objects, settle
from test.harness.disaggregated.watching import Watch
from test.harness.groups import controller_of, name_of
from test.harness.waiting import eventually
from test.harness.world import SET, World

Object = dict[str, Any]
CREATED_KINDS = (SET, "Service", SCALER_KIND, "ControllerRevision")


def manifest(image: str = "server:1") -> Object:
    external = a_role("decode", None, image)
    return a_disaggregated_set("pd", [a_role("prefill", 2, image, size=2), external])


def created(world: World) -> Object:
    """Create a set and wait until it is settled with its Services."""
    stored = world.create(manifest())
    settle(world, "pd")
    eventually("both Services exist", lambda: len(world.list("Service", NAME_LABEL)), lambda n: n == 2)
    return stored


def created_objects(world: World) -> dict[str, Object]:
    """Return the objects that a set creates itself."""
    selector = OWN_REVISIONS.format("pd")
    return {f"{kind} {name_of(obj)}": obj for kind in CREATED_KINDS for obj in world.list(kind, selector)}


def uids(objects: dict[str, Object]) -> dict[str, str]:
    return {name: obj["metadata"]["uid"] for name, obj in objects.items()}


def pods(world: World) -> dict[str, str]:
    return {name_of(pod): pod["metadata"]["uid"] for pod in world.list("Pod", f"{NAME_LABEL}=pd")}


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_all_children_of_a_set_deleted_during_a_rollout_are_deleted(world: World, propagation: str) -> None:
    watch = Watch(world)
    created(world)
    world.patch(KIND, "pd", new_roles(manifest("server:2")["spec"]["roles"]))
    eventually("the rollout has begun", lambda: watch.counts("pd")[0], lambda now: len(now) == 2, SECONDS)
    world.delete(KIND, "pd", propagation)
    eventually(
        "nothing is left", lambda: remaining_objects(world, "pd"), lambda remaining: not remaining, SECONDS
    )
    assert world.find(KIND, "pd") is None


def test_orphaned_children_keep_running_and_are_adopted(world: World) -> None:
    before = created(world)
    running, expected = pods(world), uids(created_objects(world))
    world.delete(KIND, "pd", "Orphan")
    world.gone_or_replaced(KIND, "pd", before["metadata"]["uid"])
    orphans = created_objects(world)
    assert uids(orphans) == expected
    assert not any(map(controller_of, orphans.values()))
    again = world.create(manifest())
    settle(world, "pd")
    eventually(
        "all children are adopted",
        lambda: {controller_of(child).get("uid") for child in created_objects(world).values()},
        lambda owners: owners == {again["metadata"]["uid"]},
        SECONDS,
    )
    assert uids(created_objects(world)) == expected
    assert pods(world) == running


def test_orphaned_children_are_adopted_and_updated_by_a_set_with_another_template(world: World) -> None:
    before = created(world)
    world.delete(KIND, "pd", "Orphan")
    world.gone_or_replaced(KIND, "pd", before["metadata"]["uid"])
    watch = Watch(world)
    world.create(manifest("server:2"))
    settle(world, "pd")
    assert images_of(world, "pd") == {"prefill": {"server:2"}, "decode": {"server:2"}}
    watch.judge("pd")


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_set_recreated_at_once_has_new_children(world: World, propagation: str) -> None:
    before = created(world)
    former = uids(created_objects(world))
    world.delete(KIND, "pd", propagation)
    world.gone_or_replaced(KIND, "pd", before["metadata"]["uid"])
    again = world.create(manifest())
    eventually(
        "no child of the former set is left",
        lambda: set(uids(created_objects(world)).values()) & set(former.values()),
        lambda remaining: not remaining,
        SECONDS,
    )
    settle(world, "pd")
    owners = {controller_of(child).get("uid") for child in created_objects(world).values()}
    assert owners == {again["metadata"]["uid"]}


def test_a_set_recreated_at_once_may_have_other_roles(world: World) -> None:
    created(world)
    world.delete(KIND, "pd")
    world.create(a_disaggregated_set("pd", [*roles(1, 2, "server:2"), a_role("proxy", 1)]))
    settle(world, "pd")
    assert set(images_of(world, "pd")) == {"prefill", "decode", "proxy"}
    assert world.find(SCALER_KIND, "pd-decode") is None
