"""Parse an answer of the API server into a JSON object, or raise the `ClusterError` that it stands for."""

from __future__ import annotations

import json
import re
from typing import Any

import aiohttp
import orjson

from lws.runtime.errors import ApiError, Unreachable, api_error

_DEEPEST = 100
"""Objects and lists within each other: an object of Kubernetes in a list has a third of that."""
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]')


def decoded(raw: bytes, what: str) -> dict[str, Any]:
    """The JSON object of a successful answer; what: the request, for the message.

    Raises Unreachable for anything else: then something on the way has answered, not the API server.
    """
    payload = _json(raw)
    if not isinstance(payload, dict):
        raise Unreachable(f"{what}: the answer is not a JSON object: {_start_of(raw)}")
    return payload


async def raise_for(response: aiohttp.ClientResponse) -> None:
    """Raises the exception that an answer with an error status stands for."""
    if response.status >= 400:
        raise error_of(response.status, await response.read(), response.headers.get("Retry-After"))


def error_of(status: int, raw: bytes, retry_after: str | None) -> ApiError:
    """The exception for an answer with an error status; retry_after: the header of that name."""
    body = _json(raw)
    fallback = _start_of(raw) or f"HTTP {status}"
    return api_error(status, body if isinstance(body, dict) else None, fallback, retry_after)


def _json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _raw_json(raw)


def _raw_json(raw: bytes) -> Any:
    """Of the data of ControllerRevisions the API server checks no more than its syntax. One that holds half a
    character, or a thousand lists within each other, must not make its whole collection unreadable.
    """
    try:
        return json.loads(_shallow(raw))
    except (ValueError, RecursionError):
        return None


def _shallow(raw: bytes) -> bytes:
    """The same JSON, with null in the place of what is deeper than anything that is read."""
    kept: list[bytes] = []
    depth, start = 0, 0
    for token in _TOKENS.finditer(raw):
        if token[0] in (b"{", b"["):
            depth += 1
            if depth == _DEEPEST + 1:
                kept += (raw[start : token.start()], b"null")
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if depth == _DEEPEST:
                start = token.end()
    return b"".join((*kept, raw[start:]))


def _start_of(raw: bytes) -> str:
    return re.sub(rb"\s+", b" ", raw[:200]).decode(errors="replace")
