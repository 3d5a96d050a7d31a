"""PersistentVolumeClaims outlive their pods, and are deleted if the set specifies it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import GROUP_KEY_LABEL
from test.harness.groups import condition, labels_of, name_of, settle, uids_of_group
from test.harness.history import History, ready_groups
from test.harness.manifests import a_set, scaled_to
from test.harness.waiting import eventually
from test.harness.world import SET, World

CLAIM = {
    "metadata": {"name": "data", "labels": {"tier": "fast"}, "annotations": {"note": "kept"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
RETENTION = "persistentVolumeClaimRetentionPolicy"


def with_claims(name: str, when_deleted: str) -> dict[str, Any]:
    policy = {"whenDeleted": when_deleted, "whenScaled": "Retain"}
    return a_set(name, 1, 3, group={"volumeClaimTemplates": [CLAIM], RETENTION: policy})


def claims(world: World) -> dict[str, str]:
    """Return the UID of each PVC."""
    return {name_of(claim): claim["metadata"]["uid"] for claim in world.list("PersistentVolumeClaim")}


def owners(world: World) -> set[tuple[str, ...]]:
    """Return the kinds of owners of the workers' PVCs."""
    worker_claims = [
        claim for claim in world.list("PersistentVolumeClaim") if GROUP_KEY_LABEL in labels_of(claim)
    ]
    return {
        tuple(owner["kind"] for owner in claim["metadata"].get("ownerReferences") or ())
        for claim in worker_claims
    }


def test_claims_of_workers_outlive_their_group_and_are_deleted_with_the_set(world: World) -> None:
    world.create(with_claims("keeper", "Delete"))
    settle(world, "keeper")
    before, pods = claims(world), uids_of_group(world, "keeper", 0)
    assert before.keys() == {"data-keeper-0", "data-keeper-0-1", "data-keeper-0-2"}
    for claim in world.list("PersistentVolumeClaim"):
        assert labels_of(claim)["tier"] == "fast"
        assert claim["metadata"]["annotations"]["note"] == "kept"
    eventually("the set owns the claims", lambda: owners(world), lambda now: now == {(SET,)})

    world.delete("Pod", "keeper-0-1")
    world.gone_or_replaced("Pod", "keeper-0", pods["keeper-0"])
    settle(world, "keeper")
    assert not set(pods.values()) & set(uids_of_group(world, "keeper", 0).values())
    assert claims(world) == before

    world.delete(SET, "keeper")
    eventually("the claims are gone", lambda: claims(world), lambda now: not now, seconds=120)


@pytest.mark.parametrize("is_early", [True, False], ids=["before the new set", "after it"])
def test_larger_claims(world: World, is_early: bool) -> None:
    """The set and its StatefulSet are deleted without their dependents. is_early: whether the StatefulSet is
    deleted before the set is created again, or once the API server has rejected the new claims.
    """
    manifest = a_set("grown", 3, 2, group={"volumeClaimTemplates": [CLAIM]})
    world.create(manifest)
    settle(world, "grown")
    before, history = claims(world), History(world, "grown")
    larger = {**CLAIM, "spec": {**CLAIM["spec"], "resources": {"requests": {"storage": "5Gi"}}}}
    wish = a_set("grown", 3, 2, group={"volumeClaimTemplates": [larger]})
    world.delete(SET, "grown", "Orphan")
    eventually("the set is gone", lambda: world.find(SET, "grown") is None)
    if is_early:
        delete_leaders(world)
        world.create(wish)
    else:
        world.create(wish)
        failure = eventually(
            "the new claims are rejected",
            lambda: condition(world.get(SET, "grown"), "ReplicaFailure"),
            lambda now: now.get("status") == "True",
        )
        assert failure["message"].startswith("cannot update StatefulSet grown: ")
        delete_leaders(world)
    settle(world, "grown")
    assert {storage_of(statefulset) for statefulset in world.list("StatefulSet")} == {"5Gi"}
    assert claims(world) == before, "existing claims stay"
    # Before the takeover by the new StatefulSet, and after it, at most maxUnavailable (1) is missing.
    assert min(len(ready_groups(frame)) for frame in history.pods()) >= 2

    world.patch(SET, "grown", scaled_to(4))
    settle(world, "grown")
    sizes = {
        name_of(claim): claim["spec"]["resources"]["requests"]["storage"]
        for claim in world.list("PersistentVolumeClaim")
    }
    assert {name for name, size in sizes.items() if size == "5Gi"} == {"data-grown-3", "data-grown-3-1"}


def delete_leaders(world: World) -> None:
    uid = world.uid("StatefulSet", "grown")
    world.delete("StatefulSet", "grown", "Orphan")
    world.gone_or_replaced("StatefulSet", "grown", uid)


def storage_of(statefulset: Mapping[str, Any]) -> str:
    (claim,) = statefulset["spec"]["volumeClaimTemplates"]
    return str(claim["spec"]["resources"]["requests"]["storage"])


def test_a_retention_policy_changed_to_retain_keeps_the_claims_of_workers(world: World) -> None:
    world.create(with_claims("spared", "Delete"))
    settle(world, "spared")
    eventually("the set owns the claims", lambda: owners(world), lambda now: now == {(SET,)})
    template = {RETENTION: {"whenDeleted": "Retain"}}
    world.patch(SET, "spared", {"spec": {"leaderWorkerTemplate": template}})
    eventually("the claims have no owner", lambda: owners(world), lambda now: now == {()})
