"""What did the manager ask of the API server? Read from the audit log, which leaves nothing out.

In: the audit log of a local cluster (level Metadata). Out: requests of one user since a mark.
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
    """One request and its answer. resource: with its subresource; group: that of its API, empty for core."""

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
    """The log of one cluster, and a place in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = 0

    def mark(self) -> None:
        """Forget what came before."""
        self._mark = self._path.stat().st_size

    def requests(self, user: str = MANAGER, agent: str = "") -> list[Request]:
        """What that user has asked since the mark, by a program whose User-Agent begins like that."""
        with self._path.open("rb") as log:
            log.seek(self._mark)
            lines = log.read().splitlines(keepends=True)
        # The last line may be half written.
        entries = (json.loads(line) for line in lines if line.endswith(b"\n"))
        of_user = (_request(each) for each in entries if each["user"]["username"] == user)
        return [each for each in of_user if each.agent.startswith(agent)]


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
