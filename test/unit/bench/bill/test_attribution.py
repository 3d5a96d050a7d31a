"""test.bench.bill.attribution: how the cost of the API server is divided among purposes."""

from __future__ import annotations

from typing import Any

import pytest

from test.bench.bill.attribution import (
    DECIDED,
    ELSE,
    EVENTS,
    FOREGROUND,
    NAMES,
    PODS,
    PURPOSES,
    REVIEWED,
    costs,
    purpose_of,
)
from test.bench.bill.blocks import OVERHEAD, REST, REVIEWS, WATCHES
from test.bench.bill.requests import OURS, tally


@pytest.mark.parametrize(
    ("who", "action", "purpose"),
    [
        ("statefulset-controller", "create pods", PODS),
        ("kwok", "patch pods/status", PODS),
        ("kwok", "update leases", ELSE),
        ("kube-scheduler", "create events", EVENTS),
        ("endpointslice-controller", "update endpointslices", NAMES),
        ("generic-garbage-collector", "get pods", FOREGROUND),
        (OURS, "delete pods", DECIDED),
        (OURS, "rehearse patch statefulsets", ELSE),
        (OURS, "update leases", ELSE),
        ("admin", "create statefulsets", DECIDED),
        ("admin", "get pods", ELSE),
        ("node-controller", "get nodes", ELSE),
    ],
)
def test_purposes_of_requests(who: str, action: str, purpose: str) -> None:
    assert purpose_of(who, action) == purpose


def a_bill(**profile: float) -> dict[str, Any]:
    """Return a bill of two groups: four pods created and updated, two reads by the garbage collector."""
    return {
        "cpu": {"kube-apiserver": 6.0},
        "requests": [
            ["statefulset-controller", "create pods", 4, 0.1],
            ["kwok", "update pods/status", 4, 0.1],
            ["generic-garbage-collector", "get pods", 2, 0.1],
        ],
        "profile": profile,
    }


def test_costs_include_verbs_reviews_and_watch_events() -> None:
    profile = {"create": 0.4, "update": 0.4, "get": 0.2, REVIEWS: 0.2, WATCHES: 0.8, OVERHEAD: 1.0, REST: 0.5}
    costs_by_purpose = costs(a_bill(**profile), groups=2, has_reviews=True)
    # Each of the ten requests has an overhead of 0.1 s. The attributed parts sum to 3 s, half of the total of
    # 6 s, so each of them counts twice.
    assert costs_by_purpose[PODS].cpu == pytest.approx(1000 * 2 * (0.4 + 0.4 + 0.8 + 0.8) / 2)
    assert costs_by_purpose[FOREGROUND].cpu == pytest.approx(1000 * 2 * (0.2 + 0.2) / 2)
    assert costs_by_purpose[REVIEWED].cpu == pytest.approx(1000 * 2 * 0.2 / 2)
    assert sum(cost.cpu for cost in costs_by_purpose.values()) == pytest.approx(3000)
    assert [costs_by_purpose[purpose].requests for purpose in (PODS, FOREGROUND, REVIEWED)] == [4, 1, 2]


def test_there_are_no_reviews_without_webhooks() -> None:
    assert costs(a_bill(create=1.0), groups=2, has_reviews=False)[REVIEWED].requests == 0


def test_costs_are_zero_without_a_profile() -> None:
    assert all(cost.cpu == 0 for cost in costs(a_bill(), groups=2, has_reviews=True).values())
    assert tuple(costs(a_bill(), groups=2, has_reviews=True)) == PURPOSES


def _entry(verb: str, user: str, seconds: float, stage: str = "ResponseComplete") -> dict[str, Any]:
    return {
        "verb": verb,
        "stage": stage,
        "user": {"username": user},
        "requestURI": "/api/v1/pods",
        "objectRef": {"resource": "pods"},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        "stageTimestamp": f"2026-01-01T00:00:{seconds:09.6f}Z",
    }


def test_requests_are_counted_by_user_and_kind_except_watches() -> None:
    account = "system:serviceaccount:kube-system:statefulset-controller"
    tallies = tally(
        [
            _entry("create", account, 0.25),
            _entry("create", account, 0.5),
            _entry("watch", account, 30.0),
            _entry("get", "system:kube-scheduler", 1.0, "ResponseStarted"),
        ]
    )
    assert {key: (asked.count, asked.seconds) for key, asked in tallies.items()} == {
        ("statefulset-controller", "create pods"): (2, 0.75)
    }
