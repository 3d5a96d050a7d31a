"""Admission reviews: how many, how they were answered, how long they took.

In: what the webhook server says of each. Out: series by webhook, which is the URL path, from 0 on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

DECISIONS = ("allowed", "denied", "failed")
"""What a review comes to. failed: nothing was decided, because of a bug, because the manager was not ready,
or because the review was for another webhook.
"""


class ReviewSeries:
    """Every series about reviews."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "controller_runtime_webhook_requests",
            "Admission reviews by HTTP status.",
            ("webhook", "code"),
            registry=registry,
        )
        self._seconds = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Seconds per admission review.",
            ("webhook",),
            registry=registry,
        )
        self._in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Admission reviews that are being answered.",
            ("webhook",),
            registry=registry,
        )
        self._panics = Counter(
            "controller_runtime_webhook_panics",
            "Admission reviews that failed because of a bug.",
            registry=registry,
        )
        self._conversion_panics = Counter(
            "controller_runtime_conversion_webhook_panics",
            "Conversions that failed because of a bug; always 0, there are no conversions.",
            registry=registry,
        )
        self._decisions = Counter(
            "lws_webhook_decisions",
            "Admission reviews by what was decided.",
            ("webhook", "decision"),
            registry=registry,
        )

    def serve(self, webhooks: Iterable[str], in_flight: Callable[[str], int]) -> None:
        """Show the series of these webhooks from now on. in_flight: how many reviews of one are being
        answered, asked whenever somebody looks.
        """
        for webhook in webhooks:
            path = f"/{webhook}"
            for code in ("200", "500"):
                self._requests.labels(path, code)
            for decision in DECISIONS:
                self._decisions.labels(path, decision)
            self._seconds.labels(path)
            self._in_flight.labels(path).set_function(_counting(in_flight, webhook))

    def answered(self, webhook: str, code: int, seconds: float, decision: str) -> None:
        """A request was answered with this HTTP status; webhook: empty for a path that is none. decision: one
        of `DECISIONS`, empty where there was no review.
        """
        path = f"/{webhook}"
        self._requests.labels(path, str(code)).inc()
        self._seconds.labels(path).observe(seconds)
        if decision:
            self._decisions.labels(path, decision).inc()
        # Where the manager is not ready the status is another one.
        if (code, decision) == (200, "failed"):
            self._panics.inc()


def _counting(in_flight: Callable[[str], int], webhook: str) -> Callable[[], float]:
    return lambda: float(in_flight(webhook))
