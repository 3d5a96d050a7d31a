"""Manifests for later releases of upstream are either run as specified or rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from test.harness.events import wait_for_events
from test.harness.groups import condition, revisions_of, settle
from test.harness.manifests import a_set
from test.harness.product import Product
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ApiError, CommandError

VALIDATION = ("validatingwebhookconfiguration", "lws-validating-webhook-configuration")


def validate(world: World, selector: dict[str, Any]) -> None:
    entries = json.loads(world.kubectl("get", *VALIDATION, "-o", "json"))["webhooks"]
    patch = [
        {"op": "add", "path": f"/webhooks/{index}/namespaceSelector", "value": selector}
        for index, _ in enumerate(entries)
    ]
    world.kubectl("patch", *VALIDATION, "--type=json", "-p", json.dumps(patch))


def is_created(world: World, manifest: dict[str, Any]) -> bool:
    try:
        world.create(manifest)
    except ApiError:
        return False
    return True


def test_a_set_stored_with_an_unknown_field_is_left_alone_and_reported(world: World) -> None:
    scheduled = a_set("scheduled", 1, 2, scheduling={"replica": {}})
    with pytest.raises(ApiError, match="requires the WorkloadAwareScheduling feature gate"):
        world.create(scheduled)
    elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [world.namespace]}
    validate(world, {"matchExpressions": [elsewhere]})
    try:
        eventually("the set is stored without validation", lambda: is_created(world, scheduled), bool)
    finally:
        validate(world, {})
    eventually(
        "the status reports the unknown field",
        lambda: condition(world.get(SET, "scheduled"), "ReplicaFailure").get("reason"),
        lambda reason: reason == "UnsupportedField",
    )
    wait_for_events(world, "scheduled", "UnsupportedField")

    def is_refused() -> bool:
        try:
            world.patch(SET, "scheduled", {"spec": {"scheduling": None}})
        except ApiError as error:
            return "cannot remove scheduling after creation" in str(error)
        return False

    eventually("the webhook validates again", is_refused, bool)
    world.patch(SET, "scheduled", {"metadata": {"labels": {"team": "a"}}, "spec": {"replicas": 2}})
    assert world.get(SET, "scheduled")["spec"]["scheduling"] == {"replica": {}}
    for kind in ("StatefulSet", "Service", "ControllerRevision", "Pod"):
        assert world.list(kind) == [], kind


def test_a_set_with_a_field_of_a_later_crd_is_left_alone(world: World, product: Product) -> None:
    crd, pointer = "leaderworkersets.leaderworkerset.x-k8s.io", "/properties/spec/properties/spread"
    path = f"/spec/versions/0/schema/openAPIV3Schema{pointer}"

    def patch_definition(*operations: dict[str, Any]) -> None:
        world.kubectl("patch", "crd", crd, "--type=json", "-p", json.dumps(operations))

    later = a_set("later", 1, 2, spread="zones")

    def is_stored() -> bool:
        """Report whether the API server has loaded the CRD and stores the set."""
        try:
            world.kubectl("create", "--validate=strict", "-f", "-", input=later)
        except CommandError:
            return False
        return True

    patch_definition({"op": "add", "path": path, "value": {"type": "string"}})
    try:
        # Open streams show objects by the CRD from the time of their start.
        product.restart()
        eventually("the set is stored with its field", is_stored, bool)
        eventually(
            "the status reports the unknown field",
            lambda: condition(world.get(SET, "later"), "ReplicaFailure").get("message", ""),
            lambda message: message.startswith("spec.spread is unknown to this release: "),
        )
        assert condition(world.get(SET, "later"), "ReplicaFailure")["reason"] == "UnreadableSpec"
        wait_for_events(world, "later", "UnreadableSpec")
        for kind in ("StatefulSet", "Service", "ControllerRevision", "Pod"):
            assert world.list(kind) == [], kind
    finally:
        world.delete(SET, "later")
        patch_definition({"op": "remove", "path": path})


def test_default_group_identity_adds_no_revision(world: World) -> None:
    plain = a_set("plain", 1, 1)
    later = a_set(
        "later",
        1,
        1,
        group={"maxGroupRestarts": 3},
        groupIdentity="Ordinal",
        groupReplacementPolicy="PostTermination",
    )
    for manifest in (plain, later):
        world.create(manifest)
    settle(world, "plain", "later")
    (expected,), (actual,) = revisions_of(world, "plain"), revisions_of(world, "later")
    assert actual["data"] == expected["data"]
    stored = world.patch(SET, "later", {"spec": {"leaderWorkerTemplate": {"maxGroupRestarts": 5}}})["spec"]
    assert (stored["groupIdentity"], stored["groupReplacementPolicy"]) == ("Ordinal", "PostTermination")
    assert stored["leaderWorkerTemplate"]["maxGroupRestarts"] == 5, "nothing is pruned"
    settle(world, "later")
    assert len(revisions_of(world, "later")) == 1
