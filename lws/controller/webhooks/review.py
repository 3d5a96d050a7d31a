"""Translate an admission review for kopf, and kopf's response for the API server (admission.k8s.io/v1)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from lws.cluster.client.resources import Resource

_API_VERSION = "admission.k8s.io/v1"
_KIND = "AdmissionReview"
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_REASONS = {403: "Forbidden", 500: "InternalError"}
# kopf remembers every UID of an UPDATE until its own watch sees the object go, which for kinds that it does
# not watch is never; without a UID there is nothing to remember. Managed fields are half of many objects
# and read by no rule.
_NOT_FOR_KOPF = frozenset({"uid", "managedFields"})


class Answer(NamedTuple):
    """What goes back. code: 200 where the object is admitted, else that of the refusal."""

    body: bytes
    code: int

    @property
    def decision(self) -> str:
        """`allowed`, `denied`, or `failed` where a bug kept the webhook from deciding."""
        return "allowed" if self.code == 200 else "failed" if self.code == 500 else "denied"


class BadReview(Exception):
    """The request is no review that this endpoint could answer; the text says why, in one line."""


class MisdirectedReview(BadReview):
    """It is a review all the same: somebody's write fails."""


def review_in(body: bytes, resource: Resource) -> dict[str, Any]:
    """The review in the body of a request, checked and trimmed for kopf.

    resource: what the endpoint reviews. Raises BadReview.
    """
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"the body is not JSON: {error}") from error
    if not isinstance(review, dict):
        raise BadReview("the body is not a JSON object")
    if review.get("apiVersion") != _API_VERSION or review.get("kind") != _KIND:
        found = f"{_text(review.get('apiVersion'))} {_text(review.get('kind'))}"
        raise BadReview(f"the body must be an {_API_VERSION} {_KIND}, not {found}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise BadReview("request must be an object")
    _check(request, resource)
    return {
        **review,
        "request": {
            **request,
            "userInfo": request.get("userInfo") or {},
            "object": _trimmed(request, "object"),
            "oldObject": _trimmed(request, "oldObject"),
        },
    }


def answer(
    review: Mapping[str, Any], response: Mapping[str, Any], patch: Sequence[Mapping[str, Any]] = ()
) -> Answer:
    """kopf's response with a JSON Patch; refusals get the reason by which clients know them."""
    payload = response["response"]
    status = payload.get("status")
    if status is None:
        if patch:
            encoded = b64encode(orjson.dumps(patch)).decode()
            payload = {**payload, "patch": encoded, "patchType": "JSONPatch"}
        return Answer(orjson.dumps({**response, "response": payload}), 200)
    code, message = status["code"], status["message"]
    if code == 500:
        message = f"the webhook failed, the manager's log says where: {message}"
    return refusal(review, code, message, payload.get("warnings"))


def refusal(review: Mapping[str, Any], code: int, message: str, warnings: list[str] | None = None) -> Answer:
    """A review that is not allowed, with an HTTP-like code and a message for the user."""
    status = {"code": code, "message": message}
    if code in _REASONS:
        status["reason"] = _REASONS[code]
    payload = {"uid": review["request"]["uid"], "allowed": False, "status": status}
    if warnings:
        payload["warnings"] = warnings
    body = orjson.dumps({"apiVersion": _API_VERSION, "kind": _KIND, "response": payload})
    return Answer(body, code)


def _check(request: Mapping[str, Any], resource: Resource) -> None:
    uid, operation = request.get("uid"), request.get("operation")
    if not isinstance(uid, str) or not uid:
        raise BadReview("request.uid is missing: an answer could not be told from another one")
    if operation not in _OPERATIONS:
        raise MisdirectedReview(
            f"request.operation must be one of {', '.join(_OPERATIONS)}, not {_text(operation)}"
        )
    expected = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    if request.get("resource") != expected:
        found = _text(request.get("resource"))
        raise MisdirectedReview(
            f"this endpoint reviews {resource.plural} of {resource.api_version}, not {found}"
        )
    if not isinstance(request.get("userInfo"), dict | None):
        raise MisdirectedReview("request.userInfo must be an object")
    if request.get("object") is None and request.get("oldObject") is None:
        raise MisdirectedReview("request.object and request.oldObject are both missing")


def _trimmed(request: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    obj = request.get(key)
    if obj is None:
        return None
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        raise MisdirectedReview(f"request.{key} must be an object with metadata")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _NOT_FOR_KOPF}
    if request.get("namespace"):
        metadata.setdefault("namespace", request["namespace"])
    return {**obj, "metadata": metadata}


def _text(value: object) -> str:
    """Any JSON value on one line, and not a long one."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
