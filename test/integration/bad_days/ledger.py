"""Read the writes of each manager from the audit log, told apart by the token of the request.

The log is the one of a local cluster, at level Metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from test.harness.audit import WRITING

_CREDENTIAL = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True)
class Write:
    """One request that changes an object, and the time at which the API server received it."""

    at: datetime
    verb: str
    resource: str
    namespace: str
    name: str
    code: int


class Ledger:
    """The audit log from the creation of this object on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = path.stat().st_size

    def writes_of(self, credential: str) -> list[Write]:
        """Return the writes of the bearer of a token, without reviews of tokens and access."""
        return [_write(entry) for entry in self._entries() if _is_write(entry, credential)]

    def _entries(self) -> Iterator[dict[str, Any]]:
        with self._path.open("rb") as log:
            log.seek(self._began)
            for line in log.read().splitlines(keepends=True):
                # The last line may be incomplete.
                if line.endswith(b"\n"):
                    yield json.loads(line)


def _is_write(entry: dict[str, Any], credential: str) -> bool:
    carried = (entry["user"].get("extra") or {}).get(_CREDENTIAL) or ()
    return credential in carried and entry["verb"] in WRITING


def _write(entry: dict[str, Any]) -> Write:
    target = entry.get("objectRef") or {}
    parts = (target.get("resource", entry["requestURI"]), target.get("subresource", ""))
    return Write(
        at=datetime.fromisoformat(entry["requestReceivedTimestamp"]),
        verb=entry["verb"],
        resource="/".join(filter(None, parts)),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=(entry.get("responseStatus") or {}).get("code", 0),
    )
