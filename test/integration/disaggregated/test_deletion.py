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
MADE = (SET, "Service", SCALER_KIND, "ControllerRevision")


def manifest(image: str = "server:1") -> Object:
    external = a_role("decode", None, image)
    return a_disaggregated_set("pd", [a_role("prefill", 2, image, size=2), external])


def created(world: World) -> Object:
    """Create a set and wait until it is settled with its Services."""
    stored = world.create(manifest())
    settle(world, "pd")
    eventually("it has Services", lambda: len(world.list("Service", NAME_LABEL)), lambda n: n == 2)
    return stored


def made(world: World) -> dict[str, Object]:
    """Return the objects that a set creates itself."""
    selector = OWN_REVISIONS.format("pd")
    return {f"{kind} {name_of(obj)}": obj for kind in MADE for obj in world.list(kind, selector)}


def uids(objects: dict[str, Object]) -> dict[str, str]:
    return {name: obj["metadata"]["uid"] for name, obj in objects.items()}


def pods(world: World) -> dict[str, str]:
    return {name_of(pod): pod["metadata"]["uid"] for pod in world.list("Pod", f"{NAME_LABEL}=pd")}


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_nothing_is_left_of_one_that_is_deleted_in_a_rollout(world: World, propagation: str) -> None:
    watch = Watch(world)
    created(world)
    world.patch(KIND, "pd", new_roles(manifest("server:2")["spec"]["roles"]))
    eventually("it rolls", lambda: watch.counts("pd")[0], lambda now: len(now) == 2, SECONDS)
    world.delete(KIND, "pd", propagation)
    eventually(
        "nothing is left", lambda: remaining_objects(world, "pd"), lambda remaining: not remaining, SECONDS
    )
    assert world.find(KIND, "pd") is None


def test_what_is_orphaned_runs_on_and_is_adopted(world: World) -> None:
    before = created(world)
    running, expected = pods(world), uids(made(world))
    world.delete(KIND, "pd", "Orphan")
    world.gone_or_replaced(KIND, "pd", before["metadata"]["uid"])
    orphans = made(world)
    assert uids(orphans) == expected
    assert not any(map(controller_of, orphans.values()))
    again = world.create(manifest())
    settle(world, "pd")
    eventually(
        "all are adopted",
        lambda: {controller_of(child).get("uid") for child in made(world).values()},
        lambda owners: owners == {again["metadata"]["uid"]},
        SECONDS,
    )
    assert uids(made(world)) == expected
    assert pods(world) == running


def test_what_is_orphaned_is_adopted_and_rolled_by_a_set_that_wants_something_else(world: World) -> None:
    before = created(world)
    world.delete(KIND, "pd", "Orphan")
    world.gone_or_replaced(KIND, "pd", before["metadata"]["uid"])
    watch = Watch(world)
    world.create(manifest("server:2"))
    settle(world, "pd")
    assert images_of(world, "pd") == {"prefill": {"server:2"}, "decode": {"server:2"}}
    watch.judge("pd")


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_one_of_the_same_name_at_once(world: World, propagation: str) -> None:
    before = created(world)
    former = uids(made(world))
    world.delete(KIND, "pd", propagation)
    world.gone_or_replaced(KIND, "pd", before["metadata"]["uid"])
    again = world.create(manifest())
    eventually(
        "nothing is left of the former",
        lambda: set(uids(made(world)).values()) & set(former.values()),
        lambda remaining: not remaining,
        SECONDS,
    )
    settle(world, "pd")
    owners = {controller_of(child).get("uid") for child in made(world).values()}
    assert owners == {again["metadata"]["uid"]}


def test_one_of_the_same_name_with_other_roles_at_once(world: World) -> None:
    created(world)
    world.delete(KIND, "pd")
    world.create(a_disaggregated_set("pd", [*roles(1, 2, "server:2"), a_role("proxy", 1)]))
    settle(world, "pd")
    assert set(images_of(world, "pd")) == {"prefill", "decode", "proxy"}
    assert world.find(SCALER_KIND, "pd-decode") is None
