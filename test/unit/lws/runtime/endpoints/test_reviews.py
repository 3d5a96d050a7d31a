"""Series of webhook reviews: answers, decisions and bugs."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from lws.runtime.endpoints.metrics import DECISIONS, ReviewSeries
from test.unit.lws.runtime.endpoints.samples import value_of

PATH = "/mutate--v1-pod"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def reviews(registry: CollectorRegistry) -> ReviewSeries:
    reviews = ReviewSeries(registry)
    reviews.serve(["mutate--v1-pod"], lambda webhook: len(webhook))
    return reviews


def test_everything_starts_at_zero(reviews: ReviewSeries, registry: CollectorRegistry) -> None:
    for code in ("200", "500"):
        assert value_of(registry, "controller_runtime_webhook_requests_total", webhook=PATH, code=code) == 0
    for decision in DECISIONS:
        assert value_of(registry, "lws_webhook_decisions_total", webhook=PATH, decision=decision) == 0
    assert value_of(registry, "controller_runtime_webhook_latency_seconds_count", webhook=PATH) == 0
    for name in ("webhook_panics", "conversion_webhook_panics"):
        assert value_of(registry, f"controller_runtime_{name}_total") == 0


def test_reviews_in_flight_are_counted_on_scrape(reviews: ReviewSeries, registry: CollectorRegistry) -> None:
    in_flight = value_of(registry, "controller_runtime_webhook_requests_in_flight", webhook=PATH)
    assert in_flight == len("mutate--v1-pod")


def test_invalid_reviews_have_no_decision(reviews: ReviewSeries, registry: CollectorRegistry) -> None:
    """Anyone who can reach the port may send it, and it must not make LWSWebhookFails fire."""
    reviews.answered("mutate--v1-pod", 400, 0.2, "")
    assert value_of(registry, "controller_runtime_webhook_requests_total", webhook=PATH, code="400") == 1
    decided = {
        sample.labels["decision"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "lws_webhook_decisions_total"
    }
    assert decided == {"allowed": 0, "denied": 0, "failed": 0}


@pytest.mark.parametrize(
    ("code", "decision", "panics"),
    [(200, "allowed", 0), (200, "denied", 0), (200, "failed", 1), (400, "failed", 0)],
)
def test_an_answer(
    reviews: ReviewSeries, registry: CollectorRegistry, code: int, decision: str, panics: int
) -> None:
    reviews.answered("mutate--v1-pod", code, 0.2, decision)
    requests = "controller_runtime_webhook_requests_total"
    assert value_of(registry, requests, webhook=PATH, code=str(code)) == 1
    assert value_of(registry, "controller_runtime_webhook_latency_seconds_sum", webhook=PATH) == 0.2
    assert value_of(registry, "lws_webhook_decisions_total", webhook=PATH, decision=decision) == 1
    assert value_of(registry, "controller_runtime_webhook_panics_total") == panics
