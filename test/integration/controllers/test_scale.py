"""Sets scale up, down and to zero; a new group size is a rollout."""

from __future__ import annotations

from lws_api.leaderworkerset.v1 import REPLICAS_ANNOTATION
from test.harness.events import notes_of
from test.harness.groups import (
    annotations_of,
    condition,
    labels_of,
    names_of,
    pod_uids,
    pods_of,
    revisions_of,
    settle,
)
from test.harness.identities import differences, identities
from test.harness.manifests import a_set, rolling, scaled_to
from test.harness.waiting import eventually
from test.harness.world import SET, World


def test_scaling_up_adds_groups_without_touching_others(world: World) -> None:
    world.create(a_set("up", replicas=1))
    settle(world, "up")
    before = identities(world, "Pod", "Service")
    workers = written_of(world, "up-0")

    world.kubectl("scale", "lws", "up", "--replicas=3")
    settle(world, "up")

    added = [f"Pod up-{pod} is new" for pod in ("1", "1-1", "2", "2-1")]
    assert differences(before, identities(world, "Pod", "Service")) == added
    assert len(revisions_of(world, "up")) == 1
    assert written_of(world, "up-0") == workers
    assert annotations_of(world.get("StatefulSet", "up"))[REPLICAS_ANNOTATION] == "3"


def written_of(world: World, name: str) -> tuple[object, ...]:
    """Return the parts of a StatefulSet that a manager writes, without its status."""
    stored = world.get("StatefulSet", name)
    return stored["spec"], labels_of(stored), annotations_of(stored), stored["metadata"]["ownerReferences"]


def test_scaling_down_deletes_the_highest_groups(world: World) -> None:
    """The surge budget must not keep groups that the user has removed."""
    world.create(a_set("down", replicas=3, rolloutStrategy=rolling(maxSurge=2)))
    settle(world, "down")
    before = pod_uids(world, "down")

    world.patch(SET, "down", scaled_to(1))
    settle(world, "down")

    assert pod_uids(world, "down") == {pod: before[pod] for pod in ("down-0", "down-0-1")}
    statefulsets = eventually(
        "worker StatefulSets are deleted with their leaders",
        lambda: world.list("StatefulSet"),
        lambda all: len(all) == 2,
    )
    assert names_of(statefulsets) == {"down", "down-0"}
    note = "deleting surge replicas from down-1 to down-2"
    eventually("an Event reports the deletion", lambda: notes_of(world, "down"), lambda notes: note in notes)


def test_a_set_scales_to_zero_and_back(world: World) -> None:
    world.create(a_set("none", replicas=0))
    settle(world, "none")
    world.patch(SET, "none", scaled_to(1))
    settle(world, "none")
    first = pod_uids(world, "none")

    world.patch(SET, "none", scaled_to(0))
    settle(world, "none")
    assert pods_of(world, "none") == []
    status = world.get(SET, "none")["status"]
    assert not {"replicas", "readyReplicas", "updatedReplicas"} & status.keys()
    assert condition(world.get(SET, "none"), "Progressing")["status"] == "False"

    world.patch(SET, "none", scaled_to(1))
    settle(world, "none")
    assert not set(first.values()) & set(pod_uids(world, "none").values())
    assert len(revisions_of(world, "none")) == 1


def test_groups_of_one_pod_have_no_workers(world: World) -> None:
    world.create(a_set("single", replicas=2, size=1))
    settle(world, "single")
    assert names_of(world.list("StatefulSet")) == {"single"}
    assert names_of(pods_of(world, "single")) == {"single-0", "single-1"}
    variables = world.get("Pod", "single-1")["spec"]["containers"][0]["env"]
    assert {variable["name"]: variable["value"] for variable in variables} == {
        "LWS_LEADER_ADDRESS": f"single-1.single.{world.namespace}",
        "LWS_GROUP_SIZE": "1",
        "LWS_WORKER_INDEX": "0",
    }


def test_a_new_size_recreates_groups_one_by_one(world: World) -> None:
    world.create(a_set("grows", replicas=2, size=1))
    settle(world, "grows")

    world.patch(SET, "grows", {"spec": {"leaderWorkerTemplate": {"size": 3}}})
    settle(world, "grows")
    pods = {f"grows-{index}{worker}" for index in (0, 1) for worker in ("", "-1", "-2")}
    assert names_of(pods_of(world, "grows")) == pods
    assert len(revisions_of(world, "grows")) == 2

    world.patch(SET, "grows", {"spec": {"leaderWorkerTemplate": {"size": 1}}})
    settle(world, "grows")
    assert names_of(pods_of(world, "grows")) == {"grows-0", "grows-1"}
    eventually(
        "no workers are left", lambda: names_of(world.list("StatefulSet")), lambda all: all == {"grows"}
    )
