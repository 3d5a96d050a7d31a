"""Slices are added and removed, in a settled set and in the middle of a rollout."""

from __future__ import annotations

from typing import Any

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, SLICE_LABEL
from test.harness.disaggregated.manifests import a_disaggregated_set, new_roles, roles
from test.harness.disaggregated.standing import SECONDS, counts, images_of, keys_of, settle
from test.harness.disaggregated.watching import Watch
from test.harness.groups import labels_of
from test.harness.waiting import eventually, stays
from test.harness.world import World


def with_slices(count: int) -> dict[str, Any]:
    return {"spec": {"slices": count}}


def uids(world: World, index: int) -> set[str]:
    pods = world.list("Pod", f"{NAME_LABEL}=pd,{SLICE_LABEL}={index}")
    return {pod["metadata"]["uid"] for pod in pods}


def slices_of_services(world: World) -> set[str]:
    return {labels_of(service)[SLICE_LABEL] for service in world.list("Service", f"{NAME_LABEL}=pd")}


def test_slices_of_a_settled_set_are_added_and_removed(world: World) -> None:
    watch = Watch(world)
    world.create(a_disaggregated_set("pd", roles(2, 1)))
    settle(world, "pd")
    (key,), first = keys_of(world, "pd"), uids(world, 0)
    world.kubectl("scale", "disaggregatedsets/pd", "--replicas=3")
    settle(world, "pd")
    assert counts(world, "pd") == {index: {key: {"prefill": 2, "decode": 1}} for index in range(3)}
    eventually(
        "each slice has Services", lambda: slices_of_services(world), lambda slices: slices == {"0", "1", "2"}
    )
    world.patch(KIND, "pd", with_slices(1))
    settle(world, "pd")
    eventually(
        "only the first slice has Services", lambda: slices_of_services(world), lambda slices: slices == {"0"}
    )
    assert uids(world, 0) == first
    watch.judge("pd")


def test_slices_added_during_a_pause_have_the_revision_of_the_others(world: World) -> None:
    world.create(a_disaggregated_set("pd", roles(1, 1)))
    settle(world, "pd")
    (old,) = keys_of(world, "pd")
    roles_and_pause = new_roles(roles(1, 1, "server:2"))
    roles_and_pause["spec"] |= {"rolloutStrategy": {"paused": True}, "slices": 2}
    world.patch(KIND, "pd", roles_and_pause)
    one_each = {old: {"prefill": 1, "decode": 1}}
    eventually(
        "both slices have groups",
        lambda: counts(world, "pd"),
        lambda now: now == {0: one_each, 1: one_each},
        SECONDS,
    )
    stays("no rollout begins", lambda: counts(world, "pd"), 2)
    assert images_of(world, "pd") == {"prefill": {"server:1"}, "decode": {"server:1"}}
    world.patch(KIND, "pd", {"spec": {"rolloutStrategy": {"paused": False}}})
    settle(world, "pd")
    assert images_of(world, "pd") == {"prefill": {"server:2"}, "decode": {"server:2"}}


def test_slices_are_added_and_removed_during_a_rollout(world: World) -> None:
    """New slices have the new revision from the beginning; the rollout of the first one continues."""
    watch = Watch(world)
    world.create(a_disaggregated_set("pd", roles(3, 2)))
    settle(world, "pd")
    (old,) = keys_of(world, "pd")
    world.patch(KIND, "pd", new_roles(roles(3, 2, "server:2")))
    began = {"prefill": 1, "decode": 1}
    eventually(
        "the rollout has made a step",
        lambda: list(watch.counts("pd")[0].values()),
        lambda now: began in now,
        SECONDS,
    )
    world.patch(KIND, "pd", with_slices(3))
    eventually("the set has three slices", lambda: watch.counts("pd"), lambda now: len(now) == 3, SECONDS)
    new = keys_of(world, "pd")[-1]
    assert {key for index in (1, 2) for key in counts(world, "pd").get(index, {})} <= {new}
    assert old in counts(world, "pd")[0], "the first slice is still in its rollout"
    eventually(
        "the new slices have all groups",
        lambda: watch.counts("pd"),
        lambda now: all(now[index].get(new) == {"prefill": 3, "decode": 2} for index in (1, 2)),
        SECONDS,
    )
    world.patch(KIND, "pd", with_slices(1))
    settle(world, "pd")
    assert counts(world, "pd") == {0: {new: {"prefill": 3, "decode": 2}}}
    assert images_of(world, "pd") == {"prefill": {"server:2"}, "decode": {"server:2"}}
    watch.judge("pd")


def test_a_slice_can_be_added_again_before_its_pods_are_gone(world: World) -> None:
    watch = Watch(world)
    world.create(a_disaggregated_set("pd", roles(2, 1), slices=2))
    settle(world, "pd")
    (key,), first = keys_of(world, "pd"), uids(world, 0)
    for count in (1, 2, 1, 2):
        world.patch(KIND, "pd", with_slices(count))
        eventually(
            "the number of slices is observed",
            lambda: watch.counts("pd"),
            lambda now, n=count: len(now) == n,
            SECONDS,
        )
    settle(world, "pd")
    assert counts(world, "pd") == {index: {key: {"prefill": 2, "decode": 1}} for index in range(2)}
    assert uids(world, 0) == first
    watch.judge("pd")
