"""Names and labels of the series: dashboards for the original controller must find them."""

from __future__ import annotations

import pytest

from lws.controller.endpoints.metrics import CONTENT_TYPE, Metrics, Standing


def _lines(metrics: Metrics) -> list[str]:
    return metrics.text().decode().splitlines()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.mark.parametrize(("result", "errors"), [("success", 0), ("requeue_after", 0), ("error", 1)])
def test_passes(metrics: Metrics, result: str, errors: int) -> None:
    metrics.observe_pass("leaderworkerset", result, 0.02)
    lines = _lines(metrics)
    assert (
        f'controller_runtime_reconcile_total{{controller="leaderworkerset",result="{result}"}} 1.0' in lines
    )
    failed = 'controller_runtime_reconcile_errors_total{controller="leaderworkerset"} 1.0'
    assert lines.count(failed) == errors
    start = "controller_runtime_reconcile_time_seconds"
    assert f'{start}_bucket{{controller="leaderworkerset",le="0.01"}} 0.0' in lines
    assert f'{start}_bucket{{controller="leaderworkerset",le="0.025"}} 1.0' in lines
    assert f'{start}_sum{{controller="leaderworkerset"}} 0.02' in lines


def test_passes_are_counted_by_controller(metrics: Metrics) -> None:
    for controller in ("leaderworkerset", "pod", "pod"):
        metrics.observe_pass(controller, "success", 0.0)
    assert 'controller_runtime_reconcile_total{controller="pod",result="success"} 2.0' in _lines(metrics)


def test_depth(metrics: Metrics) -> None:
    metrics.observe_depth(7)
    metrics.observe_depth(3)
    assert 'workqueue_depth{controller="lws",name="lws",priority=""} 3.0' in _lines(metrics)


def test_requests(metrics: Metrics) -> None:
    metrics.observe_request("10.0.0.1:443", "PATCH", 409)
    assert 'rest_client_requests_total{code="409",host="10.0.0.1:443",method="PATCH"} 1.0' in _lines(metrics)


def test_reviews(metrics: Metrics) -> None:
    metrics.observe_review("mutate--v1-pod", 200, 0.2)
    lines = _lines(metrics)
    assert 'controller_runtime_webhook_requests_total{code="200",webhook="/mutate--v1-pod"} 1.0' in lines
    assert 'controller_runtime_webhook_latency_seconds_count{webhook="/mutate--v1-pod"} 1.0' in lines


def test_pods_of_lost_nodes(metrics: Metrics) -> None:
    assert "lws_pods_held_by_lost_nodes 0.0" in _lines(metrics)
    metrics.observe_stuck_pods(3)
    metrics.observe_forced(2)
    metrics.observe_forced(1)
    assert "lws_pods_held_by_lost_nodes 3.0" in _lines(metrics)
    assert "lws_pods_deleted_by_force_total 3.0" in _lines(metrics)


def test_standings_of_kinds_of_workload(metrics: Metrics) -> None:
    late = Standing("fleet", "Late", "fleets_late", "Fleets that are late.")
    metrics.count([late])
    assert "fleets_late 0.0" in _lines(metrics)
    metrics.observe_standings({("fleet", "Late"): 2, ("fleet", "Early"): 5, ("set", "Late"): 7})
    assert "fleets_late 2.0" in _lines(metrics)
    metrics.count([late])
    assert "fleets_late 2.0" in _lines(metrics), "the next engine counts on"
    metrics.observe_standings({})
    assert "fleets_late 0.0" in _lines(metrics)


def test_reviews_in_flight_are_counted_when_somebody_looks(metrics: Metrics) -> None:
    counts = iter([2, 0])
    metrics.export_in_flight(lambda: next(counts))
    for expected in ("2.0", "0.0"):
        line = f'controller_runtime_webhook_requests_in_flight{{webhook=""}} {expected}'
        assert line in _lines(metrics)


def test_no_series_that_the_original_does_not_have(metrics: Metrics) -> None:
    metrics.observe_pass("pod", "success", 0.0)
    assert not any("_created" in line for line in _lines(metrics))


@pytest.mark.parametrize(("leading", "value"), [(True, "1.0"), (False, "0.0")])
def test_leadership(metrics: Metrics, leading: bool, value: str) -> None:
    metrics.observe_leading("b8b2488c.x-k8s.io", True)
    metrics.observe_leading("b8b2488c.x-k8s.io", leading)
    assert f'leader_election_master_status{{name="b8b2488c.x-k8s.io"}} {value}' in _lines(metrics)


def test_the_process_is_described_too(metrics: Metrics) -> None:
    text = metrics.text().decode()
    assert "process_cpu_seconds_total" in text and "python_info" in text


def test_two_registries_do_not_meet(metrics: Metrics) -> None:
    metrics.observe_depth(7)
    (depth,) = (line for line in _lines(Metrics()) if line.startswith("workqueue_depth{"))
    assert depth.endswith(" 0.0")


def test_content_type() -> None:
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
