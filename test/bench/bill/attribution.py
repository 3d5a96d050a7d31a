"""Attribute the API server's requests and CPU time to the purposes that they serve, for each group.

The requests are counted by sender and kind; the CPU profile is given in blocks. CPU time is divided as
follows:

- what handles a verb, evenly among the requests of that verb;
- calls of webhooks, evenly among the pods that were created;
- notifying watchers, evenly among writes;
- reading, checking and logging requests, evenly among all of them;
- all the rest (garbage collection, scheduling, the connection to etcd), in proportion to what these have come
  to, as it serves them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from test.bench.audit import is_write
from test.bench.bill.blocks import OVERHEAD, REVIEWS, VERBS, WATCHES
from test.bench.bill.requests import OURS

Request = Sequence[Any]
"""Who, what, how often, seconds of waiting."""

PODS, NAMES, FOREGROUND = (
    "pods and StatefulSets",
    "names: the Service",
    "old workers go first",
)
REVIEWED, DECIDED, EVENTS, ELSE = "reviews of pods", "what the manager writes", "Events", "everything else"
PURPOSES = (PODS, NAMES, FOREGROUND, REVIEWED, DECIDED, EVENTS, ELSE)

_NAMING = frozenset({"endpoint-controller", "endpointslice-controller", "endpointslicemirroring-controller"})
_RUNNING = frozenset({"statefulset-controller", "kube-scheduler", "kwok"})
_COLLECTOR = "generic-garbage-collector"
_BENCH = "admin"


@dataclass(frozen=True)
class Cost:
    """Of one purpose, for each group. requests: Events and reviews too. cpu: ms of the API server."""

    requests: float
    cpu: float


def costs(bill: Mapping[str, Any], groups: int, has_reviews: bool) -> dict[str, Cost]:
    """Purpose → its cost. The CPU of all purposes together is that of the API server."""
    counted: dict[str, float] = dict.fromkeys(PURPOSES, 0.0)
    weighed: dict[str, float] = dict.fromkeys(PURPOSES, 0.0)
    weights = _weights(bill)
    for who, what, count, _ in bill["requests"]:
        purpose = purpose_of(who, what)
        counted[purpose] += count
        weighed[purpose] += count * weights(what)
    if has_reviews:
        counted[REVIEWED] = sum(count for _, what, count, _ in bill["requests"] if what == "create pods")
        weighed[REVIEWED] = bill["profile"].get(REVIEWS, 0.0)
    total = sum(weighed.values())
    scale = bill["cpu"]["kube-apiserver"] / total if total else 0.0
    return {
        purpose: Cost(counted[purpose] / groups, 1000 * weighed[purpose] * scale / groups)
        for purpose in PURPOSES
    }


def purpose_of(who: str, what: str) -> str:
    """Why a request is sent."""
    resource = what.partition(" ")[2]
    if resource == "events":
        return EVENTS
    if who in _NAMING:
        return NAMES
    if who == _COLLECTOR:
        return FOREGROUND
    if who == OURS:
        return ELSE if resource == "leases" or not is_write(what) else DECIDED
    # Without a controller the bench makes the same StatefulSets, and deletes the same pods.
    if who in _RUNNING and "leases" not in resource:
        return PODS
    return DECIDED if who == _BENCH and is_write(what) else ELSE


def _weights(bill: Mapping[str, Any]) -> Callable[[str], float]:
    """What one request costs by the profile alone, by what it is."""
    handled: Counter[str] = Counter()
    writes = 0.0
    for _, what, count, _ in bill["requests"]:
        handled[what.partition(" ")[0]] += count
        writes += count if is_write(what) else 0
    told = bill["profile"].get(WATCHES, 0.0) / writes if writes else 0.0
    each = bill["profile"].get(OVERHEAD, 0.0) / sum(handled.values()) if handled else 0.0

    def weight(what: str) -> float:
        verb = what.partition(" ")[0]
        own = bill["profile"].get(verb, 0.0) / handled[verb] if verb in VERBS else 0.0
        return each + own + (told if is_write(what) else 0.0)

    return weight
