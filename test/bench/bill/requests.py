"""Count requests to the API server, and their seconds, by client and kind, from the audit log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from test.bench.audit import is_write, seconds_of, what_of
from test.harness.audit import MANAGER

OURS = "the manager"
_ACCOUNT = "system:serviceaccount:kube-system:"
_LONG = frozenset({"watch", "connect"})


@dataclass
class Asked:
    """count: requests. seconds: from their arrival to their answers, all together."""

    count: int = 0
    seconds: float = 0.0


Requests = dict[tuple[str, str], Asked]
"""Who and what ("verb resource/subresource") → how often and how long."""


def between(path: Path, start: int, end: int) -> Requests:
    """What was logged from one place to the other."""
    with path.open("rb") as log:
        log.seek(start)
        # The last line may be half written.
        lines = log.read(end - start).rpartition(b"\n")[0].splitlines()
    return tally(map(orjson.loads, lines))


def tally(entries: Iterable[Mapping[str, Any]]) -> Requests:
    """Long-running ones are left out: what they cost is in what others write."""
    found: Requests = {}
    for entry in entries:
        if entry["verb"] in _LONG or entry.get("stage") == "ResponseStarted":
            continue
        asked = found.setdefault((who(entry["user"]["username"]), what_of(entry)), Asked())
        asked.count += 1
        asked.seconds += seconds_of(entry["stageTimestamp"]) - seconds_of(entry["requestReceivedTimestamp"])
    return found


def who(user: str) -> str:
    """In the words of the page."""
    if user == MANAGER:
        return OURS
    return user.removeprefix(_ACCOUNT).removeprefix("system:")


def writes(requests: Requests) -> int:
    """How many may have changed something that others watch."""
    return sum(asked.count for (_, what), asked in requests.items() if is_write(what))
