"""PersistentVolumeClaims outlive their pods, and are deleted if the set specifies it."""

from __future__ import annotations

from typing import Any

from lws_api.leaderworkerset.v1 import GROUP_KEY_LABEL
from test.harness.groups import labels_of, name_of, settle, uids_of_group
from test.harness.manifests import a_set
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


def test_a_retention_policy_changed_to_retain_keeps_the_claims_of_workers(world: World) -> None:
    world.create(with_claims("spared", "Delete"))
    settle(world, "spared")
    eventually("the set owns the claims", lambda: owners(world), lambda now: now == {(SET,)})
    template = {RETENTION: {"whenDeleted": "Retain"}}
    world.patch(SET, "spared", {"spec": {"leaderWorkerTemplate": template}})
    eventually("the claims have no owner", lambda: owners(world), lambda now: now == {()})
