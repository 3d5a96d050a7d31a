"""Count a controller's requests in the audit log, and measure its delay before it creates workers.

The audit log is at level Metadata and is read between two offsets. The delay runs from the creation of a
leader pod to the request that creates its workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

WRITING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
STATEFULSET_CONTROLLER = "system:serviceaccount:kube-system:statefulset-controller"
_EVENTS = "events"
# The Lease is written in any case, reviews are queries, and the last two result from our own scrapes.
_APART = (_EVENTS, "leases", "tokenreviews", "subjectaccessreviews")


@dataclass(frozen=True)
class RequestCounts:
    """The requests of one user.

    requests: the count of each "verb kind/subresource". waits: seconds, sorted. refused: responses with a
    status of 400 or above.
    """

    requests: dict[str, int]
    waits: list[float]
    refused: dict[str, int]

    @property
    def events(self) -> int:
        """Return the number of Events written."""
        return sum(
            count for request, count in self.requests.items() if is_write(request) and _EVENTS in request
        )

    @property
    def writes(self) -> int:
        """Return the number of writes, without Events, the Lease and reviews."""
        return sum(
            count
            for request, count in self.requests.items()
            if is_write(request) and not request.endswith(_APART)
        )

    @property
    def lists(self) -> int:
        """Return the number of lists."""
        return sum(count for request, count in self.requests.items() if request.startswith("list "))


class AuditLog:
    """The audit log of one cluster, and the user whose requests count."""

    def __init__(self, path: Path, user: str) -> None:
        self._path = path
        self._user = user

    @property
    def end(self) -> int:
        """Return the current size of the log in bytes."""
        return self._path.stat().st_size

    def between(self, start: int, end: int | None = None) -> RequestCounts:
        """Return the requests between two offsets of the log."""
        requests: Counter[str] = Counter()
        refused: Counter[str] = Counter()
        pods: dict[str, float] = {}
        waits: list[float] = []
        for entry in self.entries(start, end, self._user, STATEFULSET_CONTROLLER):
            user, request = entry["user"]["username"], request_of(entry)
            code = (entry.get("responseStatus") or {}).get("code", 0)
            if user == self._user:
                requests[request] += 1
                if code >= 400:
                    refused[f"{request} {code}"] += 1
            target = entry.get("objectRef") or {}
            if user == STATEFULSET_CONTROLLER and request == "create pods" and code < 300:
                pods[target.get("name", "")] = seconds_of(entry["stageTimestamp"])
            elif user == self._user and request == "create statefulsets" and target.get("name") in pods:
                asked_at = seconds_of(entry["requestReceivedTimestamp"])
                waits.append(max(0.0, asked_at - pods.pop(target["name"])))
        return RequestCounts(dict(sorted(requests.items())), sorted(waits), dict(sorted(refused.items())))

    def entries(self, start: int, end: int | None, *words: str) -> list[dict[str, Any]]:
        """Return the entries between two offsets of the log that contain one of these words."""
        with self._path.open("rb") as log:
            log.seek(start)
            data = log.read() if end is None else log.read(end - start)
        needles = [word.encode() for word in words]
        # The last line may be incomplete.
        lines = data[: data.rfind(b"\n") + 1].splitlines()
        return [orjson.loads(line) for line in lines if any(word in line for word in needles)]


def request_of(entry: Mapping[str, Any]) -> str:
    """Return verb, resource and subresource, as in `RequestCounts.requests`. A dry run is not a write."""
    target = entry.get("objectRef") or {}
    if "dryRun=All" in entry["requestURI"]:
        return f"rehearse {entry['verb']} {target.get('resource', '')}"
    parts = (target.get("resource", entry["requestURI"].partition("?")[0]), target.get("subresource", ""))
    return f"{entry['verb']} {'/'.join(filter(None, parts))}"


def is_write(request: str) -> bool:
    """Report whether this is a write, Events included."""
    return request.partition(" ")[0] in WRITING


def seconds_of(stamp: str) -> float:
    """Return a timestamp as seconds since the epoch."""
    return datetime.fromisoformat(stamp).timestamp()
