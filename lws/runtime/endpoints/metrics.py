"""Metrics of the process: upstream's series under the same names, and ours (`workloads.py` has more)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from lws.runtime.actions import Key
from lws.runtime.endpoints.workloads import Workloads

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Maker:
    """Adds series to a registry. labels: labels of every series, before its own."""

    registry: CollectorRegistry
    labels: tuple[str, ...] = ()

    def counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(name, documentation, (*self.labels, *labels), registry=self.registry)

    def gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(name, documentation, (*self.labels, *labels), registry=self.registry)

    def histogram(
        self,
        name: str,
        documentation: str,
        *labels: str,
        buckets: Sequence[float] = Histogram.DEFAULT_BUCKETS,
    ) -> Histogram:
        of = (*self.labels, *labels)
        return Histogram(name, documentation, of, buckets=buckets, registry=self.registry)


@dataclass(frozen=True, slots=True)
class KeyState:
    """A state that keys of a kind can be in, called `word` in plans, and the gauge that counts these keys."""

    kind: str
    word: str
    series: str
    documentation: str


def standings_of_rollouts(keys: str, kind: str, in_rollout: str, stalled: str) -> tuple[KeyState, ...]:
    """Return the states of any kind that has rollouts. keys: the kind of its keys. The last two are words."""
    start = f"lws_{kind.lower()}s"
    without_progress = f"{kind}s without progress for their progressDeadlineSeconds."
    return (
        KeyState(keys, in_rollout, f"{start}_in_rollout", f"{kind}s in a rollout."),
        KeyState(keys, stalled, f"{start}_stalled", without_progress),
    )


class Metrics:
    """All series of the process: for each set if `is_each_set_shown`, otherwise sums over all sets.

    now: a function that returns the Unix time of the API server.
    """

    def __init__(self, is_each_set_shown: bool = True, now: Callable[[], float] = time.time) -> None:
        # Upstream has no `_created` series.
        disable_created_metrics()
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self.passes = PassSeries(registry)
        self.queue = QueueSeries(registry)
        self.reviews = ReviewSeries(registry)
        self.process = ProcessSeries(registry)
        self.workloads = Workloads(registry, is_each_set_shown, now)
        self._standings: dict[KeyState, Gauge] = {}
        self._make = make = _Maker(registry)
        self._stuck_pods = make.gauge(
            "lws_pods_held_by_lost_nodes", "Pods stuck in Terminating on lost nodes."
        )
        self._forced = make.counter("lws_pods_deleted_by_force", "Pods force-deleted on lost nodes.")

    def count(self, standings: Iterable[KeyState]) -> None:
        """Add a gauge for each state. Existing gauges are kept."""
        for standing in standings:
            if standing not in self._standings:
                self._standings[standing] = self._make.gauge(standing.series, standing.documentation)

    def watch(self, stuck_pods: Callable[[], int], keys: Callable[[str, str], int]) -> None:
        """Show these numbers of pods that lost nodes hold and of keys, by kind and word, on each scrape."""
        self._stuck_pods.set_function(stuck_pods)
        for standing, gauge in self._standings.items():
            gauge.set_function(partial(keys, standing.kind, standing.word))

    def observe_forced(self, pods: int) -> None:
        self._forced.inc(pods)

    @property
    def collectors(self) -> Iterable[Collector]:
        return tuple(self._registry._collector_to_names)

    def text(self) -> bytes:
        """Return all series in the Prometheus text format."""
        return generate_latest(self._registry)


_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_RESULTS = ("success", "requeue_after", "requeue", "error")
# Passes have no deadline and are always retried.
_NEVER = {
    "controller_runtime_terminal_reconcile_errors": "Failed reconciles that are not retried; always 0.",
    "controller_runtime_reconcile_timeouts": "Reconciles that timed out; always 0.",
}


# Cached for each controller, because looking up a label takes as long as counting.
@dataclass(slots=True)
class _ControllerSeries:
    results: dict[str, Counter]
    errors: Counter
    panics: Counter
    seconds: Histogram
    running: int = 0


class PassSeries:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._by_controller: dict[str, _ControllerSeries] = {}
        make = _Maker(registry, ("controller",))
        self._results = make.counter("controller_runtime_reconcile", "Reconciles by result.", "result")
        self._errors = make.counter("controller_runtime_reconcile_errors", "Failed reconciles.")
        self._panics = make.counter(
            "controller_runtime_reconcile_panics", "Reconciles that failed because of a bug."
        )
        self._never = tuple(make.counter(name, documentation) for name, documentation in _NEVER.items())
        self._seconds = make.histogram(
            "controller_runtime_reconcile_time_seconds", "Seconds per reconcile.", buckets=_BUCKETS
        )
        self._most = make.gauge(
            "controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles."
        )
        self._active = make.gauge("controller_runtime_active_workers", "Running reconciles.")

    def serve(self, controllers: Iterable[str], at_once: int) -> None:
        """Show the series of these controllers. at_once: the maximum number of concurrent passes."""
        for name in controllers:
            self._most.labels(name).set(at_once)
            self._of(name)

    def begun(self, controller: str) -> None:
        self._of(controller).running += 1

    def ended(self, controller: str, result: str, seconds: float) -> None:
        """Record that a pass ended. result: one of upstream's results."""
        series = self._of(controller)
        series.running -= 1
        series.results[result].inc()
        series.seconds.observe(seconds)
        if result == "error":
            series.errors.inc()

    def crashed(self, controller: str, seconds: float) -> None:
        """Record that a pass raised an unexpected exception."""
        self._of(controller).panics.inc()
        self.ended(controller, "error", seconds)

    def _of(self, controller: str) -> _ControllerSeries:
        existing = self._by_controller.get(controller)
        if existing is not None:
            return existing
        for counter in self._never:
            counter.labels(controller)
        series = _ControllerSeries(
            results={result: self._results.labels(controller, result) for result in _RESULTS},
            errors=self._errors.labels(controller),
            panics=self._panics.labels(controller),
            seconds=self._seconds.labels(controller),
        )
        self._active.labels(controller).set_function(lambda: series.running)
        self._by_controller[controller] = series
        return series


Ages = Callable[[], Mapping[str, float]]
"""A function that returns the seconds since each stream, by name, last received something."""

Expiry = Callable[[], datetime | None]
"""A function that returns when a certificate expires; None while there is none."""


class ProcessSeries(Collector):
    def __init__(self, registry: CollectorRegistry) -> None:
        make = _Maker(registry)
        self._leading = make.gauge(
            "leader_election_master_status", "1 while this process holds the Lease.", "name"
        )
        self._requests = make.counter(
            "rest_client_requests", "Requests to the API server by HTTP status.", "code", "method", "host"
        )
        versions = "Always 1; labels show the versions of the manager and of Python."
        self._build = make.gauge("lws_build_info", versions, "version", "git_commit", "python_version")
        self._reads = make.counter("certwatcher_read_certificate", "Reads of serving certificates.")
        self._bad_reads = make.counter(
            "certwatcher_read_certificate_errors", "Failed reads of serving certificates."
        )
        self._ages: Ages = dict
        self._expiries: dict[str, Expiry] = {}
        registry.register(self)

    def leading(self, lease: str, leading: bool) -> None:
        """Record that the Lease was gained or lost."""
        self._leading.labels(lease).set(1 if leading else 0)

    def requested(self, host: str, method: str, code: int) -> None:
        """Count a response of the API server."""
        self._requests.labels(str(code), method, host).inc()

    def built(self, version: str, commit: str, python: str) -> None:
        self._build.labels(version, commit, python).set(1)

    def certificate_read(self, is_good: bool) -> None:
        """Count a read of a serving certificate, which may have failed."""
        self._reads.inc()
        if not is_good:
            self._bad_reads.inc()

    def watch_streams(self, ages: Ages) -> None:
        """Show the age of each stream, in place of the former streams."""
        self._ages = ages

    def watch_certificate(self, name: str, expiry: Expiry) -> None:
        """Show when this certificate expires, as soon as it exists."""
        self._expiries[name] = expiry

    def describe(self) -> Iterable[Metric]:
        return self._families()

    def collect(self) -> Iterable[Metric]:
        ages, expiries = self._families()
        for stream, age in self._ages().items():
            ages.add_metric([stream], age)
        for name, expiry in self._expiries.items():
            ends = expiry()
            if ends is not None:
                expiries.add_metric([name], ends.timestamp())
        return ages, expiries

    def _families(self) -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily(
                "lws_cache_age_seconds",
                "Seconds since a watch stream last received something, at least a bookmark a minute.",
                labels=("stream",),
            ),
            GaugeMetricFamily(
                "lws_certificate_expiry_timestamp_seconds",
                "Expiry of the serving certificate, as a Unix time.",
                labels=("certificate",),
            ),
        )


DECISIONS = ("allowed", "denied", "failed")
"""Results of a review.

`failed` means that there was no decision: a bug, a manager that was not ready, or another webhook's review.
"""


class ReviewSeries:
    def __init__(self, registry: CollectorRegistry) -> None:
        make, of_all = _Maker(registry, ("webhook",)), _Maker(registry)
        self._requests = make.counter(
            "controller_runtime_webhook_requests", "Admission reviews by HTTP status.", "code"
        )
        self._seconds = make.histogram(
            "controller_runtime_webhook_latency_seconds", "Seconds per admission review."
        )
        self._in_flight = make.gauge(
            "controller_runtime_webhook_requests_in_flight", "Admission reviews in progress."
        )
        self._panics = of_all.counter(
            "controller_runtime_webhook_panics", "Admission reviews that failed because of a bug."
        )
        of_all.counter(
            "controller_runtime_conversion_webhook_panics", "Failed conversions; always 0, there are none."
        )
        self._decisions = make.counter("lws_webhook_decisions", "Admission reviews by decision.", "decision")

    def serve(self, webhooks: Iterable[str], in_flight: Callable[[str], int]) -> None:
        """Show the series of these webhooks. `in_flight` counts running reviews, on each scrape."""
        for webhook in webhooks:
            path = f"/{webhook}"
            for code in ("200", "500"):
                self._requests.labels(path, code)
            for decision in DECISIONS:
                self._decisions.labels(path, decision)
            self._seconds.labels(path)
            self._in_flight.labels(path).set_function(partial(in_flight, webhook))

    def answered(self, webhook: str, code: int, seconds: float, decision: str) -> None:
        """Count a request that was answered with this HTTP status.

        webhook: the path without its slash; empty for an unknown path. decision: one of `DECISIONS`; empty if
        the request was not a review.
        """
        path = f"/{webhook}"
        self._requests.labels(path, str(code)).inc()
        self._seconds.labels(path).observe(seconds)
        if decision:
            self._decisions.labels(path, decision).inc()
        # If the manager is not ready, the HTTP status is not 200.
        if (code, decision) == (200, "failed"):
            self._panics.inc()


# From 10 ns to 1000 s, as upstream.
_QUEUE_BUCKETS = tuple(10.0 ** (power - 8) for power in range(12))


@dataclass(slots=True)
class _Queue:
    adds: Counter
    retries: Counter
    waited: Histogram
    worked: Histogram
    due: dict[Key, float] = field(default_factory=dict)
    running: dict[Key, float] = field(default_factory=dict)


class QueueSeries:
    """Series about the queue. Calls for a key of a kind that is not served raise KeyError."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._queues: dict[str, _Queue] = {}
        self._of_kind: dict[str, _Queue] = {}
        make = _Maker(registry, ("name", "controller"))
        self._depth = make.gauge("workqueue_depth", "Queue keys that are due and wait.", "priority")
        self._adds = make.counter("workqueue_adds", "Queue keys that became due.")
        self._retries = make.counter("workqueue_retries", "Queue keys that are retried after a failure.")
        waited, worked = "Seconds that due queue keys waited.", "Seconds per reconcile."
        self._waited = make.histogram("workqueue_queue_duration_seconds", waited, buckets=_QUEUE_BUCKETS)
        self._worked = make.histogram("workqueue_work_duration_seconds", worked, buckets=_QUEUE_BUCKETS)
        self._unfinished = make.gauge(
            "workqueue_unfinished_work_seconds", "Sum of the seconds of running reconciles."
        )
        self._longest = make.gauge(
            "workqueue_longest_running_processor_seconds", "Seconds of the longest running reconcile."
        )

    def serve(self, controllers: Mapping[str, str]) -> None:
        """Show the series of these controllers. controllers: the name of the controller by kind of key."""
        self._of_kind = {kind: self._of(name) for kind, name in controllers.items()}

    def due(self, key: Key) -> None:
        """Record that a pass is due. It begins once a slot is free."""
        queue = self._of_kind[key.kind]
        queue.adds.inc()
        queue.due[key] = self._clock()

    def begun(self, key: Key) -> None:
        queue, now = self._of_kind[key.kind], self._clock()
        queue.waited.observe(now - queue.due.pop(key, now))
        queue.running[key] = now

    def dropped(self, key: Key) -> None:
        """Record that no pass runs over a key that was due."""
        self._of_kind[key.kind].due.pop(key, None)

    def ended(self, key: Key) -> None:
        queue, now = self._of_kind[key.kind], self._clock()
        queue.worked.observe(now - queue.running.pop(key, now))

    def retried(self, key: Key) -> None:
        self._of_kind[key.kind].retries.inc()

    def _of(self, controller: str) -> _Queue:
        if controller in self._queues:
            return self._queues[controller]
        labels = (controller, controller)
        queue = self._queues[controller] = _Queue(
            self._adds.labels(*labels),
            self._retries.labels(*labels),
            self._waited.labels(*labels),
            self._worked.labels(*labels),
        )
        self._depth.labels(*labels, "").set_function(lambda: len(queue.due))
        self._unfinished.labels(*labels).set_function(lambda: sum(self._ages(queue)))
        self._longest.labels(*labels).set_function(lambda: max(self._ages(queue), default=0.0))
        return queue

    def _ages(self, queue: _Queue) -> list[float]:
        now = self._clock()
        return [now - began for began in queue.running.values()]
