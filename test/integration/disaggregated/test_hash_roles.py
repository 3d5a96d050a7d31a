"""Roles with `groupIdentity: Hash`."""

from __future__ import annotations

from lws_api.disaggregatedset.v1 import KIND
from test.harness.disaggregated.manifests import Object, a_disaggregated_set, new_roles, roles
from test.harness.disaggregated.standing import counts, images_of, settle
from test.harness.world import World


def hash_roles(image: str = "server:1", replicas: int = 2) -> list[Object]:
    of = roles(replicas, replicas, image, size=2)
    return [{**role, "spec": {**role["spec"], "groupIdentity": "Hash"}} for role in of]


def test_roles_with_hash_groups_are_rolled_and_scaled(world: World) -> None:
    world.create(a_disaggregated_set("demo", hash_roles()))
    settle(world, "demo")
    assert len(world.list("Deployment")) == 2
    world.patch(KIND, "demo", new_roles(hash_roles("server:2")))
    settle(world, "demo")
    assert images_of(world, "demo") == {"prefill": {"server:2"}, "decode": {"server:2"}}
    world.patch(KIND, "demo", new_roles(hash_roles("server:2", replicas=1)))
    settle(world, "demo")
    ((_, of_key),) = [(key, of) for by_key in counts(world, "demo").values() for key, of in by_key.items()]
    assert of_key == {"prefill": 1, "decode": 1}
