"""Count the API server's requests and the seconds that they took, by client and kind, from the audit log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from test.bench.audit import is_write, request_of, seconds_of
from test.harness.audit import MANAGER

OURS = "the manager"
_ACCOUNT = "system:serviceaccount:kube-system:"
_LONG = frozenset({"watch", "connect"})


@dataclass
class Tally:
    """The requests of one kind. seconds: the sum of the times from arrival to response."""

    count: int = 0
    seconds: float = 0.0


Requests = dict[tuple[str, str], Tally]
"""For each client and "verb resource/subresource", the count and the seconds."""


def between(path: Path, start: int, end: int) -> Requests:
    """Return the requests between two offsets of the log."""
    with path.open("rb") as log:
        log.seek(start)
        # The last line may be incomplete.
        lines = log.read(end - start).rpartition(b"\n")[0].splitlines()
    return tally(map(orjson.loads, lines))


def tally(entries: Iterable[Mapping[str, Any]]) -> Requests:
    """Count requests, except long-running ones, whose cost is part of the cost of writes."""
    requests: Requests = {}
    for entry in entries:
        if entry["verb"] in _LONG or entry.get("stage") == "ResponseStarted":
            continue
        counted = requests.setdefault((who(entry["user"]["username"]), request_of(entry)), Tally())
        counted.count += 1
        counted.seconds += seconds_of(entry["stageTimestamp"]) - seconds_of(entry["requestReceivedTimestamp"])
    return requests


def who(user: str) -> str:
    """Return the name of a client on the page."""
    if user == MANAGER:
        return OURS
    return user.removeprefix(_ACCOUNT).removeprefix("system:")


def writes(requests: Requests) -> int:
    """Return the number of requests that may have changed a watched object."""
    return sum(counted.count for (_, request), counted in requests.items() if is_write(request))
