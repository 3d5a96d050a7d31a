"""A router that uses only Services and labels never sees an incomplete revision."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SLICE_LABEL
from test.harness.disaggregated.manifests import a_disaggregated_set, a_role, new_roles
from test.harness.disaggregated.router import Router, broken_revisions
from test.harness.disaggregated.standing import SECONDS, keys_of, settle, status_of
from test.harness.disaggregated.watching import Watch
from test.harness.groups import labels_of, name_of
from test.harness.waiting import eventually
from test.harness.world import World
from tools.localcluster import Api

pytestmark = pytest.mark.local_only

Object = dict[str, Any]

GROUPS = {"prefill": 2, "decode": 2, "router": 1}
ROLES = frozenset(GROUPS)
SLICES = ("0", "1")
NODE_LABEL = "test.example.com/decode"
# Services of a revision are written one right after the other, and so are the counts of its last groups.
# Creation times of the API server are in whole seconds.
TRANSITION_SECONDS = 5.0


@pytest.fixture
def node(world: World, api: Api) -> Iterator[str]:
    """The name of a node on which no pod is placed at first."""
    name = name_of(api.get("/api/v1/nodes")["items"][0])
    yield name
    api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {NODE_LABEL: None}}})


def keys_of_services(world: World, name: str) -> set[str]:
    services = world.list("Service", f"{NAME_LABEL}={name}")
    return {
        labels_of(service)[REVISION_LABEL] for service in services if "ownerReferences" in service["metadata"]
    }


def creation_seconds(world: World, name: str) -> dict[str, float]:
    """Return, for each slice, the seconds from its first Service to its last.

    Only one revision has Services at that time.
    """
    times: dict[str, list[float]] = {}
    for service in world.list("Service", f"{NAME_LABEL}={name},{SLICE_LABEL}"):
        if "ownerReferences" in service["metadata"]:
            created = datetime.fromisoformat(service["metadata"]["creationTimestamp"])
            times.setdefault(labels_of(service)[SLICE_LABEL], []).append(created.timestamp())
    return {index: max(moments) - min(moments) for index, moments in times.items()}


def ready_of(world: World, key: str) -> list[dict[str, int]]:
    """Return the ready groups of a revision for each slice and role, from the status."""
    return [
        {role["name"]: role.get("readyReplicas", 0) for role in revision["roles"]}
        for of_slice in status_of(world, "pd").get("sliceStatuses", ())
        for revision in of_slice["revisions"]
        if revision["revision"] == key
    ]


def in_each_slice(key: str) -> set[tuple[str, str]]:
    return {(index, key) for index in SLICES}


def all_roles(image: str, needs_node: bool = False) -> list[Object]:
    """Return all roles. drawer: whether decode waits for a node."""
    pod = {"nodeSelector": {NODE_LABEL: "open"}} if needs_node else {}
    return [a_role(name, count, image, **(pod if name == "decode" else {})) for name, count in GROUPS.items()]


def foreign_services(name: str, key: str) -> Iterator[Object]:
    """Yield Services of users, which may have any labels."""
    labels = {NAME_LABEL: name, ROLE_LABEL: "prefill", SLICE_LABEL: "0", REVISION_LABEL: key}
    spec = {"clusterIP": "None", "selector": {NAME_LABEL: name, ROLE_LABEL: "prefill"}}
    for title, of in (("mine", {}), ("labelled", labels), (f"{name}-0-{key}-mine-prv", labels)):
        manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": title, "labels": of}}
        yield {**manifest, "spec": spec}


def test_a_router_never_sees_an_incomplete_revision(world: World, api: Api, node: str) -> None:
    watch, router = Watch(world), Router(world, "pd")
    world.create(a_disaggregated_set("pd", all_roles("server:1"), slices=len(SLICES)))
    settle(world, "pd")
    (old,) = keys_of(world, "pd")
    eventually(
        "the router sees the complete revision",
        lambda: router.views()[-1].whole(ROLES),
        lambda complete: complete == in_each_slice(old),
    )
    begun = len(router.views())
    foreign = [world.create(manifest) for manifest in foreign_services("pd", old)]

    # The new prefill and router become ready, but the new decode finds no node.
    world.patch(KIND, "pd", new_roles(all_roles("server:2", needs_node=True)))
    eventually("both revisions are recorded", lambda: keys_of(world, "pd"), lambda keys: len(keys) == 2)
    new = keys_of(world, "pd")[-1]
    part = [{"prefill": 1, "decode": 0, "router": 1}] * len(SLICES)
    eventually(
        "the new revision is incomplete", lambda: ready_of(world, new), lambda ready: ready == part, SECONDS
    )
    assert keys_of_services(world, "pd") == {old}
    assert router.views()[-1].whole(ROLES) == in_each_slice(old)

    api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": {NODE_LABEL: "open"}}})
    settle(world, "pd")
    eventually(
        "only the new revision has Services",
        lambda: keys_of_services(world, "pd"),
        lambda keys: keys == {new},
    )
    eventually(
        "the router sees the complete new revision",
        lambda: router.views()[-1].whole(ROLES),
        lambda complete: complete == in_each_slice(new),
    )
    watch.judge("pd")
    check_transitions(world, watch, router, begun)
    for service in foreign:
        current = world.get("Service", name_of(service))
        assert current["metadata"]["resourceVersion"] == service["metadata"]["resourceVersion"]


def check_transitions(world: World, watch: Watch, router: Router, begun: int) -> None:
    """Check that requests could always be served, and revisions were incomplete only during transitions.

    begun: the number of views at the beginning.
    """
    views = router.views()
    complete = [{index for index, _ in view.whole(ROLES)} for view in views[begun - 1 :]]
    assert all(slices == {*SLICES} for slices in complete), "some slice had no complete revision"
    emptied = watch.emptied("pd")
    assert emptied and set(creation_seconds(world, "pd")) == {*SLICES}
    first = {revision: min(version for version, _ in of) for revision, of in emptied.items()}
    assert broken_revisions(views, ROLES, first) == []
    for of in emptied.values():
        assert len(of) == len(ROLES)
        assert max(at for _, at in of) - min(at for _, at in of) < TRANSITION_SECONDS
    assert max(creation_seconds(world, "pd").values()) <= TRANSITION_SECONDS
