"""What did the API server answer? Bytes of an answer, read as what they should be.

In: status, headers and body of one answer. Out: a JSON object, or the `ClusterError` that it stands for.
"""

from __future__ import annotations

import re
from typing import Any

import aiohttp
import orjson

from lws.cluster.errors import ApiError, Unreachable, api_error


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
        return None


def _start_of(raw: bytes) -> str:
    return re.sub(rb"\s+", b" ", raw[:200]).decode(errors="replace")
