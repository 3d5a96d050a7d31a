"""A DisaggregatedSet is created, rolled out, scaled and deleted on a real API server.

While its CRD is missing, LeaderWorkerSets are reconciled as before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lws_api.crds import definitions
from lws_api.disaggregatedset.v1 import (
    API_GROUP,
    API_VERSION,
    KIND,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SCALER_KIND,
)
from test.harness.groups import images_of, labels_of, name_of, names_of, settle
from test.harness.manifests import a_set, new_image, pod_template
from test.harness.product import Product
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ApiError

PLURAL = f"disaggregatedsets.{API_GROUP}"
SECONDS = 240.0


def a_role(name: str, replicas: int | None, image: str = "server:1") -> dict[str, Any]:
    """Return a role. replicas: None if a scaler determines it."""
    spec = {"leaderWorkerTemplate": {"size": 1, "workerTemplate": pod_template(image)}}
    if replicas is None:
        return {"name": name, "scaling": {"mode": "External"}, "spec": spec}
    return {"name": name, "spec": {**spec, "replicas": replicas}}


def a_disaggregated_set(name: str, image: str = "server:1") -> dict[str, Any]:
    roles = [a_role("prefill", None, image), a_role("decode", 2, image)]
    metadata = {"name": name}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"roles": roles}}


def counts(world: World, name: str) -> dict[str, dict[str, int]]:
    """Return the desired groups of each role and revision."""
    result: dict[str, dict[str, int]] = {}
    for lws in world.list(SET, f"{NAME_LABEL}={name}"):
        labels = labels_of(lws)
        result.setdefault(labels[REVISION_LABEL], {})[labels[ROLE_LABEL]] = lws["spec"]["replicas"]
    return result


def is_available(obj: dict[str, Any]) -> bool:
    status = obj.get("status") or {}
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    is_current = status.get("observedGeneration") == obj["metadata"]["generation"]
    return is_current and conditions.get("Available") == "True"


def is_over(status: dict[str, Any]) -> bool:
    return bool(status["currentRevision"] == status["updateRevision"])


def available(world: World, name: str) -> dict[str, Any]:
    return eventually("the set is available", lambda: world.get(KIND, name), is_available, seconds=SECONDS)


def edits(world: World, name: str) -> dict[str, Any]:
    """Return the condition RolesEdited; empty if there is none."""
    conditions = (world.get(KIND, name).get("status") or {}).get("conditions") or ()
    return next((dict(condition) for condition in conditions if condition["type"] == "RolesEdited"), {})


def test_a_hand_edited_role_is_reported_until_a_rollout_replaces_it(world: World) -> None:
    world.create(a_disaggregated_set("fixed"))
    available(world, "fixed")
    assert not edits(world, "fixed"), "defaults, labels and annotations of the cluster are no edits"
    (key,) = counts(world, "fixed")
    others = {pod["metadata"]["uid"] for pod in world.list("Pod", f"{ROLE_LABEL}=prefill")}
    name = f"fixed-0-{key}-decode"
    world.patch(SET, name, new_image("server:hotfix"))
    edited = eventually("the edit is reported", lambda: edits(world, "fixed"))
    assert (edited["status"], edited["reason"]) == ("True", "LeaderWorkerSetEdited")
    assert edited["message"].startswith(f"{name}: the template is not that of its revision")
    (event,) = eventually(
        "an Event reports it",
        lambda: [event for event in world.list("Event") if event["reason"] == "LeaderWorkerSetEdited"],
    )
    assert (event["type"], event["regarding"]["name"]) == ("Warning", "fixed")
    settle(world, name)
    assert is_available(available(world, "fixed"))
    assert {pod["metadata"]["uid"] for pod in world.list("Pod", f"{ROLE_LABEL}=prefill")} == others
    assert images_of(world, name) == {0: {"server:hotfix"}, 1: {"server:hotfix"}}

    world.patch(KIND, "fixed", {"spec": a_disaggregated_set("fixed", "server:2")["spec"]})
    eventually(
        "the rollout ends the report", lambda: edits(world, "fixed"), lambda now: now["status"] == "False"
    )
    available(world, "fixed")
    (new,) = counts(world, "fixed")
    assert images_of(world, f"fixed-0-{new}-decode") == {0: {"server:2"}, 1: {"server:2"}}


def test_a_set_is_created_scaled_rolled_and_deleted(world: World) -> None:
    world.create(a_disaggregated_set("pd"))
    available(world, "pd")
    (key,) = counts(world, "pd")
    assert counts(world, "pd") == {key: {"prefill": 1, "decode": 2}}
    children = {f"pd-0-{key}-{role}" for role in ("prefill", "decode")}
    assert names_of(world.list(SET)) == children
    services = eventually(
        "each role has its Service",
        lambda: names_of(world.list("Service", NAME_LABEL)),
        lambda names: len(names) == 2,
        seconds=SECONDS,
    )
    assert services == {f"{name}-prv" for name in children}
    (revision,) = world.list("ControllerRevision", f"{NAME_LABEL}=pd,!leaderworkerset.sigs.k8s.io/name")
    assert name_of(revision) == world.get(KIND, "pd")["status"]["updateRevision"]

    world.kubectl("scale", "dsrs", "pd-prefill", "--replicas=3")
    scaled = {key: {"prefill": 3, "decode": 2}}
    eventually("the role is scaled", lambda: counts(world, "pd"), lambda now: now == scaled, seconds=SECONDS)
    available(world, "pd")

    # This changes every pod: old ones are deleted as new ones are created.
    world.patch(KIND, "pd", {"spec": a_disaggregated_set("pd", "server:2")["spec"]})
    eventually(
        "the old revision has no groups",
        lambda: key in counts(world, "pd"),
        lambda exists: not exists,
        seconds=SECONDS,
    )
    available(world, "pd")
    (new,) = counts(world, "pd")
    assert counts(world, "pd") == {new: {"prefill": 3, "decode": 2}}
    eventually(
        "the status reports the end of the rollout",
        lambda: world.get(KIND, "pd")["status"],
        is_over,
        seconds=SECONDS,
    )
    images = {pod["spec"]["containers"][0]["image"] for pod in world.list("Pod", f"{NAME_LABEL}=pd")}
    assert images == {"server:2"}

    world.delete(KIND, "pd")
    eventually("nothing is left", lambda: remaining_objects(world), lambda names: not names, seconds=SECONDS)


def remaining_objects(world: World) -> set[str]:
    """Return the objects with the label of a DisaggregatedSet."""
    kinds = (SET, SCALER_KIND, "Service", "Pod")
    return {name_of(obj) for kind in kinds for obj in world.list(kind, NAME_LABEL)}


@pytest.fixture
def without_definition(world: World, product: Product) -> Iterator[None]:
    world.cluster.kubectl("delete", "crd", PLURAL, "--wait=true")
    yield
    text = json.dumps(definitions()[KIND])
    world.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    product.ensure_running()


def test_children_do_not_carry_tool_labels_used_for_pruning(world: World) -> None:
    label, role = "kro.run/owned", a_role("decode", 1)
    role["metadata"] = {"labels": {label: "true", "team": "a"}, "annotations": {label: "true"}}
    prefill = a_role("prefill", 1)
    manifest = a_disaggregated_set("claimed")
    manifest["metadata"]["labels"] = {label: "true"}
    manifest["spec"]["roles"] = [role, prefill]
    world.create(manifest)
    available(world, "claimed")
    kinds = "leaderworkersets,statefulsets,services,pods,controllerrevisions"
    assert world.kubectl("get", kinds, "-l", label, "-o", "name") == ""
    children = world.list(SET, f"{NAME_LABEL}=claimed,team=a")
    assert [label in child["metadata"].get("annotations", {}) for child in children] == [False]


def test_leaderworkersets_are_reconciled_while_the_disaggregatedset_crd_is_missing(
    world: World, product: Product, without_definition: None
) -> None:
    world.create(a_set("plain", 1, 1))
    settle(world, "plain")
    product.kill()
    product.ensure_running()
    world.patch(SET, "plain", new_image("server:2"))
    settle(world, "plain")
    text = json.dumps(definitions()[KIND])
    world.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    eventually("the set can be created", lambda: _created(world), bool, seconds=SECONDS)
    available(world, "late")


def _created(world: World) -> bool:
    """Report whether the set could be created: the webhook may not know the kind yet."""
    if world.find(KIND, "late") is not None:
        return True
    try:
        world.create(a_disaggregated_set("late"))
    except ApiError:
        return False
    return True
