"""The process itself: what it is, whether it may act, how fresh its cache is, when its certificates end.

In: facts of its parts, most of them asked for whenever somebody looks. Out: series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

Ages = Callable[[], Mapping[str, float]]
"""Seconds since each stream was last heard, by name."""

Expiry = Callable[[], datetime | None]
"""When a certificate ends; None while there is none."""


class ProcessSeries(Collector):
    """Every series about the process that is ours or the original's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._leading = Gauge(
            "leader_election_master_status",
            "1 while this process holds the Lease.",
            ("name",),
            registry=registry,
        )
        self._requests = Counter(
            "rest_client_requests",
            "Requests to the API server by HTTP status.",
            ("code", "method", "host"),
            registry=registry,
        )
        self._build = Gauge(
            "lws_build_info",
            "1, with the version of the manager, the commit it was built from, and that of Python.",
            ("version", "git_commit", "python_version"),
            registry=registry,
        )
        self._reads = Counter(
            "certwatcher_read_certificate", "Times that a serving certificate was read.", registry=registry
        )
        self._bad_reads = Counter(
            "certwatcher_read_certificate_errors",
            "Times that a serving certificate could not be read or used.",
            registry=registry,
        )
        self._ages: Ages = dict
        self._expiries: dict[str, Expiry] = {}
        registry.register(self)

    def leading(self, lease: str, leading: bool) -> None:
        """The Lease was gained or lost."""
        self._leading.labels(lease).set(1 if leading else 0)

    def requested(self, host: str, method: str, code: int) -> None:
        """The API server answered."""
        self._requests.labels(str(code), method, host).inc()

    def built(self, version: str, commit: str, python: str) -> None:
        """What runs here."""
        self._build.labels(version, commit, python).set(1)

    def certificate_read(self, is_good: bool) -> None:
        """A serving certificate was read, or could not be."""
        self._reads.inc()
        if not is_good:
            self._bad_reads.inc()

    def watch_streams(self, ages: Ages) -> None:
        """Show how fresh each stream is, in place of those that were shown before."""
        self._ages = ages

    def watch_certificate(self, name: str, expiry: Expiry) -> None:
        """Show when this certificate ends, from when there is one."""
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
                "Seconds since the stream of one kind of objects was last heard; a quiet one is heard about "
                "once a minute.",
                labels=("stream",),
            ),
            GaugeMetricFamily(
                "lws_certificate_expiry_timestamp_seconds",
                "When the serving certificate ends, in seconds since 1970.",
                labels=("certificate",),
            ),
        )
