"""Does a router that uses nothing but Services and labels ever see half of a revision?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SLICE_LABEL
from test.harness.disaggregated.manifests import a_disaggregated_set, a_role, new_roles, roles
from test.harness.disaggregated.router import Router, longest_half
from test.harness.disaggregated.standing import SECONDS, keys_of, settle, status_of
from test.harness.disaggregated.watching import Watch
from test.harness.groups import labels_of, name_of
from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster import Api

pytestmark = pytest.mark.local_only

Object = dict[str, Any]

ROLES = frozenset({"prefill", "decode"})
DRAWER = "test.example.com/decode"
# Services of one revision are written one after the other, and pods of its roles end one after the other.
TRANSITION_SECONDS = 30.0


@pytest.fixture
def node(world: World, api: Api) -> Iterator[str]:
    """One that nothing is placed on for the time being."""
    name = name_of(api.get("/api/v1/nodes")["items"][0])
    yield name
    api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {DRAWER: None}}})


def keys_of_services(world: World, name: str) -> set[str]:
    found = world.list("Service", f"{NAME_LABEL}={name}")
    return {labels_of(each)[REVISION_LABEL] for each in found if "ownerReferences" in each["metadata"]}


def ready_of(world: World, key: str) -> dict[str, int]:
    """Role → ready groups of a revision, as the status has them."""
    revisions = [each for of in status_of(world, "pd").get("sliceStatuses", ()) for each in of["revisions"]]
    counts = (role for each in revisions if each["revision"] == key for role in each["roles"])
    return {role["name"]: role.get("readyReplicas", 0) for role in counts}


def foreign_services(name: str, key: str) -> Iterator[Object]:
    """Of users, who label what they like."""
    labels = {NAME_LABEL: name, ROLE_LABEL: "prefill", SLICE_LABEL: "0", REVISION_LABEL: key}
    spec = {"clusterIP": "None", "selector": {NAME_LABEL: name, ROLE_LABEL: "prefill"}}
    for title, of in (("mine", {}), ("labelled", labels), (f"{name}-0-{key}-mine-prv", labels)):
        made = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": title, "labels": of}}
        yield {**made, "spec": spec}


def test_a_router_never_sees_half_of_a_revision(world: World, api: Api, node: str) -> None:
    watch, router = Watch(world), Router(world, "pd")
    world.create(a_disaggregated_set("pd", roles(2, 2)))
    settle(world, "pd")
    (old,) = keys_of(world, "pd")
    eventually(
        "it has Services", lambda: router.views()[-1].whole(ROLES), lambda whole: whole == {("0", old)}
    )
    begun = len(router.views())
    foreign = [world.create(each) for each in foreign_services("pd", old)]

    # The new prefill comes up, the new decode finds no node.
    held = [a_role("prefill", 2, "server:2"), a_role("decode", 2, "server:2", nodeSelector={DRAWER: "open"})]
    world.patch(KIND, "pd", new_roles(held))
    eventually("both are recorded", lambda: keys_of(world, "pd"), lambda keys: len(keys) == 2)
    new = keys_of(world, "pd")[-1]
    half = {"prefill": 1, "decode": 0}
    eventually("the new one is a half", lambda: ready_of(world, new), lambda ready: ready == half, SECONDS)
    assert keys_of_services(world, "pd") == {old}
    assert router.views()[-1].whole(ROLES) == {("0", old)}

    api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": {DRAWER: "open"}}})
    settle(world, "pd")
    eventually(
        "Services lead to the new one", lambda: keys_of_services(world, "pd"), lambda keys: keys == {new}
    )
    eventually("it answers", lambda: router.views()[-1].whole(ROLES), lambda whole: whole == {("0", new)})
    watch.judge("pd")
    views = router.views()
    assert all(each.whole(ROLES) for each in views[begun - 1 :]), "requests could not be served"
    assert longest_half(views, ROLES) < TRANSITION_SECONDS
    for each in foreign:
        there = world.get("Service", name_of(each))
        assert there["metadata"]["resourceVersion"] == each["metadata"]["resourceVersion"]
