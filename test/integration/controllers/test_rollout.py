"""A new template reaches all groups within the budget of the rollout.

Availability is read from every state that the API server went through, not from samples.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from lws.kube.pods import gate_of
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.harness.events import events_of
from test.harness.groups import (
    images_of,
    keys_of,
    labels_of,
    name_of,
    pod_uids,
    revisions_of,
    settle,
    uids_of_group,
)
from test.harness.history import (
    Frame,
    History,
    existing_groups,
    ready_groups,
)
from test.harness.manifests import a_set, new_image, pod_template, rolling
from test.harness.never_ready import never_ready, ready_again
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World


def has_image(world: World, name: str, image: str) -> bool:
    """Report whether a group runs this image."""
    return {image} in images_of(world, name).values()


def fewest_ready(frames: list[Frame]) -> int:
    return min(len(ready_groups(frame)) for frame in frames)


def most_existing(frames: list[Frame]) -> int:
    return max(len(existing_groups(frame)) for frame in frames)


def roll(world: World, name: str, image: str = "server:2") -> History:
    """Roll out a settled set, and return its history."""
    history = History(world, name)
    world.patch(SET, name, new_image(image))
    settle(world, name)
    replicas = world.get(SET, name)["spec"]["replicas"]
    assert images_of(world, name) == {index: {image} for index in range(replicas)}
    return history


def test_groups_are_updated_one_by_one_from_the_highest_index(world: World) -> None:
    world.create(a_set("plain", replicas=3))
    settle(world, "plain")

    history = roll(world, "plain")

    frames = history.pods()
    assert (fewest_ready(frames), most_existing(frames)) == (2, 3)
    assert {index: len(uids) for index, uids in history.leaders().items()} == {0: 2, 1: 2, 2: 2}
    leader_specs = history.leader_specs()
    # The settled state comes first. Then the new template reaches no group, and one more group each time.
    assert [spec.partition for spec in leader_specs] == [0, 3, 2, 1, 0]
    assert {spec.replicas for spec in leader_specs} == {3}


WAVES = {"seedGroups": 1, "growthFactor": 2}


def newest_in_waves(frames: list[Frame], key: str) -> list[tuple[int, int]]:
    """Return the number of existing and of ready groups of a revision in each frame."""
    of_key = [
        {name: pod for name, pod in frame.items() if labels_of(pod)[REVISION_LABEL] == key}
        for frame in frames
    ]
    return [(len(existing_groups(frame)), len(ready_groups(frame))) for frame in of_key]


def test_groups_start_in_waves(world: World) -> None:
    world.create(a_set("waves", 1, startStrategy=WAVES, rolloutStrategy=rolling(maxUnavailable="100%")))
    settle(world, "waves")
    history, keys = History(world, "waves"), [keys_of(world, "waves")[0]]
    world.patch(SET, "waves", {"spec": {"replicas": 6}})
    settle(world, "waves")
    frames = [history.pods(), roll(world, "waves").pods()]
    keys.append(keys_of(world, "waves")[0])

    for (key,), seen in zip(keys, frames, strict=True):
        counts = newest_in_waves(seen, key)
        assert counts[-1] == (6, 6)
        assert [(existing, ready) for existing, ready in counts if existing > max(1, 2 * ready)] == []


def test_old_workers_never_join_a_new_leader(world: World) -> None:
    slow = pod_template(annotations={"localcluster/stops-after": "5"})
    leaders = {"leaderTemplate": pod_template()}
    world.create(a_set("apart", replicas=3, size=3, workers=slow, group=leaders))
    settle(world, "apart")
    history = History(world, "apart")
    image = {"spec": pod_template("server:2")["spec"]}
    changed = {"leaderTemplate": image, "workerTemplate": image}
    world.patch(SET, "apart", {"spec": {"leaderWorkerTemplate": changed}})
    settle(world, "apart")
    assert images_of(world, "apart") == {index: {"server:2"} for index in range(3)}
    assert history.overlaps() == []
    gated = {name for frame in history.pods() for name, pod in frame.items() if gate_of(pod)}
    assert gated == {f"apart-{index}" for index in range(3)}, (
        "leaders wait for workers that take five seconds to stop"
    )


def test_old_workers_never_join_a_leader_recreated_by_another_client(world: World) -> None:
    slow = pod_template(annotations={"localcluster/stops-after": "1"})
    world.create(a_set("lost", replicas=1, size=3, workers=slow))
    settle(world, "lost")
    history = History(world, "lost")
    former = world.get("Pod", "lost-0")["metadata"]["uid"]

    world.delete("Pod", "lost-0")
    eventually(
        "the leader is recreated",
        lambda: world.find("Pod", "lost-0"),
        lambda pod: pod is not None and pod["metadata"]["uid"] != former,
    )
    settle(world, "lost")

    assert history.overlaps() == []


def test_a_rollout_is_recorded_and_reported(world: World) -> None:
    world.create(a_set("told", replicas=2))
    settle(world, "told")
    (first,) = revisions_of(world, "told")

    roll(world, "told")

    old, new = revisions_of(world, "told")
    key = labels_of(new)[REVISION_LABEL]
    assert (name_of(old), new["revision"]) == (name_of(first), 2)
    assert name_of(new) == f"told-{key}-2"
    assert keys_of(world, "told") == {0: {key}, 1: {key}}
    status = world.get(SET, "told")["status"]
    assert status["currentRevision"] == status["updateRevision"] == name_of(new)
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    false = dict.fromkeys(("Degraded", "Progressing", "UpdateInProgress"), "False")
    assert conditions == {"Available": "True", **false}

    events = eventually(
        "the last Event exists",
        lambda: events_of(world, "told"),
        lambda events: any(event.note == "Updating replica 0" for event in events),
    )
    summaries = [(event.reason, event.action, event.note, event.related) for event in events]
    revision = f"ControllerRevision {name_of(new)}"
    assert (
        "CreatingRevision",
        "Create",
        f"Creating revision with key {key} for updated LWS",
        revision,
    ) in summaries
    updates = [(note, related) for reason, _, note, related in summaries if reason == "GroupsUpdating"]
    assert updates[0] == ("Rolling Upgrade is in progress, with 2 groups ready of total 2 groups", "")
    assert updates[1:] == [("Updating replica 1", revision), ("Updating replica 0", revision)]


BUDGETS = [
    pytest.param(4, {"maxUnavailable": 2}, 2, 4, id="two at a time"),
    pytest.param(1, {"maxUnavailable": 1, "maxSurge": 1}, 1, 2, id="a set of one without downtime"),
    pytest.param(3, {"maxUnavailable": 0, "maxSurge": 2}, 3, 5, id="none unavailable"),
    pytest.param(4, {"maxUnavailable": "50%", "maxSurge": "20%"}, 2, 5, id="percent"),
]


@pytest.mark.parametrize(("replicas", "budget", "fewest", "most"), BUDGETS)
def test_a_rollout_uses_its_whole_budget_and_never_exceeds_it(
    world: World, replicas: int, budget: dict[str, Any], fewest: int, most: int
) -> None:
    world.create(a_set("budget", replicas, rolloutStrategy=rolling(**budget)))
    settle(world, "budget")

    history = roll(world, "budget")

    frames = history.pods()
    assert max(spec.replicas for spec in history.leader_specs()) == most
    assert most_existing(frames) <= most
    # How fully the budget is used depends on how soon groups are ready again.
    assert fewest_ready(frames) >= fewest
    # Every leader of a surge group is new; each of the others is replaced once.
    assert {len(history.leaders()[index]) for index in range(replicas)} == {2}
    assert history.overlaps() == []


def test_successive_changes_converge_to_the_newest(world: World) -> None:
    world.create(a_set("often", replicas=3))
    settle(world, "often")
    history = History(world, "often")

    for image in ("server:2", "server:3", "server:4"):
        world.patch(SET, "often", new_image(image))
        eventually("a group has the new image", partial(has_image, world, "often", image))
    settle(world, "often")

    assert images_of(world, "often") == {index: {"server:4"} for index in range(3)}
    # A group that still starts on an intermediate revision does not serve and is outdated. Its replacement
    # may cost one healthy group beyond the budget, but not two.
    assert fewest_ready(history.pods()) >= 1
    assert len(set.union(*keys_of(world, "often").values())) == 1


def test_a_rollback_reuses_the_key_and_keeps_groups_that_have_it(world: World) -> None:
    world.create(a_set("back", replicas=3, rolloutStrategy=rolling(partition=2)))
    settle(world, "back")
    (first,) = revisions_of(world, "back")
    key = labels_of(first)[REVISION_LABEL]
    untouched = uids_of_group(world, "back", 0) | uids_of_group(world, "back", 1)
    world.patch(SET, "back", new_image("server:2"))
    settle(world, "back", updated=1)
    assert images_of(world, "back") == {0: {"server:1"}, 1: {"server:1"}, 2: {"server:2"}}

    world.patch(SET, "back", new_image("server:1"))
    settle(world, "back")

    assert keys_of(world, "back") == {0: {key}, 1: {key}, 2: {key}}
    assert uids_of_group(world, "back", 0) | uids_of_group(world, "back", 1) == untouched
    revisions = revisions_of(world, "back")
    assert len(revisions) == 2
    assert (name_of(revisions[-1]), revisions[-1]["revision"]) == (name_of(first), 3)
    assert revisions[-1]["data"] == first["data"]


def test_a_broken_update_stops_at_its_budget_and_can_be_fixed(world: World) -> None:
    world.create(a_set("broken", replicas=3))
    settle(world, "broken")
    history = History(world, "broken")

    broken = {"spec": {"leaderWorkerTemplate": {"workerTemplate": never_ready("server:2")}}}
    world.patch(SET, "broken", broken)
    eventually(
        "a group has the new image",
        lambda: images_of(world, "broken"),
        lambda now: now.get(2) == {"server:2"},
    )
    stays("no other group is updated", lambda: images_of(world, "broken"), 3)

    fixed = {"spec": {"leaderWorkerTemplate": {"workerTemplate": ready_again(pod_template("server:3"))}}}
    world.patch(SET, "broken", fixed)
    settle(world, "broken")

    assert images_of(world, "broken") == {index: {"server:3"} for index in range(3)}
    assert fewest_ready(history.pods()) >= 2
    assert [len(history.leaders()[index]) for index in range(3)] == [2, 2, 3]


def test_a_set_is_scaled_during_a_rollout(world: World) -> None:
    world.create(a_set("both", replicas=3))
    settle(world, "both")
    history = History(world, "both")

    world.patch(SET, "both", new_image("server:2"))
    eventually("the rollout has begun", lambda: has_image(world, "both", "server:2"))
    world.kubectl("scale", "lws", "both", "--replicas=4")
    settle(world, "both")

    assert images_of(world, "both") == {index: {"server:2"} for index in range(4)}
    assert fewest_ready(history.pods()) >= 2


def test_a_rollout_continues_after_an_orphaning_deletion_of_the_leader_statefulset(world: World) -> None:
    world.create(a_set("torn", replicas=3))
    settle(world, "torn")
    history, uid = History(world, "torn"), world.uid("StatefulSet", "torn")

    world.patch(SET, "torn", new_image("server:2"))
    eventually("the rollout has begun", lambda: has_image(world, "torn", "server:2"))
    world.delete("StatefulSet", "torn", "Orphan")
    world.gone_or_replaced("StatefulSet", "torn", uid)
    settle(world, "torn")

    assert images_of(world, "torn") == {index: {"server:2"} for index in range(3)}
    # A group that is deleted at that moment is recreated with its old revision, and replaced once more.
    replaced = sorted(len(leaders) for leaders in history.leaders().values())
    assert [*replaced[:2], min(replaced[2], 2)] == [2, 2, 2] and replaced[2] <= 3, replaced
    assert fewest_ready(history.pods()) >= 2


def test_groups_lost_with_the_leader_statefulset_keep_their_revision(world: World) -> None:
    world.create(a_set("canary", replicas=3, rolloutStrategy=rolling(partition=2)))
    settle(world, "canary")
    world.patch(SET, "canary", new_image("server:2"))
    settle(world, "canary", updated=1)
    canary = {0: {"server:1"}, 1: {"server:1"}, 2: {"server:2"}}
    assert images_of(world, "canary") == canary
    uid, before = world.uid("StatefulSet", "canary"), pod_uids(world, "canary")

    world.delete("StatefulSet", "canary")
    world.gone_or_replaced("StatefulSet", "canary", uid)
    eventually(
        "every pod is recreated",
        lambda: set(pod_uids(world, "canary").values()),
        lambda now: not now & set(before.values()),
    )
    settle(world, "canary", updated=1)

    assert images_of(world, "canary") == canary
