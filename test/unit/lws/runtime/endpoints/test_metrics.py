"""The complete metrics output: text, content type, and the series of pods and workload kinds."""

from __future__ import annotations

import pytest

from lws.runtime.endpoints.metrics import CONTENT_TYPE, KeyState, Metrics


def _lines(metrics: Metrics) -> list[str]:
    return metrics.text().decode().splitlines()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_pods_of_lost_nodes(metrics: Metrics) -> None:
    assert "lws_pods_held_by_lost_nodes 0.0" in _lines(metrics)
    metrics.watch(lambda: 3, lambda kind, word: 0)
    metrics.observe_forced(2)
    metrics.observe_forced(1)
    assert "lws_pods_held_by_lost_nodes 3.0" in _lines(metrics)
    assert "lws_pods_deleted_by_force_total 3.0" in _lines(metrics)


def test_gauges_of_each_kind_of_workload(metrics: Metrics) -> None:
    late = KeyState("fleet", "Late", "fleets_late", "Fleets that are late.")
    metrics.count([late])
    assert "fleets_late 0.0" in _lines(metrics)
    keys = {("fleet", "Late"): 2, ("fleet", "Early"): 5, ("set", "Late"): 7}
    metrics.watch(lambda: 0, lambda kind, word: keys.get((kind, word), 0))
    assert "fleets_late 2.0" in _lines(metrics)
    metrics.count([late])
    assert "fleets_late 2.0" in _lines(metrics), "the next engine counts on"
    keys.clear()
    assert "fleets_late 0.0" in _lines(metrics)


def test_no_created_series_are_served(metrics: Metrics) -> None:
    metrics.passes.begun("pod")
    metrics.passes.ended("pod", "success", 0.0)
    assert not any("_created" in line for line in _lines(metrics))


def test_process_metrics_are_served(metrics: Metrics) -> None:
    text = metrics.text().decode()
    assert "process_cpu_seconds_total" in text and "python_info" in text


def test_registries_are_independent(metrics: Metrics) -> None:
    metrics.process.leading("one", True)
    assert not any(line.startswith("leader_election_master_status{") for line in _lines(Metrics()))


def test_content_type() -> None:
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
