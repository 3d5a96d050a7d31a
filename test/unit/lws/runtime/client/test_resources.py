"""lws.runtime.client.resources: URLs of the resources, and the table of verbs."""

from __future__ import annotations

import pytest

from lws.runtime.client.resources import (
    LEADERWORKERSETS,
    MUTATING_WEBHOOKS,
    NAMESPACED_VERBS,
    PODS,
    RESOURCES,
    STATEFULSETS,
    VERBS,
    Resource,
)
from lws_api.leaderworkerset.v1 import API_VERSION, KIND


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("ns",), "/api/v1/namespaces/ns/pods"),
        (PODS, ("ns", "a"), "/api/v1/namespaces/ns/pods/a"),
        (STATEFULSETS, ("ns", "a"), "/apis/apps/v1/namespaces/ns/statefulsets/a"),
        (
            LEADERWORKERSETS,
            ("ns", "a", "status"),
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/ns/leaderworkersets/a/status",
        ),
        (
            MUTATING_WEBHOOKS,
            ("", "a"),
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/a",
        ),
        (
            MUTATING_WEBHOOKS,
            ("ignored", "a"),
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/a",
        ),
    ],
)
def test_paths(resource: Resource, arguments: tuple[str, ...], path: str) -> None:
    assert resource.path(*arguments) == path


@pytest.mark.parametrize(("resource", "group"), [(PODS, ""), (STATEFULSETS, "apps")])
def test_groups(resource: Resource, group: str) -> None:
    assert resource.group == group


def test_our_own_kind_is_that_of_the_api() -> None:
    assert (LEADERWORKERSETS.api_version, LEADERWORKERSETS.kind) == (API_VERSION, KIND)


def test_kinds_are_mapped_to_resources() -> None:
    assert all(resource.kind == kind for kind, resource in RESOURCES.items())


def test_verbs_and_resources_are_known() -> None:
    resources = {(resource.group, resource.plural) for resource in RESOURCES.values()}
    for (group, plural), verbs in [*VERBS.items(), *NAMESPACED_VERBS.items()]:
        assert (group, plural.partition("/")[0]) in resources
        assert verbs and verbs <= {"get", "list", "watch", "create", "update", "patch", "delete"}


def test_every_resource_has_verbs_in_some_role() -> None:
    granted = {plural.partition("/")[0] for _, plural in [*VERBS, *NAMESPACED_VERBS]}
    assert {resource.plural for resource in RESOURCES.values()} == granted


@pytest.mark.parametrize(
    "resource", ["leaderworkersets", "statefulsets", "pods", "services", "controllerrevisions"]
)
def test_watched_resources_can_be_listed(resource: str) -> None:
    verbs = next(verbs for (_, plural), verbs in VERBS.items() if plural == resource)
    assert {"list", "watch"} <= verbs


def test_secrets_and_leases_are_accessed_only_in_the_namespace_of_the_manager() -> None:
    assert not VERBS.keys() & NAMESPACED_VERBS.keys()
    assert {plural for _, plural in NAMESPACED_VERBS} == {"secrets", "leases"}
