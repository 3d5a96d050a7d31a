"""Sets adopt orphaned objects, and never take objects of other owners."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from lws.kube.metadata import owner_reference
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Plan, merge_plans
from lws.runtime.apply import Applier, Outcome, WriteHooks
from lws.runtime.children import adopt
from lws.runtime.client.connection import Cluster
from lws.runtime.client.kubeconfig import load_configuration
from lws_api.leaderworkerset.v1 import NAME_LABEL, REVISION_LABEL
from test.harness.groups import (
    controller_of,
    labels_of,
    name_of,
    pods_of,
    revisions_of,
    settle,
)
from test.harness.identities import identities, uids
from test.harness.manifests import a_set, new_image
from test.harness.product import Product
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from test.integration.takeover.lease import lease_held_by_upstream
from test.integration.takeover.upstream import UpstreamController
from test.unit.compat.states import load
from tools.localcluster import Api, ClusterAccess

Object = dict[str, Any]
CHILDREN = ("Pod", "StatefulSet", "Service")


@pytest.mark.parametrize("name", ["at-rest-v0.7", "at-rest-without-history"])
def test_orphans_of_upstreams_controller_are_adopted(
    world: World, api: Api, product: Product, name: str
) -> None:
    """The set is deleted with --cascade=orphan and created again before our manager becomes active."""
    state = load(name, world.namespace)
    with lease_held_by_upstream(api, product):
        controller = UpstreamController(world, state)
        controller.play()
        before = identities(world, *CHILDREN)
        world.kubectl("delete", "lws", "web", "--cascade=orphan")
        eventually("no object has an owner", lambda: _owned(world), lambda owned: not owned)
        controller.create(state.lws)
    eventually("the set owns its objects", lambda: len(_owned(world)), lambda count: count >= 3)
    settle(world, "web")
    assert uids(identities(world, *CHILDREN)) == uids(before)
    assert [identity.generation for identity in identities(world, "StatefulSet").values()] == [1, 1, 1]
    (revision,) = revisions_of(world, "web")
    assert labels_of(revision)[REVISION_LABEL] == labels_of(state.leaders)[REVISION_LABEL]
    assert controller_of(revision)["uid"] == world.uid(SET, "web")


def _owned(world: World) -> list[str]:
    """Return the objects that a set controls."""
    kinds = ("StatefulSet", "Service", "ControllerRevision")
    children = [child for kind in kinds for child in world.list(kind)]
    return [name_of(child) for child in children if controller_of(child).get("kind") == SET]


async def test_an_orphan_with_a_new_controller_is_not_adopted_and_other_owners_are_kept(
    cluster: ClusterAccess, world: World
) -> None:
    """Both changes happen between the plan of an adoption and its write; the manager is not involved."""
    lws, rival = world.create(a_set("one", replicas=0)), world.create(a_set("rival", replicas=0))
    of_app = {**owner_reference(_orphan(world, "app")), "controller": False}
    added = {"shared": of_app, "lost": owner_reference(rival)}
    snapshot = SetSnapshot(lws=lws, now=datetime.now(UTC), set_read_live=lws)
    planned = merge_plans(*(adopt(snapshot.owner, _orphan(world, name)) for name in added))
    for name, owner in added.items():
        world.patch("Service", name, {"metadata": {"ownerReferences": [owner]}})

    outcome = await _carried_out(cluster, planned)

    owners = {name: world.get("Service", name)["metadata"]["ownerReferences"] for name in added}
    assert owners == {"shared": [of_app, owner_reference(lws)], "lost": [owner_reference(rival)]}
    assert outcome.errors == []


def _orphan(world: World, name: str) -> Object:
    metadata, spec = {"name": name}, {"clusterIP": "None"}
    return world.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


async def _carried_out(cluster: ClusterAccess, planned: Plan) -> Outcome:
    client = Cluster(await load_configuration(str(cluster.kubeconfig)), "lws-test")
    seen: list[Mapping[str, Any]] = []
    memory = WriteHooks(
        put=seen.append,
        applied=lambda action, stored: None,
        rejected=lambda *_: None,
        name_taken=lambda action: None,
    )
    recorder: Any = None
    try:
        return await Applier(client, recorder, memory).apply(planned)
    finally:
        await client.close()


def test_sets_whose_labels_overlap_leave_each_others_objects_alone(world: World) -> None:
    """All objects of `one` have the labels that `two` selects."""
    both = {"labels": {"app": "same"}}
    for name in ("one", "two"):
        manifest = a_set(name)
        manifest["metadata"] |= both
        world.create(manifest)
    settle(world, "one", "two")
    before = identities(world, *CHILDREN)
    revision = name_of(revisions_of(world, "one")[0])
    mine = [
        ("StatefulSet", "one"),
        ("StatefulSet", "one-0"),
        ("Service", "one"),
        ("ControllerRevision", revision),
    ]
    owners = {key: controller_of(world.get(*key))["uid"] for key in mine}

    for kind, name in mine:
        world.patch(kind, name, {"metadata": {"labels": {NAME_LABEL: "two"}}})
    eventually(
        "all labels are repaired",
        lambda: {key: labels_of(world.get(*key))[NAME_LABEL] for key in mine},
        lambda now: set(now.values()) == {"one"},
    )
    stays("no object is replaced", lambda: uids(identities(world, *CHILDREN)), 2)
    assert uids(identities(world, *CHILDREN)) == uids(before)
    assert {key: controller_of(world.get(*key))["uid"] for key in mine} == owners
    assert [int(revision["revision"]) for revision in revisions_of(world, "two")] == [1]

    world.patch(SET, "two", new_image("server:2"))
    settle(world, "two")
    expected = {name_of(pod): pod["metadata"]["uid"] for pod in pods_of(world, "one")}
    world.delete(SET, "two")
    eventually("the other set is gone", lambda: pods_of(world, "two"), lambda remaining: not remaining)
    assert {name_of(pod): pod["metadata"]["uid"] for pod in pods_of(world, "one")} == expected
    assert {f"Pod {name}": uid for name, uid in expected.items()}.items() <= uids(before).items()
