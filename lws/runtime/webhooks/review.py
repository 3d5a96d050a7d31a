"""Translate admission reviews (admission.k8s.io/v1) for kopf, and kopf's answers for the API server.

In: the body of a request; kopf's response, or an error instead. Out: a checked and trimmed review; the bytes
of the answer.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from lws.runtime.client.resources import Resource

_API_VERSION = "admission.k8s.io/v1"
_KIND = "AdmissionReview"
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_REASONS = {403: "Forbidden", 500: "InternalError"}
# kopf records the UID of every UPDATE until its watch reports the object deleted: never, for kinds that it
# does not watch. Without a UID it records nothing. Managed fields are half of many objects; no rule reads
# them.
_NOT_FOR_KOPF = frozenset({"uid", "managedFields"})


class Answer(NamedTuple):
    """The answer to a review. code: 200 if admitted, else the code of the rejection."""

    body: bytes
    code: int

    @property
    def decision(self) -> str:
        """`allowed`, `denied`, or `failed` if a bug prevented a decision."""
        return "allowed" if self.code == 200 else "failed" if self.code == 500 else "denied"


class BadReview(Exception):
    """The request is no review that this endpoint can answer; the message is one line."""


class MisdirectedReview(BadReview):
    """It is a review nevertheless, so a client's write fails."""


def review_in(body: bytes, resource: Resource) -> dict[str, Any]:
    """Parse, check and trim the review in the body of a request.

    resource: the resource that the endpoint reviews. Raises BadReview.
    """
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"the body is not JSON: {error}") from error
    if not isinstance(review, dict):
        raise BadReview("the body is not a JSON object")
    if review.get("apiVersion") != _API_VERSION or review.get("kind") != _KIND:
        actual = f"{_text(review.get('apiVersion'))} {_text(review.get('kind'))}"
        raise BadReview(f"the body must be an {_API_VERSION} {_KIND}, not {actual}")
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
    """Add a JSON Patch to kopf's response; rejections get the reason that clients check."""
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
    """An answer that rejects the object, with an HTTP-like code and a message for the user."""
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
        actual = _text(request.get("resource"))
        raise MisdirectedReview(
            f"this endpoint reviews {resource.plural} of {resource.api_version}, not {actual}"
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
    """JSON of a value on one line, shortened."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
