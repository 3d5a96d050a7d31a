"""Attribute the API server's requests and CPU time to the purposes that they serve, for each group.

The input is the number of requests by sender and kind, and the CPU profile by blocks. CPU time is divided as
follows:

- handling of a verb: evenly among the requests of that verb;
- webhook calls: evenly among the pods that were created;
- notification of watchers: evenly among writes;
- reading, checking and logging of requests: evenly among all requests;
- the rest (garbage collection, scheduling, the connection to etcd): in proportion to the sums of the parts
  above, because it serves all of them.
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
"""Client, verb and kind, count, seconds of waiting."""

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
    """The cost of one purpose for each group.

    requests: Events and reviews included. cpu: milliseconds of the API server.
    """

    requests: float
    cpu: float


def costs(bill: Mapping[str, Any], groups: int, has_reviews: bool) -> dict[str, Cost]:
    """Return the cost of each purpose. The CPU times sum to the CPU time of the API server."""
    counted: dict[str, float] = dict.fromkeys(PURPOSES, 0.0)
    weighed: dict[str, float] = dict.fromkeys(PURPOSES, 0.0)
    weights = _weights(bill)
    for who, request, count, _ in bill["requests"]:
        purpose = purpose_of(who, request)
        counted[purpose] += count
        weighed[purpose] += count * weights(request)
    if has_reviews:
        counted[REVIEWED] = sum(
            count for _, request, count, _ in bill["requests"] if request == "create pods"
        )
        weighed[REVIEWED] = bill["profile"].get(REVIEWS, 0.0)
    total = sum(weighed.values())
    scale = bill["cpu"]["kube-apiserver"] / total if total else 0.0
    return {
        purpose: Cost(counted[purpose] / groups, 1000 * weighed[purpose] * scale / groups)
        for purpose in PURPOSES
    }


def purpose_of(who: str, request: str) -> str:
    """Return the purpose of a request."""
    resource = request.partition(" ")[2]
    if resource == "events":
        return EVENTS
    if who in _NAMING:
        return NAMES
    if who == _COLLECTOR:
        return FOREGROUND
    if who == OURS:
        return ELSE if resource == "leases" or not is_write(request) else DECIDED
    # Without a controller, the benchmark itself creates these StatefulSets and deletes these pods.
    if who in _RUNNING and "leases" not in resource:
        return PODS
    return DECIDED if who == _BENCH and is_write(request) else ELSE


def _weights(bill: Mapping[str, Any]) -> Callable[[str], float]:
    """Return a function from the verb and kind of a request to its cost in the profile."""
    handled: Counter[str] = Counter()
    writes = 0.0
    for _, request, count, _ in bill["requests"]:
        handled[request.partition(" ")[0]] += count
        writes += count if is_write(request) else 0
    per_watch = bill["profile"].get(WATCHES, 0.0) / writes if writes else 0.0
    overhead = bill["profile"].get(OVERHEAD, 0.0) / sum(handled.values()) if handled else 0.0

    def weight(request: str) -> float:
        verb = request.partition(" ")[0]
        own = bill["profile"].get(verb, 0.0) / handled[verb] if verb in VERBS else 0.0
        return overhead + own + (per_watch if is_write(request) else 0.0)

    return weight
