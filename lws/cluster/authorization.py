"""May the bearer of this token read this path? Asked of the API server, and remembered for a while.

In: a bearer token and a URL path. Out: an HTTP status: 200, 401 who is it, 403 may not, 500 the API server
cannot say.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from lws.cluster.connection import Cluster
from lws.cluster.errors import ClusterError

_AUTHENTICATED_SECONDS = 60.0
_ALLOWED_SECONDS, _DENIED_SECONDS = 300.0, 30.0
_REMEMBERED = 256


class Authorizer:
    """TokenReview and SubjectAccessReview, with the times to live of kube-rbac-proxy and its successors."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._users = _Cache(clock)
        self._verdicts = _Cache(clock)

    async def status(self, token: str, path: str) -> int:
        """200, 401, 403 or 500, for a GET of `path`."""
        # RFC 6750: anything else is no bearer token, and could not even be sent as JSON.
        if not token or not token.isascii():
            return 401
        try:
            user = await self._user(token)
            if user is None:
                return 401
            return 200 if await self._is_allowed(user, path) else 403
        except ClusterError:
            return 500

    async def _user(self, token: str) -> dict[str, Any] | None:
        # A token is a secret: what is remembered is not what was sent.
        key = hashlib.sha256(token.encode()).hexdigest()
        known: dict[str, Any] | None = self._users.get(key)
        if known is None:
            known = await self._review(token)
            self._users.put(key, known, _AUTHENTICATED_SECONDS)
        return (known.get("user") or {}) if known.get("authenticated") else None

    async def _review(self, token: str) -> dict[str, Any]:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status: dict[str, Any] = (await self._cluster.create({**review, "metadata": {}})).get("status") or {}
        return status

    async def _is_allowed(self, user: dict[str, Any], path: str) -> bool:
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        # All of it: one name may come with other groups from another token.
        key = json.dumps(spec, sort_keys=True)
        known = self._verdicts.get(key)
        if known is not None:
            return bool(known)
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": spec,
        }
        allowed = bool(((await self._cluster.create(review)).get("status") or {}).get("allowed"))
        self._verdicts.put(key, allowed, _ALLOWED_SECONDS if allowed else _DENIED_SECONDS)
        return allowed


class _Cache:
    """A few answers, each for its own time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, Any]] = OrderedDict()

    def get(self, key: str) -> Any:
        until, value = self._entries.get(key, (0.0, None))
        return value if self._clock() < until else None

    def put(self, key: str, value: Any, seconds: float) -> None:
        self._entries[key] = (self._clock() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)
