"""Series of the process: Lease, requests, build, streams and certificates."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from lws.runtime.endpoints.metrics import ProcessSeries
from test.unit.lws.runtime.endpoints.samples import value_of

ENDS = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def process(registry: CollectorRegistry) -> ProcessSeries:
    return ProcessSeries(registry)


@pytest.mark.parametrize("leading", [True, False])
def test_leadership(process: ProcessSeries, registry: CollectorRegistry, leading: bool) -> None:
    process.leading("b8b2488c.x-k8s.io", True)
    process.leading("b8b2488c.x-k8s.io", leading)
    assert value_of(registry, "leader_election_master_status", name="b8b2488c.x-k8s.io") == leading


def test_requests(process: ProcessSeries, registry: CollectorRegistry) -> None:
    process.requested("10.0.0.1:443", "PATCH", 409)
    labels = {"host": "10.0.0.1:443", "method": "PATCH", "code": "409"}
    assert value_of(registry, "rest_client_requests_total", **labels) == 1


def test_build(process: ProcessSeries, registry: CollectorRegistry) -> None:
    process.built("1.2.3", "abc", "3.13.0")
    labels = {"version": "1.2.3", "git_commit": "abc", "python_version": "3.13.0"}
    assert value_of(registry, "lws_build_info", **labels) == 1


def test_reads_of_certificates(process: ProcessSeries, registry: CollectorRegistry) -> None:
    name = "certwatcher_read_certificate"
    assert (value_of(registry, f"{name}_total"), value_of(registry, f"{name}_errors_total")) == (0, 0)
    process.certificate_read(True)
    process.certificate_read(False)
    assert (value_of(registry, f"{name}_total"), value_of(registry, f"{name}_errors_total")) == (2, 1)


def test_the_age_of_each_stream(process: ProcessSeries, registry: CollectorRegistry) -> None:
    process.watch_streams(lambda: {"pods": 3.0, "services": 40.0})
    assert value_of(registry, "lws_cache_age_seconds", stream="services") == 40
    process.watch_streams(lambda: {"pods": 1.0})
    assert value_of(registry, "lws_cache_age_seconds", stream="pods") == 1
    assert registry.get_sample_value("lws_cache_age_seconds", {"stream": "services"}) is None


def test_expiry_of_each_certificate(process: ProcessSeries, registry: CollectorRegistry) -> None:
    process.watch_certificate("webhook", lambda: ENDS)
    process.watch_certificate("metrics", lambda: None)
    name = "lws_certificate_expiry_timestamp_seconds"
    assert value_of(registry, name, certificate="webhook") == ENDS.timestamp()
    assert registry.get_sample_value(name, {"certificate": "metrics"}) is None
