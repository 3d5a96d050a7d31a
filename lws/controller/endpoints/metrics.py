"""What the process counts, under the names that dashboards for the original controller use.

In: passes, queue depth, requests, webhook reviews, leadership. Out: Prometheus series in a registry of our
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_PASS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True)
class Standing:
    """How keys of a kind may stand, and the gauge that says how many do. word: as plans have it."""

    kind: str
    word: str
    series: str
    documentation: str


class Metrics:
    """Every series of the process."""

    def __init__(self) -> None:
        # Series that the original controller does not have.
        disable_created_metrics()
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._count_passes(registry)
        self._count_requests(registry)
        self._count_reviews(registry)
        self._count_pods(registry)
        self._standings: dict[Standing, Gauge] = {}
        self._leading = Gauge(
            "leader_election_master_status",
            "1 while this process holds the Lease.",
            ("name",),
            registry=registry,
        )

    def _count_passes(self, registry: CollectorRegistry) -> None:
        self._passes = Counter(
            "controller_runtime_reconcile",
            "Passes by controller and result.",
            ("controller", "result"),
            registry=registry,
        )
        self._pass_errors = Counter(
            "controller_runtime_reconcile_errors", "Passes that failed.", ("controller",), registry=registry
        )
        self._pass_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Seconds per pass.",
            ("controller",),
            buckets=_PASS_SECONDS,
            registry=registry,
        )
        self._depth = Gauge(
            "workqueue_depth",
            "Keys that wait or are worked.",
            ("name", "controller", "priority"),
            registry=registry,
        ).labels("lws", "lws", "")

    def _count_requests(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests",
            "Requests to the API server.",
            ("code", "method", "host"),
            registry=registry,
        )

    def _count_reviews(self, registry: CollectorRegistry) -> None:
        self._reviews = Counter(
            "controller_runtime_webhook_requests",
            "Admission reviews.",
            ("webhook", "code"),
            registry=registry,
        )
        self._review_seconds = Histogram(
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

    def _count_pods(self, registry: CollectorRegistry) -> None:
        self._stuck_pods = Gauge(
            "lws_pods_held_by_lost_nodes",
            "Pods that cannot go because the node that would end them is lost.",
            registry=registry,
        )
        self._forced = Counter(
            "lws_pods_deleted_by_force",
            "Pods deleted without waiting for their node.",
            registry=registry,
        )

    def observe_pass(self, controller: str, result: str, seconds: float) -> None:
        """One pass ended."""
        self._passes.labels(controller, result).inc()
        self._pass_seconds.labels(controller).observe(seconds)
        if result == "error":
            self._pass_errors.labels(controller).inc()

    def observe_depth(self, depth: int) -> None:
        """The queue changed."""
        self._depth.set(depth)

    def observe_request(self, host: str, method: str, code: int) -> None:
        """The API server answered."""
        self._requests.labels(str(code), method, host).inc()

    def observe_review(self, webhook: str, code: int, seconds: float) -> None:
        """An admission review was answered."""
        path = f"/{webhook}"
        self._reviews.labels(path, str(code)).inc()
        self._review_seconds.labels(path).observe(seconds)

    def observe_leading(self, lease: str, leading: bool) -> None:
        """The Lease was gained or lost."""
        self._leading.labels(lease).set(1 if leading else 0)

    def observe_stuck_pods(self, pods: int) -> None:
        """A pass has found another number of pods that lost nodes hold, all groups together."""
        self._stuck_pods.set(pods)

    def count(self, standings: Iterable[Standing]) -> None:
        """Have a gauge for each from now on; those that are there already go on."""
        for each in standings:
            if each not in self._standings:
                self._standings[each] = Gauge(each.series, each.documentation, registry=self._registry)

    def observe_standings(self, keys: Mapping[tuple[str, str], int]) -> None:
        """Passes have found other keys to stand in some way. keys: how many, by kind and word."""
        for each, gauge in self._standings.items():
            gauge.set(keys.get((each.kind, each.word), 0))

    def observe_forced(self, pods: int) -> None:
        """Pods were deleted by force."""
        self._forced.inc(pods)

    def export_in_flight(self, count: Callable[[], int]) -> None:
        """How many reviews are being answered, asked whenever somebody looks."""
        self._in_flight.labels("").set_function(lambda: float(count()))

    def text(self) -> bytes:
        """Everything in the Prometheus text format."""
        return generate_latest(self._registry)
