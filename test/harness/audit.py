"""Read the manager's requests to the API server from the audit log, which records every request.

The log is written by a local cluster, at level Metadata.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANAGER = "system:serviceaccount:lws-system:lws-controller-manager"
WRITING = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class Request:
    """One request and its response.

    group: the API group of the resource; empty for core.
    resource: the resource with its subresource.
    """

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int
    message: str
    agent: str

    @property
    def is_write(self) -> bool:
        return self.verb in WRITING

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.verb} {self.resource} {where} → {self.code} {self.message}".rstrip()


class AuditLog:
    """The audit log of one cluster, read from a mark on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = 0

    def mark(self) -> None:
        """Ignore all entries so far."""
        self._mark = self._path.stat().st_size

    def requests(self, user: str = MANAGER, agent: str = "") -> list[Request]:
        """Return the requests of a user since the mark, by programs whose User-Agent begins with `agent`."""
        with self._path.open("rb") as log:
            log.seek(self._mark)
            lines = log.read().splitlines(keepends=True)
        # The last line may be incomplete.
        entries = (json.loads(line) for line in lines if line.endswith(b"\n"))
        of_user = (_request(entry) for entry in entries if entry["user"]["username"] == user)
        return [request for request in of_user if request.agent.startswith(agent)]


def _request(entry: dict[str, Any]) -> Request:
    target, answer = entry.get("objectRef") or {}, entry.get("responseStatus") or {}
    parts = (target.get("resource", entry["requestURI"]), target.get("subresource", ""))
    return Request(
        verb=entry["verb"],
        group=target.get("apiGroup", ""),
        resource="/".join(filter(None, parts)),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=answer.get("code", 0),
        message=answer.get("message", ""),
        agent=entry.get("userAgent", ""),
    )
