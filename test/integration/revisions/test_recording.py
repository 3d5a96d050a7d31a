"""Each template has exactly one revision, also if its recording or rollout fails."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.revisions.history import SEAL_ANNOTATION
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, NAME_LABEL, REVISION_LABEL
from test.harness.audit import AuditLog
from test.harness.events import notes_of, wait_for_events
from test.harness.groups import (
    annotations_of,
    controller_of,
    images_of,
    keys_of,
    labels_of,
    name_of,
    pod_uids,
    revisions_of,
    settle,
)
from test.harness.identities import differences, identities, specs
from test.harness.manifests import a_set, new_image, rolling
from test.harness.product import Product
from test.harness.refusal import MESSAGE as REFUSAL
from test.harness.refusal import statefulsets_refused
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World

NAME = "web"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
# Found by search: templates that differ only in these images have the same hash.
COLLIDING = ("app:853034", "app:2005000")


def numbers_of(world: World) -> list[int]:
    return [int(revision["revision"]) for revision in revisions_of(world, NAME)]


@pytest.mark.local_only
def test_twelve_rejected_applies_leave_one_revision(world: World, product: Product, audit: AuditLog) -> None:
    """Six in a row, and six more by a new manager."""
    world.create(a_set(NAME))
    settle(world, NAME)
    before = pod_uids(world, NAME)

    def refused() -> int:
        mine = [request for request in audit.requests() if request.namespace == world.namespace]
        return sum(
            request.resource == "statefulsets" and request.is_write and request.code >= 400
            for request in mine
        )

    with statefulsets_refused(world, NAME):
        world.patch(SET, NAME, new_image("server:2"))
        eventually("six applies are rejected", refused, lambda count: count >= 6)
        product.restart()
        eventually("twelve applies are rejected", refused, lambda count: count >= 12)
        assert numbers_of(world) == [1, 2]
        assert pod_uids(world, NAME) == before
        eventually(
            "an Event reports the rejection",
            lambda: [note for note in notes_of(world, NAME) if REFUSAL in note],
        )
        # The former template is requested again: nothing was done, and nothing has to be done.
        world.patch(SET, NAME, new_image("server:1"))
        eventually("the former revision is the newest", lambda: numbers_of(world), lambda now: now == [2, 3])
    settle(world, NAME)
    assert pod_uids(world, NAME) == before


def test_two_templates_of_one_hash_do_not_share_a_key(world: World) -> None:
    first_image, second_image = COLLIDING
    workers = {"spec": {"containers": [{"name": "main", "image": first_image}]}}
    world.create(a_set(NAME, workers=workers, group={"restartPolicy": "None"}))
    settle(world, NAME)
    (first,) = revisions_of(world, NAME)

    world.patch(SET, NAME, image_patch(second_image))
    settle(world, NAME)

    _, second = revisions_of(world, NAME)
    assert images_of(world, NAME) == {0: {second_image}, 1: {second_image}}
    assert labels_of(first)[REVISION_LABEL] != labels_of(second)[REVISION_LABEL]
    assert keys_of(world, NAME) == {index: {labels_of(second)[REVISION_LABEL]} for index in range(2)}
    assert name_of(second) == f"{NAME}-{labels_of(second)[REVISION_LABEL]}-2"
    assert world.get(SET, NAME)["status"]["collisionCount"] == 1

    world.patch(SET, NAME, image_patch(first_image))
    settle(world, NAME)
    assert keys_of(world, NAME) == {index: {labels_of(first)[REVISION_LABEL]} for index in range(2)}
    assert numbers_of(world) == [2, 3]


# Upstream's key of this template, which determines the name of its first revision.
TINY = {
    "size": 1,
    "restartPolicy": "None",
    "workerTemplate": {"spec": {"containers": [{"name": "c", "image": "a:1"}]}},
}
TINY_KEY = "58b6956df9"


def test_a_revision_whose_name_is_taken_gets_the_next_free_name_and_the_same_key(
    world: World, audit: AuditLog
) -> None:
    """One other object has neither owner nor label, the other one has an existing owner."""
    port = {"ports": [{"port": 80}]}
    owner = world.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "theirs"}, "spec": port}
    )
    reference = {"apiVersion": "v1", "kind": "Service", "name": "theirs", "controller": True}
    owners: tuple[list[dict[str, Any]], ...] = ([], [{**reference, "uid": owner["metadata"]["uid"]}])
    for number, references in enumerate(owners, 1):
        world.create(
            {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {"name": f"{NAME}-{TINY_KEY}-{number}", "ownerReferences": references},
                "revision": number,
                "data": {"theirs": True},
            }
        )
    strangers = specs(identities(world, "ControllerRevision"))
    audit.mark()

    world.create(a_set(NAME, replicas=1, group=TINY))
    settle(world, NAME)

    (mine,) = [
        revision for revision in revisions_of(world, NAME) if controller_of(revision).get("kind") == SET
    ]
    assert (name_of(mine), labels_of(mine)[REVISION_LABEL]) == (f"{NAME}-{TINY_KEY}-3", TINY_KEY)
    assert keys_of(world, NAME) == {0: {TINY_KEY}}
    after = specs(identities(world, "ControllerRevision"))
    assert differences(strangers, {key: spec for key, spec in after.items() if key in strangers}) == []
    notes = sorted(event.note for event in wait_for_events(world, NAME, "NameClash", count=2))
    assert [note.partition(":")[0] for note in notes] == [
        f"ControllerRevision {NAME}-{TINY_KEY}-1 exists and is not controlled by anything",
        f"ControllerRevision {NAME}-{TINY_KEY}-2 exists and is controlled by Service theirs",
    ]
    tried = [request for request in audit.requests() if request.namespace == world.namespace]
    assert (
        sum((request.verb, request.resource) == ("create", "controllerrevisions") for request in tried) == 3
    )


def test_the_history_of_a_paused_set_is_bounded(world: World) -> None:
    """The set is paused: no rollout completes, and every edit is a revision."""
    world.create(a_set(NAME, replicas=1, revisionHistoryLimit=2))
    settle(world, NAME)
    world.patch(SET, NAME, {"spec": {"rolloutStrategy": {"paused": True}}})
    for number in range(2, 9):
        world.patch(SET, NAME, new_image(f"server:{number}"))
        eventually(f"revision {number} exists", lambda: numbers_of(world)[-1], number.__eq__)
    # The running revision, the target revision, and two others.
    eventually(
        "only revisions within the limit are kept", lambda: numbers_of(world), lambda now: now == [1, 6, 7, 8]
    )
    assert images_of(world, NAME) == {0: {"server:1"}}

    world.patch(SET, NAME, {"spec": {"rolloutStrategy": {"paused": False}}})
    settle(world, NAME)
    eventually("the unused revision is deleted", lambda: numbers_of(world), lambda now: now == [6, 7, 8])


@pytest.mark.parametrize("has_seal", [True, False], ids=["sealed", "as upstream writes it"])
def test_edited_revisions_are_repaired_and_restart_no_group(world: World, has_seal: bool) -> None:
    """Two revisions run: one gets the key of the other, which gets an unknown key and a topology."""
    world.create(a_set(NAME, revisionHistoryLimit=0, rolloutStrategy=rolling(partition=0)))
    settle(world, NAME)
    partition = {"rolloutStrategy": rolling(partition=1)}
    world.patch(SET, NAME, {"spec": {**new_image("server:2")["spec"], **partition}})
    settle(world, NAME, updated=1)
    old, new = revisions_of(world, NAME)
    seal = {} if has_seal else {SEAL_ANNOTATION: None}
    for revision in (old, new):
        world.patch("ControllerRevision", name_of(revision), {"metadata": {"annotations": seal}})
    before = specs(identities(world, "Pod", "StatefulSet", "Service"))

    keys = {name_of(revision): labels_of(revision)[REVISION_LABEL] for revision in (old, new)}
    edits = {name_of(old): keys[name_of(new)], name_of(new): "garbage"}
    for name, key in edits.items():
        world.patch("ControllerRevision", name, {"metadata": {"labels": {REVISION_LABEL: key}}})
    wrong = {"metadata": {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}}}
    world.patch("ControllerRevision", name_of(new), wrong)

    def as_recorded() -> bool:
        revisions = revisions_of(world, NAME)
        labels = {name_of(revision): labels_of(revision)[REVISION_LABEL] for revision in revisions}
        return labels == keys and not any(
            annotations_of(revision)[EXCLUSIVE_TOPOLOGY_ANNOTATION] for revision in revisions
        )

    eventually("both revisions are repaired", as_recorded)
    stays("no other object changes", lambda: specs(identities(world, "Pod", "StatefulSet", "Service")), 3)
    assert differences(before, specs(identities(world, "Pod", "StatefulSet", "Service"))) == []
    assert numbers_of(world) == [1, 2]
    related = {event.related for event in wait_for_events(world, NAME, "RevisionEdited", count=2)}
    assert related == {f"ControllerRevision {name}" for name in keys}

    # A lost group is recreated with its own revision.
    world.delete("Pod", f"{NAME}-0")
    world.gone_or_replaced("Pod", f"{NAME}-0", before[f"Pod {NAME}-0"].uid)
    settle(world, NAME, updated=1)
    assert images_of(world, NAME) == {0: {"server:1"}, 1: {"server:2"}}


def image_patch(image: str) -> dict[str, Any]:
    workers = {"spec": {"containers": [{"name": "main", "image": image}]}}
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": workers}}}


def test_a_deleted_revision_is_recreated_without_affecting_pods(world: World) -> None:
    world.create(a_set(NAME))
    settle(world, NAME)
    (lost,) = revisions_of(world, NAME)
    before = specs(identities(world, "Pod", "StatefulSet", "Service"))
    world.delete("ControllerRevision", name_of(lost))
    world.gone_or_replaced("ControllerRevision", name_of(lost), lost["metadata"]["uid"])
    (again,) = eventually(
        "the revision is recreated", lambda: revisions_of(world, NAME), lambda now: len(now) == 1
    )
    assert labels_of(again) == labels_of(lost)
    assert again["data"] == lost["data"]
    stays(
        "no other object changes",
        lambda: differences(before, specs(identities(world, "Pod", "StatefulSet", "Service"))),
        3,
    )
    assert differences(before, specs(identities(world, "Pod", "StatefulSet", "Service"))) == []


@pytest.mark.parametrize("label", ["another-set", None], ids=["edited", "removed"])
def test_a_revision_gets_its_name_label_back(world: World, label: str | None) -> None:
    world.create(a_set(NAME))
    settle(world, NAME)
    (revision,) = revisions_of(world, NAME)
    before = specs(identities(world, "Pod", "StatefulSet", "Service"))
    world.patch("ControllerRevision", name_of(revision), {"metadata": {"labels": {NAME_LABEL: label}}})
    eventually(
        "the label is restored",
        lambda: labels_of(world.get("ControllerRevision", name_of(revision))).get(NAME_LABEL),
        lambda now: now == NAME,
    )
    assert numbers_of(world) == [1]
    assert differences(before, specs(identities(world, "Pod", "StatefulSet", "Service"))) == []


def test_fields_without_effect_on_pods_apply_at_once_and_are_recorded_with_the_next_revision(
    world: World,
) -> None:
    world.create(a_set(NAME, group={"volumeClaimTemplates": [CLAIM]}))
    settle(world, NAME)
    before = identities(world, "Pod", "ControllerRevision")

    retention = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    live = {"restartPolicy": "None", "persistentVolumeClaimRetentionPolicy": retention}
    world.patch(SET, NAME, {"spec": {"leaderWorkerTemplate": live}})
    eventually(
        "the leader StatefulSet has the policy",
        lambda: world.get("StatefulSet", NAME)["spec"]["persistentVolumeClaimRetentionPolicy"] == retention,
    )
    world.delete("Pod", f"{NAME}-1-1")
    world.gone_or_replaced("Pod", f"{NAME}-1-1", before[f"Pod {NAME}-1-1"].uid)
    settle(world, NAME)
    after = identities(world, "Pod", "ControllerRevision")
    # Only the worker was replaced, as the new policy says.
    assert differences(before, after) == [f"Pod {NAME}-1-1 was replaced"]

    world.patch(SET, NAME, new_image("server:2"))
    settle(world, NAME)
    first, second = (
        revision["data"]["spec"]["leaderWorkerTemplate"] for revision in revisions_of(world, NAME)
    )
    assert first["restartPolicy"] == "RecreateGroupOnPodRestart"
    assert {key: second[key] for key in live} == live


def test_revisions_in_use_are_kept_beyond_the_limit(world: World) -> None:
    world.create(a_set(NAME, replicas=3, revisionHistoryLimit=0))
    settle(world, NAME)
    for number, partition in ((2, 1), (3, 2)):
        strategy = {"rolloutStrategy": rolling(partition=partition)}
        world.patch(SET, NAME, {"spec": {**new_image(f"server:{number}")["spec"], **strategy}})
        settle(world, NAME, updated=3 - partition)
    assert images_of(world, NAME) == {0: {"server:1"}, 1: {"server:2"}, 2: {"server:3"}}
    assert numbers_of(world) == [1, 2, 3]

    world.patch(SET, NAME, {"spec": {"rolloutStrategy": rolling(partition=0)}})
    settle(world, NAME)
    eventually("only the running revision is kept", lambda: numbers_of(world), lambda now: now == [3])
    status = world.get(SET, NAME)["status"]
    assert status["currentRevision"] == status["updateRevision"] == name_of(revisions_of(world, NAME)[0])
