"""Parsing of responses: JSON objects, errors, and responses that a proxy has altered."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lws.runtime.errors import ApiError, Conflict, NotFound, Throttled, Unreachable, decoded, error_of


def test_an_object() -> None:
    assert decoded(b'{"kind":"Pod"}', "GET /a") == {"kind": "Pod"}


@pytest.mark.parametrize("raw", [b"", b"<html>\n  Sign in", b"[1]", b"null", b'{"cut', b"\xff\xfe"])
def test_a_response_that_is_not_an_object_is_an_error(raw: bytes) -> None:
    with pytest.raises(Unreachable, match=r"^GET /a: the response is not a JSON object") as caught:
        decoded(raw, "GET /a")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("status", "raw", "kind", "message"),
    [
        pytest.param(404, b'{"reason":"NotFound","message":"no"}', NotFound, "no", id="status"),
        pytest.param(409, b'{"reason":"Conflict","message":"newer"}', Conflict, "newer", id="another-status"),
        pytest.param(500, b"<h1>\n  Bad   day\n</h1>", ApiError, "<h1> Bad day </h1>", id="HTML"),
        pytest.param(502, b"", ApiError, "HTTP 502", id="empty"),
        pytest.param(500, b"x" * 5000, ApiError, "x" * 200, id="long"),
        pytest.param(500, b'["a"]', ApiError, '["a"]', id="JSON-that-is-no-status"),
        pytest.param(500, "ü".encode() * 200, ApiError, "ü" * 100, id="cut-between-characters"),
        pytest.param(500, b"\xff", ApiError, "\ufffd", id="no-text"),
    ],
)
def test_errors(status: int, raw: bytes, kind: type[ApiError], message: str) -> None:
    error = error_of(status, raw, None)
    assert (type(error), error.status, error.message) == (kind, status, message)


def test_retry_after_of_errors() -> None:
    error = error_of(503, b"starting", "7")
    assert isinstance(error, Throttled) and error.retry_after == 7.0


DEEP = b'{"a":[' * 4000 + b'"]}"' + b"]}" * 4000


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (rb'{"x":"\ud800"}', {"x": "\ud800"}),
        (b'{"x":' + b"1" * 5000 + b"}", {"x": math.inf}),
        (rb'{"x":"\ud800","y":9223372036854775807}', {"x": "\ud800", "y": 2**63 - 1}),
        (rb'{"x":"\ud800","deep":' + DEEP + rb',"y":["a\"]","\\"]}', {"x": "\ud800", "y": ['a"]', "\\"]}),
    ],
    ids=["half a character", "thousands of digits", "a number of 64 bits", "too deep too"],
)
def test_undecodable_data_does_not_hide_other_objects(data: bytes, read: dict[str, Any]) -> None:
    """The API server has been observed to return such data."""
    response = decoded(b'{"items":[{"data":' + data + b'},{"data":{"z":1}}]}', "GET /x")
    first, second = (item["data"] for item in response["items"])
    deep = first.pop("deep", {"a": []})
    assert (first, second) == (read, {"z": 1})
    levels = 0
    while deep:
        deep, levels = next(iter(deep.values() if isinstance(deep, dict) else deep)), levels + 1
    assert levels < 100
