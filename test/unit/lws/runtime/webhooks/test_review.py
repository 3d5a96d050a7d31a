"""Which requests count as reviews, what kopf receives of them, and what is returned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lws.runtime.client.resources import LEADERWORKERSETS, PODS
from lws.runtime.webhooks.server import BadReview, answer, refusal, review_in

POD_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}


def review(**request: Any) -> dict[str, Any]:
    """Return a valid review of a pod with the given changes; None removes a field."""
    content = {
        "uid": "review-1",
        "resource": POD_RESOURCE,
        "operation": "CREATE",
        "namespace": "default",
        "userInfo": {"username": "somebody"},
        "object": {"metadata": {"name": "set-0"}},
        "oldObject": None,
        **request,
    }
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {key: value for key, value in content.items() if value is not None},
    }


def read(content: Any) -> dict[str, Any]:
    return review_in(json.dumps(content).encode(), PODS)["request"]


def test_a_valid_review_is_passed_on() -> None:
    request = read(review(dryRun=True, operation="UPDATE", oldObject={"metadata": {"name": "old"}}))
    assert request["uid"] == "review-1"
    assert request["dryRun"] is True
    assert request["userInfo"] == {"username": "somebody"}
    assert request["oldObject"]["metadata"]["name"] == "old"


def test_named_groups_are_recognised() -> None:
    resource = {"group": "leaderworkerset.x-k8s.io", "version": "v1", "resource": "leaderworkersets"}
    body = json.dumps(review(resource=resource)).encode()
    assert review_in(body, LEADERWORKERSETS)["request"]["resource"] == resource


def test_kopf_gets_no_uid_to_cache() -> None:
    metadata = {"name": "a", "uid": "1", "managedFields": [{"manager": "kubectl"}], "labels": {"x": "y"}}
    request = read(
        review(object={"metadata": metadata, "spec": {"uid": "2"}}, oldObject={"metadata": metadata})
    )
    seen = {"name": "a", "labels": {"x": "y"}, "namespace": "default"}
    assert request["object"] == {"metadata": seen, "spec": {"uid": "2"}}
    assert request["oldObject"] == {"metadata": seen}


def test_namespace_of_the_object_is_kept() -> None:
    assert read(review(object={"metadata": {"namespace": "own"}}))["object"]["metadata"]["namespace"] == "own"


def test_callers_without_user_are_served() -> None:
    assert read(review(userInfo=None))["userInfo"] == {}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "the body is not JSON: "),
        (b"{", "the body is not JSON: "),
        (b"\xff\xfe{}", "the body is not JSON: "),
        (b'{"a": NaN}', "the body is not JSON: "),
        (b"[" * 100_000, "the body is not JSON: "),
        (b"null", "the body is not a JSON object"),
        (b"[]", "the body is not a JSON object"),
        (b"{}", "the body must be an admission.k8s.io/v1 AdmissionReview, not null null"),
    ],
    ids=["empty", "cut off", "not UTF-8", "NaN", "too deep", "null", "list", "empty object"],
)
def test_requests_that_are_no_reviews_are_rejected(body: bytes, complaint: str) -> None:
    with pytest.raises(BadReview) as raised:
        review_in(body, PODS)
    assert str(raised.value).startswith(complaint)
    assert "\n" not in str(raised.value)


NO_REVIEW = "the body must be an admission.k8s.io/v1 AdmissionReview, not"
NO_UID = "request.uid is missing: an answer must contain it"
NO_METADATA = "request.object must be an object with metadata"
SERVICES = {"group": "", "version": "v1", "resource": "services"}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({**review(), "apiVersion": "v1"}, f'{NO_REVIEW} "v1" "AdmissionReview"'),
        ({**review(), "kind": "Pod"}, f'{NO_REVIEW} "admission.k8s.io/v1" "Pod"'),
        ({**review(), "request": None}, "request must be an object"),
        ({**review(), "request": []}, "request must be an object"),
        (review(uid=None), NO_UID),
        (review(uid=""), NO_UID),
        (review(uid=7), NO_UID),
        (
            review(operation="PATCH"),
            'request.operation must be one of CREATE, UPDATE, DELETE, CONNECT, not "PATCH"',
        ),
        (review(resource=None), "this endpoint reviews pods of v1, not null"),
        (
            review(resource=SERVICES),
            'this endpoint reviews pods of v1, not {"group":"","version":"v1","resource":"services"}',
        ),
        (review(userInfo="somebody"), "request.userInfo must be an object"),
        (review(object=None), "request.object and request.oldObject are both missing"),
        (review(object=[]), NO_METADATA),
        (review(object={}), NO_METADATA),
        (review(object={"metadata": None}), NO_METADATA),
        (review(oldObject="x"), "request.oldObject must be an object with metadata"),
    ],
    ids=[
        "other version",
        "other kind",
        "no request",
        "request is a list",
        "no uid",
        "empty uid",
        "uid is a number",
        "operation",
        "no resource",
        "other resource",
        "user",
        "no object",
        "object is a list",
        "no metadata",
        "null metadata",
        "old object",
    ],
)
def test_reviews_that_no_webhook_could_answer_are_rejected(content: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadReview) as raised:
        review_in(json.dumps(content).encode(), PODS)
    assert str(raised.value) == complaint


def test_error_messages_are_short() -> None:
    with pytest.raises(BadReview) as raised:
        review_in(json.dumps(review(resource="x" * 100_000)).encode(), PODS)
    assert len(str(raised.value)) < 300


def test_an_allowed_response_is_unchanged() -> None:
    response = {"response": {"uid": "review-1", "allowed": True, "patch": "W10=", "patchType": "JSONPatch"}}
    assert json.loads(answer(review(), response).body) == response


@pytest.mark.parametrize(
    ("code", "reason"), [(403, "Forbidden"), (500, "InternalError"), (418, None)], ids=str
)
def test_refusals_carry_code_reason_and_message(code: int, reason: str | None) -> None:
    status = {"code": code, "message": "no: “because”"}
    if reason:
        status["reason"] = reason
    assert json.loads(refusal(review(), code, "no: “because”").body) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "review-1", "allowed": False, "status": status},
    }


def test_refusals_of_kopf_get_their_reason_and_keep_their_warnings() -> None:
    status = {"code": 403, "message": "no"}
    response = {"response": {"uid": "other", "allowed": False, "status": status, "warnings": ["careful"]}}
    payload = json.loads(answer(review(), response).body)["response"]
    assert payload == {
        "uid": "review-1",
        "allowed": False,
        "status": {"code": 403, "message": "no", "reason": "Forbidden"},
        "warnings": ["careful"],
    }


def test_a_crashed_handler_is_an_error_not_a_denial() -> None:
    response = {"response": {"allowed": False, "status": {"code": 500, "message": "'key'"}}}
    status = json.loads(answer(review(), response).body)["response"]["status"]
    assert status["reason"] == "InternalError"
    assert status["message"] == "the webhook failed, see the log of the manager: 'key'"


@pytest.mark.parametrize(
    ("response", "decision"),
    [
        pytest.param({"allowed": True}, "allowed", id="allowed"),
        pytest.param({"allowed": False, "status": {"code": 403, "message": "no"}}, "denied", id="denied"),
        pytest.param({"allowed": False, "status": {"code": 500, "message": "'key'"}}, "failed", id="failed"),
    ],
)
def test_the_decision_of_a_review(response: dict[str, Any], decision: str) -> None:
    assert answer(review(), {"response": response}).decision == decision
