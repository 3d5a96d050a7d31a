"""Count the writes of passes over DisaggregatedSets, and measure how soon each step follows its last pod.

Writes of passes over their LeaderWorkerSets are told apart by kind and name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from test.bench.audit import AuditLog, is_write, request_of, seconds_of
from test.harness.audit import MANAGER

_OF_SET = re.compile(r"(ds-\d+)(?:[-.]|$)")
_REVISION = re.compile(r"ds-\d+-[0-9a-f]{8}-\d+")
_EVENT = re.compile(r"ds-\d+\.[0-9a-f]+")
_STEP = "patch leaderworkersets"
_POD_CHANGES = ("patch pods/status", "update pods/status", "delete pods")

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Written:
    """The writes of passes over DisaggregatedSets.

    by_set: for each set, the count of each "verb kind/subresource". waits: sorted seconds from the last
    change of a pod of a set to its next step.
    """

    by_set: Mapping[str, Mapping[str, int]]
    waits: tuple[float, ...]

    @property
    def most(self) -> dict[str, int]:
        """Return the count of each write for the set that has most of it."""
        names = sorted({request for counts in self.by_set.values() for request in counts})
        return {request: max(counts.get(request, 0) for counts in self.by_set.values()) for request in names}

    @property
    def in_all(self) -> dict[str, int]:
        """Return the count of each write over all sets."""
        total: Counter[str] = Counter()
        for counts in self.by_set.values():
            total.update(counts)
        return dict(sorted(total.items()))


def written(audit: AuditLog, start: int, end: int) -> Written:
    """Return the writes between two offsets of the log."""
    entries = audit.entries(start, end, MANAGER, '"pods"')
    return Written(_by_set(entries), tuple(sorted(_waits(entries))))


def _by_set(entries: Iterable[Entry]) -> dict[str, dict[str, int]]:
    by_set: dict[str, Counter[str]] = {}
    for entry in entries:
        if entry["user"]["username"] == MANAGER and _is_of_set(entry):
            by_set.setdefault(_set_of(entry), Counter())[request_of(entry)] += 1
    return {name: dict(sorted(counts.items())) for name, counts in sorted(by_set.items())}


def _is_of_set(entry: Entry) -> bool:
    """Report whether a pass over the DisaggregatedSet wrote it, and not a pass over its LeaderWorkerSets."""
    target = entry.get("objectRef") or {}
    kind, name, part = (target.get(key) or "" for key in ("resource", "name", "subresource"))
    if not is_write(request_of(entry)) or not _OF_SET.match(name):
        return False
    if kind == "leaderworkersets":
        return not part
    if kind == "services":
        return name.endswith("-prv")
    if kind in ("controllerrevisions", "events"):
        return bool((_REVISION if kind == "controllerrevisions" else _EVENT).fullmatch(name))
    return kind in ("disaggregatedsets", "disaggregatedsetrolescalers")


def _set_of(entry: Entry) -> str:
    match = _OF_SET.match((entry.get("objectRef") or {}).get("name") or "")
    return match[1] if match is not None else ""


def _waits(entries: Iterable[Entry]) -> Iterator[float]:
    """Yield the delay of each step after a change of pods.

    A step is all writes until the next such change.
    """
    changed: dict[str, float] = {}
    ours = ((_moment(entry), entry) for entry in entries if _set_of(entry))
    for moment, entry in sorted(ours, key=lambda item: item[0]):
        name, request = _set_of(entry), request_of(entry)
        if request in _POD_CHANGES:
            changed[name] = moment
        elif request == _STEP and entry["user"]["username"] == MANAGER and name in changed:
            yield max(0.0, moment - changed.pop(name))


def _moment(entry: Entry) -> float:
    """Return the end of a change of a pod, or the time at which a step was requested."""
    is_step = request_of(entry) == _STEP
    return seconds_of(entry["requestReceivedTimestamp" if is_step else "stageTimestamp"])
