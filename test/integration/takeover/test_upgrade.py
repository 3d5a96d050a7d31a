"""An upgrade from the previous product restarts nothing, and a rollout continues where it was."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, REVISION_LABEL
from test.harness.groups import (
    images_of,
    labels_of,
    name_of,
    pods_of,
    revisions_of,
    settle,
)
from test.harness.history import History
from test.harness.identities import identities
from test.harness.manifests import a_set, new_image, pod_template, rolling
from test.harness.product import Product
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.integration.takeover.previous import previous_product, upgrade
from tools.deployment import CHART

pytestmark = pytest.mark.local_only

Object = dict[str, Any]

WATCHED_SECONDS = 8.0
NEVER_READY = {"localcluster/ready": "false"}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
AT_REST = {
    "plain": a_set("plain"),
    "leaders": a_set("leaders", group={"leaderTemplate": pod_template("leader:1")}),
    "alone": a_set("alone", size=1),
    "unique": a_set("unique", networkConfig={"subdomainPolicy": "UniquePerReplica"}),
    "subgroups": a_set("subgroups", size=4, group={"subGroupPolicy": {"subGroupSize": 2}}),
    "claims": a_set("claims", group={"volumeClaimTemplates": [CLAIM]}),
    "placed": a_set("placed", annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "kubernetes.io/hostname"}, size=1),
    "startup": a_set("startup", startupPolicy="LeaderReady", group={"restartPolicy": "None"}),
    "rolled": a_set("rolled"),
    "back": a_set("back"),
    "canary": a_set("canary", replicas=3, rolloutStrategy=rolling(partition=2)),
    "relaxed": a_set("relaxed"),
}
ROLLING = {
    "stuck": a_set("stuck", replicas=3),
    "surging": a_set("surging", replicas=2, rolloutStrategy=rolling(maxSurge=1)),
    "paused": a_set("paused", replicas=3),
}


def test_an_upgrade_restarts_nothing_and_continues_rollouts(
    world: World, product: Product, tmp_path: Path
) -> None:
    previous = previous_product(tmp_path)
    print(f"from commit {previous.commit}")
    product.stop()
    upgrade(product.deployment, previous.chart)
    former = previous.start(product.deployment)
    create_sets(world)
    assert former.stop() == 0
    eventually("no object changes any more", lambda: is_still(world))
    before = standing(world)
    created = {name: spec_of(world, name) for name in (*AT_REST, *ROLLING)}

    upgrade(product.deployment, CHART)
    product.start()
    eventually(
        "the new manager is active",
        lambda: "held by this manager" in product.manager.log_path.read_text(),
        seconds=60,
    )
    time.sleep(WATCHED_SECONDS)
    assert differing(before, standing(world)) == []
    assert {name: spec_of(world, name) for name in created} == created

    good = new_image("server:3")
    good["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {
        "annotations": dict.fromkeys(NEVER_READY)
    }
    histories = {name: History(world, name) for name in ROLLING}
    for name in ROLLING:
        world.patch(SET, name, good)
    world.patch(SET, "paused", {"spec": {"rolloutStrategy": {"paused": None}}})
    settle(world, *ROLLING, seconds=120)
    for name, history in histories.items():
        assert set.union(*images_of(world, name).values()) == {"server:3"}
        assert max(len(uids) for uids in history.leaders().values()) <= 3, name
        assert [int(revision["revision"]) for revision in revisions_of(world, name)] == [1, 2, 3]


def create_sets(world: World) -> None:
    """Create sets of all sorts, some of them in a rollout that cannot continue by itself."""
    every = {**AT_REST, **ROLLING}
    # The groups of this set need exclusive nodes, and none may be left once the other sets exist.
    world.create(every["placed"])
    settle(world, "placed", seconds=120)
    for name in every.keys() - {"placed"}:
        world.create(every[name])
    settle(world, *every, seconds=120)
    for name in ("rolled", "back", "canary"):
        world.patch(SET, name, new_image("server:2"))
    settle(world, "rolled", "back")
    settle(world, "canary", updated=1)
    world.patch(SET, "back", new_image("server:1"))
    world.patch(SET, "relaxed", {"spec": {"leaderWorkerTemplate": {"restartPolicy": "None"}}})
    settle(world, "back", "relaxed")
    broken = {"spec": {"leaderWorkerTemplate": {"workerTemplate": pod_template("server:2", NEVER_READY)}}}
    for name in ROLLING:
        world.patch(SET, name, broken)
    for name, moving in (("stuck", 2), ("surging", 2), ("paused", 2)):
        eventually(
            f"{name} is stuck",
            lambda name=name, moving=moving: images_of(world, name).get(moving) == {"server:2"},
        )
        eventually(f"the pods of {name} exist", lambda name=name: len(pods_of(world, name)) >= 6)
    world.patch(SET, "paused", {"spec": {"rolloutStrategy": {"paused": True}}})
    eventually("no object changes any more", lambda: is_still(world))


def is_still(world: World) -> bool:
    """Report whether every StatefulSet is settled, and nothing was written for a while."""
    for statefulset in world.list("StatefulSet"):
        status = statefulset["status"]
        if status.get("observedGeneration") != statefulset["metadata"]["generation"]:
            return False
        if status.get("replicas", 0) != statefulset["spec"]["replicas"]:
            return False
    before = identities(world)
    time.sleep(5)
    return identities(world) == before


def standing(world: World) -> dict[str, Object]:
    """Return the identity and the spec of every object."""
    kinds = ("Pod", "StatefulSet", "Service", "ControllerRevision", SET)
    return {f"{kind} {name_of(obj)}": identity(obj) for kind in kinds for obj in world.list(kind)}


def identity(obj: Object) -> Object:
    statuses = (obj.get("status") or {}).get("containerStatuses") or ()
    return {
        "uid": obj["metadata"]["uid"],
        "generation": obj["metadata"].get("generation"),
        "key": labels_of(obj).get(REVISION_LABEL),
        "revision": obj.get("revision"),
        "restarts": [container["restartCount"] for container in statuses],
    }


def differing(before: dict[str, Object], after: dict[str, Object]) -> list[str]:
    return [title for title in sorted(before.keys() | after.keys()) if before.get(title) != after.get(title)]


def spec_of(world: World, name: str) -> Object:
    spec: Object = world.get(SET, name)["spec"]
    return spec
