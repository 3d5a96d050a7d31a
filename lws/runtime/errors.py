"""Responses of the API server: JSON objects, and errors (`ClusterError`; `ApiError` if it has responded)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from lws import timing
from lws.kube.conditions import ADMISSION_WORDS


class ClusterError(Exception):
    """A request to the API server failed.

    message: the server's own sentence, if it sent one. retry_after: the seconds until the next attempt that
    the response requests, if any.
    """

    retry_after: float | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Unreachable(ClusterError):
    """The API server did not respond: no connection, no credentials, a timeout, or a response of a proxy."""


class NotLeading(ClusterError):
    """The Lease of this process is not fresh, so nothing was sent. Another manager may be acting."""


class Overtaken(ClusterError):
    """Another client changed the object first, so nothing was written. The next pass plans again."""


class ApiError(ClusterError):
    """The API server responded with an error status."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        self.causes: tuple[str, ...] = ()
        self.about = ""

    @property
    def is_namespace_terminating(self) -> bool:
        """Whether the namespace is terminating or gone: nothing can be created, and nothing is reported."""
        return "NamespaceTerminating" in self.causes or (self.status == 404 and self.about == "namespaces")

    @property
    def is_kind_unknown_yet(self) -> bool:
        """Whether the owner's CRD was created a moment ago and admission does not know it yet.

        The plugin OwnerReferencesPermissionEnforcement retries discovery every 30 seconds.
        """
        return self.status == 403 and "cannot find RESTMapping" in self.message

    @property
    def is_refusal(self) -> bool:
        """Whether the server rejects the request until something changes, so that users must know about it.

        Errors that a later pass resolves are excluded: a deleted object, a taken name, a concurrent change, a
        failing server. A webhook may reject with any status, so its rejections are found by their message.
        """
        if self.is_namespace_terminating or self.is_kind_unknown_yet:
            return False
        if any(words in self.message for words in ADMISSION_WORDS):
            return True
        return self.status not in (404, 409, 429) and self.status < 500


class NotFound(ApiError):
    """404: the object or its namespace does not exist."""


class AlreadyExists(ApiError):
    """409 on a create: the name is taken."""


class Conflict(ApiError):
    """409: another client was faster, the UID differs, or a field belongs to another manager."""


class Gone(ApiError):
    """410: the resourceVersion is too old to watch from; relist."""


class Forbidden(ApiError):
    """403: RBAC, admission or quota."""


class Invalid(ApiError):
    """422: the object is not valid, or a test of a JSON patch failed."""


class Throttled(ApiError):
    """429 or 503: retry after `retry_after` seconds. The number is capped."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
    503: Throttled,
}


def api_error(
    status: int, body: Mapping[str, Any] | None, fallback: str, retry_after: str | None
) -> ApiError:
    """Return the exception for an HTTP error response.

    body: the decoded `v1 Status`; None if the body was something else. fallback: the message if the body has
    none. retry_after: the Retry-After header. Without it, the Status may contain a delay.
    """
    body = body or {}
    details = body.get("details")
    # A proxy may respond with any other JSON.
    details = details if isinstance(details, Mapping) else {}
    reason = str(body.get("reason") or "")
    message = str(body.get("message") or fallback)
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, ApiError)
    seconds = _seconds(retry_after if retry_after is not None else details.get("retryAfterSeconds"))
    error = kind(status, reason, message, seconds)
    causes = details.get("causes") or ()
    error.causes = tuple(str(cause.get("reason", "")) for cause in causes if isinstance(cause, Mapping))
    error.about = str(details.get("kind") or "")
    return error


def _seconds(retry_after: object) -> float | None:
    """Parse seconds, capped because a proxy may send them; None for anything else: HTTP allows a date."""
    try:
        seconds = float(str(retry_after))
    except ValueError:
        return None
    return min(seconds, timing.LONGEST_RETRY_AFTER_SECONDS) if 0 <= seconds < math.inf else None


# --- Parse a response into a JSON object or an error.


_DEEPEST = 100
"""Maximum depth of JSON. A list of Kubernetes objects has a third of it."""
_MOST_DIGITS = len(str(-(2**63)))
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]')


def decoded(raw: bytes, request: str) -> dict[str, Any]:
    """Return the JSON object in a successful response to `request`.

    Raises Unreachable for anything else: a proxy has responded and not the API server.
    """
    payload = _json(raw)
    if not isinstance(payload, dict):
        raise Unreachable(f"{request}: the response is not a JSON object: {_start_of(raw)}")
    return payload


def error_of(status: int, raw: bytes, retry_after: str | None) -> ApiError:
    """Return the exception for a response with an error status. retry_after: the Retry-After header."""
    body = _json(raw)
    fallback = _start_of(raw) or f"HTTP {status}"
    return api_error(status, body if isinstance(body, dict) else None, fallback, retry_after)


def _json(raw: bytes) -> Any:
    """Decode JSON tolerantly; return None if that fails.

    The API server checks only the syntax of a ControllerRevision's data. An invalid character, a thousand
    nested lists, or thousands of digits must not make the whole collection unreadable.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        with suppress(ValueError, RecursionError):
            return json.loads(_shallow(raw), parse_int=_integer)
    return None


def _integer(digits: str) -> int | float:
    """Return a float for an integer beyond 64 bits, as orjson does. Python reads no integer of thousands of
    digits.
    """
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _shallow(raw: bytes) -> bytes:
    """Return the same JSON, with null for everything that is nested too deeply."""
    parts: list[bytes] = []
    depth, start = 0, 0
    for token in _TOKENS.finditer(raw):
        if token[0] in (b"{", b"["):
            depth += 1
            if depth == _DEEPEST + 1:
                parts += (raw[start : token.start()], b"null")
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if depth == _DEEPEST:
                start = token.end()
    return b"".join((*parts, raw[start:]))


def _start_of(raw: bytes) -> str:
    return re.sub(rb"\s+", b" ", raw[:200]).decode(errors="replace")
