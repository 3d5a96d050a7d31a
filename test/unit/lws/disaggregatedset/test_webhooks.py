"""Tests of the webhook handlers through kopf's own admission function."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import kopf
import pytest

from lws.disaggregatedset.registration import ENDPOINTS, VALIDATE_SET, handlers_with
from lws.runtime.webhooks.handlers import register
from lws.runtime.webhooks.server import reviewed

Review = Callable[..., Any]


@pytest.fixture
def review(wire_kopf: Callable[..., tuple[kopf.WebhookFn, Any]]) -> Review:
    """Return a function that sends a review of an object and its old state, and returns the response."""
    registry = kopf.OperatorRegistry()
    register(registry, ENDPOINTS, handlers_with(siblings, None))
    (resource,) = ENDPOINTS.values()
    kind = kopf.Resource(resource.group, resource.version, resource.plural, kind=resource.kind)
    serve, _ = wire_kopf(registry, kind)

    async def call(new: Any, old: Any = None, operation: str = "") -> dict[str, Any]:
        request = {
            "uid": "review-1",
            "resource": {"group": resource.group, "version": "v1", "resource": resource.plural},
            "operation": operation or ("UPDATE" if old else "CREATE"),
            "namespace": "default",
            "object": new,
            "oldObject": old,
        }
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        answer = json.loads((await reviewed(serve, VALIDATE_SET, resource, json.dumps(body).encode())).body)
        response: dict[str, Any] = answer["response"]
        return response

    return call


def make_set(**spec: Any) -> dict[str, Any]:
    template = {"workerTemplate": {"spec": {"containers": [{"name": "c"}]}}}
    roles = [{"name": name, "spec": {"leaderWorkerTemplate": template}} for name in ("prefill", "decode")]
    return {
        "apiVersion": "disaggregatedset.x-k8s.io/v1",
        "kind": "DisaggregatedSet",
        "metadata": {"name": "llm", "namespace": "default"},
        "spec": {"roles": roles, **spec},
    }


def siblings(namespace: str) -> list[dict[str, Any]]:
    assert namespace == "default"
    sibling = make_set()
    sibling["spec"]["roles"][0] |= {"name": "a-prefill", "scaling": {"mode": "External"}}
    return [sibling]


def test_the_webhook_path_matches_upstream() -> None:
    assert VALIDATE_SET == "validate-disaggregatedset-x-k8s-io-v1-disaggregatedset"
    (resource,) = ENDPOINTS.values()
    assert (resource.group, resource.plural) == ("disaggregatedset.x-k8s.io", "disaggregatedsets")


async def test_a_valid_set_is_admitted(review: Review) -> None:
    response = await review(make_set())
    assert response["allowed"] is True
    assert "patch" not in response


async def test_one_message_lists_all_errors(review: Review) -> None:
    bad = make_set(placementPolicy={"type": "ExclusiveSlice"})
    bad["spec"]["roles"][0]["startAfter"] = ["nobody"]
    response = await review(bad)
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert response["status"]["message"] == (
        "[spec.placementPolicy.topology: Required value: topology is required when type is not None, "
        'spec.roles[0].startAfter[0]: Unsupported value: "nobody": supported values: "prefill", "decode"]'
    )
    assert (await review(bad, bad))["allowed"] is True


async def test_conflicts_with_other_sets_are_reported(review: Review) -> None:
    of_both = make_set()
    of_both["metadata"]["name"] = "llm-a"
    of_both["spec"]["roles"][0]["scaling"] = {"mode": "External"}
    response = await review(of_both)
    assert response["status"]["message"] == (
        'spec.roles[0].name: Invalid value: "prefill": would need the DisaggregatedSetRoleScaler '
        "llm-a-prefill, which DisaggregatedSet llm has: choose another name"
    )


async def test_warnings_are_returned(review: Review) -> None:
    unwise = make_set(slices=2)
    unwise["spec"]["roles"][0]["scaling"] = {"mode": "External"}
    response = await review(unwise)
    assert response["allowed"] is True
    assert [warning[:41] for warning in response["warnings"]] == ["spec.slices: 2 with scaling.mode External"]


async def test_a_deletion_is_always_admitted(review: Review) -> None:
    response = await review(None, make_set(placementPolicy={"type": "ExclusiveSlice"}), "DELETE")
    assert response["allowed"] is True
