"""Series of passes, with the names that dashboards for upstream use."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from lws.runtime.endpoints.metrics import PassSeries
from test.unit.lws.runtime.endpoints.samples import value_of


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def passes(registry: CollectorRegistry) -> PassSeries:
    return PassSeries(registry)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return value_of(registry, f"controller_runtime_{name}", controller="pod", **labels)


@pytest.mark.parametrize("result", ["success", "requeue_after", "error"])
def test_a_pass(passes: PassSeries, registry: CollectorRegistry, result: str) -> None:
    passes.begun("pod")
    assert value(registry, "active_workers") == 1
    passes.ended("pod", result, 0.02)
    assert value(registry, "active_workers") == 0
    assert value(registry, "reconcile_total", result=result) == 1
    assert value(registry, "reconcile_errors_total") == (result == "error")
    assert value(registry, "reconcile_panics_total") == 0
    seconds = "reconcile_time_seconds"
    assert [value(registry, f"{seconds}_bucket", le=bound) for bound in ("0.01", "0.025")] == [0, 1]
    assert value(registry, f"{seconds}_sum") == 0.02


def test_a_bug(passes: PassSeries, registry: CollectorRegistry) -> None:
    passes.begun("pod")
    passes.crashed("pod", 0.1)
    assert value(registry, "reconcile_panics_total") == value(registry, "reconcile_errors_total") == 1
    assert (value(registry, "active_workers"), value(registry, "reconcile_total", result="error")) == (0, 1)


def test_counters_start_at_zero(passes: PassSeries, registry: CollectorRegistry) -> None:
    passes.serve(["pod"], at_once=32)
    for result in ("success", "requeue", "requeue_after", "error"):
        assert value(registry, "reconcile_total", result=result) == 0
    for name in ("reconcile_errors", "reconcile_panics", "terminal_reconcile_errors", "reconcile_timeouts"):
        assert value(registry, f"{name}_total") == 0
    assert value(registry, "max_concurrent_reconciles") == 32


def test_counters_continue_in_a_new_engine(passes: PassSeries, registry: CollectorRegistry) -> None:
    passes.begun("pod")
    passes.ended("pod", "success", 0.0)
    passes.serve(["pod"], at_once=32)
    assert value(registry, "reconcile_total", result="success") == 1
