"""lws.runtime.errors: the exception for each response of the API server, and its attributes."""

from __future__ import annotations

from typing import Any

import pytest

from lws import timing
from lws.runtime.errors import (
    AlreadyExists,
    ApiError,
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Throttled,
    api_error,
)


def _status(reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"kind": "Status", "reason": reason, "message": message}
    return body | ({"details": details} if details else {})


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", ApiError),
        (401, "Unauthorized", ApiError),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Throttled),
        (500, "InternalError", ApiError),
        (503, "ServiceUnavailable", Throttled),
        (504, "Timeout", ApiError),
    ],
)
def test_kind(code: int, reason: str, kind: type[ApiError]) -> None:
    error = api_error(code, _status(reason, "what happened"), "unused", None)
    assert type(error) is kind
    assert (error.status, error.reason, error.message, str(error)) == (
        code,
        reason,
        "what happened",
        "what happened",
    )


def test_every_kind_is_a_cluster_error() -> None:
    assert isinstance(api_error(500, None, "x", None), ClusterError)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="no-JSON"),
        pytest.param({}, id="empty-body"),
        pytest.param({"message": None, "reason": None, "details": None}, id="nulls"),
        pytest.param({"details": {"causes": None}}, id="no-causes"),
        pytest.param({"details": "a sentence", "code": 9}, id="JSON-of-a-proxy"),
        pytest.param({"details": ["a", "list"]}, id="JSON-of-another-proxy"),
        pytest.param({"details": {"causes": ["a"], "retryAfterSeconds": "soon"}}, id="details-of-a-proxy"),
    ],
)
def test_bodies_that_are_not_a_status(body: dict[str, Any] | None) -> None:
    error = api_error(500, body, "HTTP 500", None)
    assert (error.message, error.reason, error.causes, error.retry_after) == ("HTTP 500", "", (), None)


@pytest.mark.parametrize(
    ("header", "body", "seconds"),
    [
        pytest.param("7", None, 7.0, id="header"),
        pytest.param("0", None, 0.0, id="zero"),
        pytest.param("1.5", None, 1.5, id="fraction"),
        pytest.param(None, None, None, id="none"),
        pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", None, None, id="date"),
        pytest.param("-3", None, None, id="negative"),
        pytest.param("nan", None, None, id="not-a-number"),
        pytest.param("inf", None, None, id="for-ever"),
        pytest.param(None, _status(retryAfterSeconds=4), 4.0, id="only-in-the-status"),
        pytest.param("7", _status(retryAfterSeconds=4), 7.0, id="the-header-counts"),
        pytest.param("86400", None, timing.LONGEST_RETRY_AFTER_SECONDS, id="a-day"),
        pytest.param(None, _status(retryAfterSeconds=86400), timing.LONGEST_RETRY_AFTER_SECONDS, id="date"),
    ],
)
def test_retry_after(header: str | None, body: dict[str, Any] | None, seconds: float | None) -> None:
    assert api_error(429, body, "slow down", header).retry_after == seconds


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ([{"reason": "NamespaceTerminating", "field": "metadata.namespace"}], True),
        ([{"reason": "FieldValueInvalid"}, {"reason": "NamespaceTerminating"}], True),
        ([{"reason": "FieldValueInvalid"}], False),
        ([{"message": "no reason"}], False),
        ([], False),
    ],
)
def test_terminating_namespaces(causes: list[dict[str, str]], expected: bool) -> None:
    error = api_error(403, _status("Forbidden", "no", causes=causes), "no", None)
    assert error.is_namespace_terminating is expected


@pytest.mark.parametrize(("kind", "expected"), [("namespaces", True), ("statefulsets", False), (None, False)])
def test_a_deleted_namespace(kind: str | None, expected: bool) -> None:
    error = api_error(404, _status("NotFound", "no", name="x", kind=kind), "no", None)
    assert error.is_namespace_terminating is expected
