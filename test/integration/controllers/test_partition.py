"""The partition of a set keeps groups on their revision until it is lowered."""

from __future__ import annotations

from test.harness.groups import (
    condition,
    images_of,
    keys_of,
    pod_uids,
    settle,
    uids_of_group,
)
from test.harness.history import History
from test.harness.manifests import a_set, new_budget, new_image, rolling, scaled_to
from test.harness.waiting import eventually
from test.harness.world import SET, World


def test_only_the_canary_is_updated_until_the_partition_is_lowered(world: World) -> None:
    world.create(a_set("canary", replicas=4, rolloutStrategy=rolling(partition=3)))
    settle(world, "canary")
    history = History(world, "canary")

    world.patch(SET, "canary", new_image("server:2"))
    settle(world, "canary", updated=1)
    assert images_of(world, "canary") == {**{index: {"server:1"} for index in range(3)}, 3: {"server:2"}}
    status = world.get(SET, "canary")["status"]
    assert status["currentRevision"] != status["updateRevision"]

    world.patch(SET, "canary", new_budget(partition=1))
    settle(world, "canary", updated=3)
    assert images_of(world, "canary") == {0: {"server:1"}, **{index: {"server:2"} for index in range(1, 4)}}

    world.patch(SET, "canary", new_budget(partition=0))
    settle(world, "canary")
    assert images_of(world, "canary") == {index: {"server:2"} for index in range(4)}
    assert {len(uids) for uids in history.leaders().values()} == {2}
    status = world.get(SET, "canary")["status"]
    assert status["currentRevision"] == status["updateRevision"]


def test_a_lost_group_below_the_partition_is_recreated_with_the_old_revision(world: World) -> None:
    """The size of its own revision is restored too."""
    world.create(a_set("as-it-was", replicas=2, size=2, rolloutStrategy=rolling(partition=1)))
    settle(world, "as-it-was")
    changed = new_image("server:2")
    changed["spec"]["leaderWorkerTemplate"]["size"] = 3
    world.patch(SET, "as-it-was", changed)
    settle(world, "as-it-was", updated=1)
    lost, keys = uids_of_group(world, "as-it-was", 0), keys_of(world, "as-it-was")
    updated = uids_of_group(world, "as-it-was", 1)
    assert (len(lost), len(updated)) == (2, 3)

    world.delete("Pod", "as-it-was-0")
    eventually(
        "the group is recreated",
        lambda: uids_of_group(world, "as-it-was", 0),
        lambda now: now.keys() == lost.keys() and not set(now.values()) & set(lost.values()),
    )
    settle(world, "as-it-was", updated=1)

    assert images_of(world, "as-it-was") == {0: {"server:1"}, 1: {"server:2"}}
    assert keys_of(world, "as-it-was") == keys
    assert uids_of_group(world, "as-it-was", 1) == updated


def test_with_a_partition_above_all_groups_only_new_groups_are_updated(world: World) -> None:
    world.create(a_set("held", replicas=2, rolloutStrategy=rolling(partition=2)))
    settle(world, "held")
    before = pod_uids(world, "held")

    world.patch(SET, "held", new_image("server:2"))
    settle(world, "held", updated=0)
    assert pod_uids(world, "held") == before
    assert condition(world.get(SET, "held"), "Available")["status"] == "True"

    world.patch(SET, "held", scaled_to(3))
    settle(world, "held", updated=1)
    assert images_of(world, "held") == {0: {"server:1"}, 1: {"server:1"}, 2: {"server:2"}}
    assert pod_uids(world, "held").items() >= before.items()
