"""Ask the API server whether the bearer of a token may read a path, and cache the answer.

The answer is an HTTP status: 200 if allowed, 401 for an unknown token, 403 if forbidden, 429 after too many
unknown tokens, 500 if the API server cannot answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

from cachetools import FIFOCache

from lws import timing
from lws.runtime.client.connection import Cluster, RateLimit
from lws.runtime.errors import ClusterError

_CACHED = 256
# Limits for reviews of unknown tokens. Tokens of scrapers are known and do not count.
_UNKNOWN_PER_SECOND, _UNKNOWN_AT_ONCE = 5.0, 10


class Authorizer:
    """Authorizes by TokenReview and SubjectAccessReview. Results are cached as long as by kube-rbac-proxy.

    Any client of the port may send any number of tokens. So unknown tokens share a small rate limit of
    reviews, do not evict cached users, and do not wait for each other.
    """

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        # Not under the rate limit of writes: bursts of writes and of scrapes must not delay each other.
        self._cluster = cluster.paced(None)
        self._users = _Cache(clock)
        self._unknown = _Cache(clock)
        self._verdicts = _Cache(clock)
        self._running: dict[tuple[str, str], asyncio.Task[int]] = {}
        self._of_unknown = RateLimit(_UNKNOWN_PER_SECOND, _UNKNOWN_AT_ONCE, clock)

    async def status(self, token: str, path: str) -> int:
        """Return 200, 401, 403, 429 or 500 for a GET of `path`."""
        # RFC 6750: anything else is not a bearer token, and could not even be sent as JSON.
        if not token or not token.isascii():
            return 401
        # A token is a secret: only its hash is kept.
        key = hashlib.sha256(token.encode()).hexdigest()
        cached = self._cached_status(key, path)
        if cached is not None:
            return cached
        running = self._running.get((key, path))
        if running is None:
            is_busy = len(self._running) >= _UNKNOWN_AT_ONCE
            if not self._users.has_seen(key) and (is_busy or not self._of_unknown.try_acquire()):
                return 429
            running = asyncio.get_running_loop().create_task(self._authorize(key, token, path))
            self._running[key, path] = running
            running.add_done_callback(lambda _: self._running.pop((key, path)))
        # A client that disconnects must not cancel the review for others that wait for it.
        return await asyncio.shield(running)

    def _cached_status(self, key: str, path: str) -> int | None:
        if self._unknown.get(key) is not None:
            return 401
        user = self._users.get(key)
        is_allowed = None if user is None else self._verdicts.get(_review_spec(user, path))
        return None if is_allowed is None else 200 if is_allowed else 403

    async def _authorize(self, key: str, token: str, path: str) -> int:
        try:
            user = self._users.get(key)
            if user is None:
                user = await self._review(key, token)
            return 401 if user is None else 200 if await self._is_allowed(user, path) else 403
        except ClusterError:
            return 500

    async def _review(self, key: str, token: str) -> dict[str, Any] | None:
        """Return the user of a token; None if the token is not valid."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._cluster.create({**review, "metadata": {}})).get("status") or {}
        if not status.get("authenticated"):
            self._users.drop(key)
            self._unknown.put(key, True, timing.AUTHENTICATED_SECONDS)
            return None
        user: dict[str, Any] = status.get("user") or {}
        self._users.put(key, user, timing.AUTHENTICATED_SECONDS)
        return user

    async def _is_allowed(self, user: dict[str, Any], path: str) -> bool:
        spec = _review_spec(user, path)
        cached = self._verdicts.get(spec)
        if cached is not None:
            return bool(cached)
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": json.loads(spec),
        }
        allowed = bool(((await self._cluster.create(review)).get("status") or {}).get("allowed"))
        self._verdicts.put(spec, allowed, timing.ALLOWED_SECONDS if allowed else timing.DENIED_SECONDS)
        return allowed


def _review_spec(user: dict[str, Any], path: str) -> str:
    """Return the spec of a SubjectAccessReview, as JSON.

    It contains the whole user, because tokens of one user name may have different groups.
    """
    spec = {
        "user": user.get("username", ""),
        "uid": user.get("uid", ""),
        "groups": user.get("groups") or [],
        "extra": user.get("extra") or {},
        "nonResourceAttributes": {"path": path, "verb": "get"},
    }
    return json.dumps(spec, sort_keys=True)


class _Cache:
    """A limited number of results, each with its own time to live. The oldest are evicted first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries = FIFOCache[str, tuple[float, Any]](_CACHED)

    def get(self, key: str) -> Any:
        until, value = self._entries.get(key, (0.0, None))
        return value if self._clock() < until else None

    def has_seen(self, key: str) -> bool:
        """Return whether there is a result for this key, even an expired one."""
        return key in self._entries

    def put(self, key: str, value: Any, seconds: float) -> None:
        self._entries[key] = (self._clock() + seconds, value)

    def drop(self, key: str) -> None:
        self._entries.pop(key, None)
