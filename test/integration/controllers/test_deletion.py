"""A deleted set leaves nothing behind; the next set of its name adopts orphaned objects."""

from __future__ import annotations

import pytest

from lws.kube.pods import gate_of
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.harness.events import events_of
from test.harness.groups import (
    controller_of,
    images_of,
    labels_of,
    pod_uids,
    pods_of,
    revisions_of,
    settle,
)
from test.harness.history import Frame, History
from test.harness.identities import identities, uids
from test.harness.manifests import (
    a_set,
    new_image,
    pod_template,
    rolling,
    scaled_to,
)
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World


def wait_until_nothing_is_left(world: World) -> None:
    # On a new cluster, the garbage collector takes half a minute to discover a new kind.
    eventually("nothing is left", lambda: sorted(identities(world)), lambda remaining: not remaining)


@pytest.mark.parametrize("policy", ["Shared", "UniquePerReplica"])
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_all_children_of_a_deleted_set_are_deleted(world: World, propagation: str, policy: str) -> None:
    world.create(a_set("gone", networkConfig={"subdomainPolicy": policy}))
    settle(world, "gone")
    world.delete(SET, "gone", propagation)
    wait_until_nothing_is_left(world)
    assert all(event.type == "Normal" for event in events_of(world, "gone"))


def test_a_set_can_be_deleted_during_a_rollout(world: World) -> None:
    world.create(a_set("mid", replicas=3))
    settle(world, "mid")
    world.patch(SET, "mid", new_image("server:2"))
    eventually(
        "the rollout has begun", lambda: images_of(world, "mid"), lambda now: {"server:2"} in now.values()
    )
    world.delete(SET, "mid", "Foreground")
    wait_until_nothing_is_left(world)


def test_foreground_deletion_deletes_workers_before_their_leader(world: World) -> None:
    slow = pod_template(annotations={"localcluster/stops-after": "1"})
    leader = pod_template()
    world.create(a_set("order", replicas=1, size=2, workers=slow, group={"leaderTemplate": leader}))
    settle(world, "order")
    history = History(world, "order")

    world.delete(SET, "order", "Foreground")
    wait_until_nothing_is_left(world)

    def present(frame: Frame) -> set[str]:
        return set(frame)

    assert [present(frame) for frame in history.pods() if present(frame) == {"order-0-1"}] == []


def test_a_set_recreated_at_once_is_a_new_set(world: World) -> None:
    """The old objects still have its names; it waits for their deletion and never adopts them."""
    slow = {"localcluster/stops-after": "2"}
    world.create(a_set("again", workers=pod_template(annotations=slow)))
    settle(world, "again")
    before = pod_uids(world, "again")

    world.delete(SET, "again")
    world.create(a_set("again", workers=pod_template("server:2")))
    settle(world, "again")

    assert images_of(world, "again") == {0: {"server:2"}, 1: {"server:2"}}
    assert not set(before.values()) & set(pod_uids(world, "again").values())
    (revision,) = eventually(
        "only its own revision is left", lambda: revisions_of(world, "again"), lambda all: len(all) == 1
    )
    uid = world.uid(SET, "again")
    owned = (revision, world.get("StatefulSet", "again"), world.get("Service", "again"))
    assert [controller_of(child)["uid"] for child in owned] == [uid] * 3
    assert {labels_of(pod)[REVISION_LABEL] for pod in pods_of(world, "again")} == {
        labels_of(revision)[REVISION_LABEL]
    }


def test_orphans_are_adopted_by_the_next_set_without_a_restart(world: World) -> None:
    manifest = a_set("adopted")
    world.create(manifest)
    settle(world, "adopted")
    before = identities(world, "Pod", "StatefulSet", "Service", "ControllerRevision")

    world.delete(SET, "adopted", "Orphan")
    eventually("the set is gone", lambda: world.find(SET, "adopted") is None)
    stays("all objects are kept", lambda: uids(identities(world)), 2)

    world.create(manifest)
    settle(world, "adopted")
    after = identities(world, "Pod", "StatefulSet", "Service", "ControllerRevision")
    assert uids(after) == uids(before)
    uid = world.uid(SET, "adopted")

    def owners() -> set[str]:
        children = [world.get("StatefulSet", "adopted"), world.get("Service", "adopted")]
        return {controller_of(child).get("uid", "") for child in (*children, *revisions_of(world, "adopted"))}

    eventually("the new set owns all objects", owners, lambda now: now == {uid})


@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "None"])
def test_workers_that_a_leader_leaves_never_join_the_next_one(world: World, policy: str) -> None:
    world.create(a_set("left", replicas=2, size=3, group={"restartPolicy": policy}))
    settle(world, "left")
    before, history = pod_uids(world, "left"), History(world, "left")
    world.delete("Pod", "left-0", "Orphan")
    world.gone_or_replaced("Pod", "left-0", before["left-0"])
    settle(world, "left")
    after = pod_uids(world, "left")
    assert {name for name, uid in after.items() if uid != before[name]} == {"left-0", "left-0-1", "left-0-2"}
    assert history.overlaps() == []
    assert controller_of(world.get("StatefulSet", "left-0"))["uid"] == after["left-0"]


def test_a_gated_leader_that_its_set_leaves_is_admitted(world: World) -> None:
    slow = pod_template(annotations={"localcluster/stops-after": "20"})
    leader = {"leaderTemplate": pod_template()}
    manifest = a_set("behind", replicas=1, size=2, workers=slow, group=leader)
    world.create(manifest)
    settle(world, "behind")
    history = History(world, "behind")
    former = pod_uids(world, "behind")["behind-0"]
    world.delete("Pod", "behind-0")
    world.gone_or_replaced("Pod", "behind-0", former)
    gated = eventually("there is a new leader", lambda: world.find("Pod", "behind-0"))
    assert gated is not None and gate_of(gated)
    world.delete(SET, "behind", "Orphan")
    eventually("the set is gone", lambda: world.find(SET, "behind") is None)
    admitted = eventually(
        "its gate is removed", lambda: world.get("Pod", "behind-0"), lambda pod: not gate_of(pod)
    )
    assert admitted["metadata"]["uid"] == gated["metadata"]["uid"]
    world.create(manifest)
    settle(world, "behind")
    assert pod_uids(world, "behind")["behind-0"] == gated["metadata"]["uid"]
    assert history.overlaps() == []


def test_orphans_are_updated_by_a_next_set_with_another_template(world: World) -> None:
    world.create(a_set("other"))
    settle(world, "other")
    world.delete(SET, "other", "Orphan")
    eventually("the set is gone", lambda: world.find(SET, "other") is None)
    history = History(world, "other")

    world.create(a_set("other", workers=pod_template("server:2")))
    settle(world, "other")

    assert images_of(world, "other") == {0: {"server:2"}, 1: {"server:2"}}
    assert {len(leaders) for leaders in history.leaders().values()} == {2}


def test_a_set_scaled_into_an_empty_budget_can_be_labelled_rolled_and_deleted(world: World) -> None:
    """25 % of 2 groups rounds down to none; the scale subresource bypasses admission."""
    world.create(a_set("empty", replicas=4, size=1, rolloutStrategy=rolling(maxUnavailable="25%")))
    settle(world, "empty")
    world.kubectl("scale", "lws", "empty", "--replicas=2")
    settle(world, "empty")

    world.kubectl("label", "lws", "empty", "team=serving")
    world.patch(SET, "empty", new_image("server:2"))
    settle(world, "empty")
    assert images_of(world, "empty") == {0: {"server:2"}, 1: {"server:2"}}
    world.patch(SET, "empty", scaled_to(1))
    world.delete(SET, "empty", "Foreground")
    wait_until_nothing_is_left(world)
