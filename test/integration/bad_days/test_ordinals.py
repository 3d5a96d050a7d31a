"""On a Kubernetes without `ordinals.start`, users are warned and no worker StatefulSets multiply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from test.harness.events import events_of
from test.harness.groups import condition, names_of
from test.harness.manifests import a_set
from test.harness.product import Product
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World

pytestmark = pytest.mark.local_only

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
NAME = "drop-start-ordinal"
POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": NAME},
    "spec": {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["apps"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["statefulsets"],
                }
            ]
        },
        "matchConditions": [{"name": "has-ordinals", "expression": "has(object.spec.ordinals)"}],
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": '[JSONPatch{op: "remove", path: "/spec/ordinals"}]'},
            }
        ],
    },
}
REPLICAS = 3


@pytest.fixture
def old_kubernetes(world: World) -> Iterator[None]:
    """Drop the field on the API server, in the namespace of the test."""
    api = world.api
    api.create(f"{ADMISSION}/mutatingadmissionpolicies", POLICY)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "matchResources": {"namespaceSelector": selector}},
    }
    api.create(f"{ADMISSION}/mutatingadmissionpolicybindings", binding)
    try:
        eventually("the API server drops the field", lambda: drops(world))
        yield
    finally:
        api.delete(f"{ADMISSION}/mutatingadmissionpolicybindings/{NAME}")
        api.delete(f"{ADMISSION}/mutatingadmissionpolicies/{NAME}")


def drops(world: World) -> bool:
    template = {
        "metadata": {"labels": {"app": "probe"}},
        "spec": {"containers": [{"name": "c", "image": "c"}]},
    }
    spec = {"serviceName": "x", "selector": {"matchLabels": {"app": "probe"}}, "template": template}
    probe = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "probe"},
        "spec": {**spec, "ordinals": {"start": 1}},
    }
    stored = world.api.create(f"{world.path('StatefulSet')}?dryRun=All", probe)
    return "ordinals" not in stored["spec"]


@pytest.mark.usefixtures("old_kubernetes")
def test_missing_start_ordinals_are_reported_and_create_no_extra_objects(
    product: Product, world: World
) -> None:
    world.create(a_set("web", replicas=REPLICAS, size=3))
    failure = eventually(
        "the condition is set", lambda: condition(world.get(SET, "web"), "ReplicaFailure"), lambda seen: seen
    )
    assert (failure["status"], failure["reason"]) == ("True", "StartOrdinalUnsupported")
    assert "requires Kubernetes" in failure["message"]
    eventually(
        "a warning is reported",
        lambda: [event for event in events_of(world, "web") if event.type == "Warning"],
    )
    stays("no StatefulSet is created for a StatefulSet", lambda: nested_statefulsets(world), seconds=3)
    assert nested_statefulsets(world) == set()
    generations = {statefulset["metadata"]["generation"] for statefulset in world.list("StatefulSet")}
    assert generations == {1}
    product.restart()
    world.patch(SET, "web", {"metadata": {"annotations": {"looked-at": "again"}}})
    stays("the condition does not change", lambda: reported_failure(world), seconds=3)
    assert (reported_failure(world), nested_statefulsets(world)) == (
        ("True", "StartOrdinalUnsupported"),
        set(),
    )


def nested_statefulsets(world: World) -> set[str]:
    """Return StatefulSets that were created for StatefulSets."""
    return names_of(world.list("StatefulSet")) - {"web", *(f"web-{index}" for index in range(REPLICAS))}


def reported_failure(world: World) -> tuple[str, str]:
    failure = condition(world.get(SET, "web"), "ReplicaFailure")
    return failure["status"], failure["reason"]
