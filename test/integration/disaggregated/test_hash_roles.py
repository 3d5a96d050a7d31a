"""Roles with `groupIdentity: Hash`."""

from __future__ import annotations

from lws_api.disaggregatedset.v1 import KIND, ROLE_LABEL
from lws_api.leaderworkerset.v1 import WORKER_INDEX_LABEL
from test.harness.disaggregated.manifests import Object, a_disaggregated_set, new_roles, roles
from test.harness.disaggregated.standing import counts, images_of, keys_of, settle
from test.harness.groups import name_of
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from tools.localcluster.kubelet import NEVER, STOPS_AFTER
from tools.localcluster.pods import is_ready


def hash_roles(image: str = "server:1", replicas: int = 2, **spec: str) -> list[Object]:
    of = roles(replicas, replicas, image, size=2)
    return [{**role, "spec": {**role["spec"], "groupIdentity": "Hash", **spec}} for role in of]


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


def running_leaders(world: World, role: str) -> list[Object]:
    """Return the leader pods of a role that run or terminate, without those that still wait for others."""
    pods = world.list("Pod", f"{ROLE_LABEL}={role},{WORKER_INDEX_LABEL}=0")
    return [pod for pod in pods if not pod["spec"].get("schedulingGates")]


def test_terminating_groups_of_a_deleted_role_count_in_its_limit(world: World) -> None:
    """Their pods occupy nodes until they are gone. With Immediate, no gate makes others wait for them."""
    immediate = {"groupReplacementPolicy": "Immediate"}
    world.create(a_disaggregated_set("held", hash_roles(**immediate)))
    settle(world, "held")
    (old,) = keys_of(world, "held")
    held = [name_of(pod) for pod in running_leaders(world, "prefill")]
    for pod in held:
        world.patch("Pod", pod, {"metadata": {"annotations": {STOPS_AFTER: NEVER}}})
    world.patch(KIND, "held", new_roles(hash_roles("server:2", **immediate)))
    eventually(
        "a new group is ready",
        lambda: [pod for pod in running_leaders(world, "prefill") if name_of(pod) not in held],
        lambda pods: pods and all(map(is_ready, pods)),
    )
    world.delete(SET, f"held-0-{old}-prefill")
    eventually(
        "the former groups terminate",
        lambda: [pod for pod in running_leaders(world, "prefill") if "deletionTimestamp" in pod["metadata"]],
    )
    # Two desired groups and one of surge.
    stays("there is no fourth group", lambda: len(running_leaders(world, "prefill")) <= 3, 10)
    world.kubectl("delete", "pods", *held, "--force", "--ignore-not-found", "--wait=false")
    settle(world, "held")
    assert images_of(world, "held")["prefill"] == {"server:2"}
