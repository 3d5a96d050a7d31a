"""tools.series: the series that are served, and the page about them."""

from __future__ import annotations

from pathlib import Path

from lws.runtime.endpoints.metrics import KeyState, Metrics
from tools.series import PAGES, REFERENCE, Series, main, page, series_of, served

ORIGINAL = {
    "controller_runtime_active_workers": ("gauge", "controller"),
    "controller_runtime_conversion_webhook_panics_total": ("counter",),
    "controller_runtime_max_concurrent_reconciles": ("gauge", "controller"),
    "controller_runtime_reconcile_errors_total": ("counter", "controller"),
    "controller_runtime_reconcile_panics_total": ("counter", "controller"),
    "controller_runtime_reconcile_time_seconds": ("histogram", "controller"),
    "controller_runtime_reconcile_timeouts_total": ("counter", "controller"),
    "controller_runtime_reconcile_total": ("counter", "controller", "result"),
    "controller_runtime_terminal_reconcile_errors_total": ("counter", "controller"),
    "controller_runtime_webhook_latency_seconds": ("histogram", "webhook"),
    "controller_runtime_webhook_panics_total": ("counter",),
    "controller_runtime_webhook_requests_in_flight": ("gauge", "webhook"),
    "controller_runtime_webhook_requests_total": ("counter", "webhook", "code"),
    "certwatcher_read_certificate_errors_total": ("counter",),
    "certwatcher_read_certificate_total": ("counter",),
    "leader_election_master_status": ("gauge", "name"),
    "rest_client_requests_total": ("counter", "code", "method", "host"),
    "workqueue_adds_total": ("counter", "name", "controller"),
    "workqueue_depth": ("gauge", "name", "controller", "priority"),
    "workqueue_longest_running_processor_seconds": ("gauge", "name", "controller"),
    "workqueue_queue_duration_seconds": ("histogram", "name", "controller"),
    "workqueue_retries_total": ("counter", "name", "controller"),
    "workqueue_unfinished_work_seconds": ("gauge", "name", "controller"),
    "workqueue_work_duration_seconds": ("histogram", "name", "controller"),
}
"""Series of upstream in addition to the series of its Go process."""


def test_all_series_of_upstream_exist_and_no_others_have_their_prefix() -> None:
    actual = {
        series.name: (series.type, *series.labels) for series in series_of(served()) if not series.is_ours
    }
    assert actual == ORIGINAL


def test_names_follow_the_conventions_of_prometheus() -> None:
    for series in series_of(served()):
        assert (series.type == "counter") == series.name.endswith("_total"), series
        assert series.type != "histogram" or series.name.endswith("_seconds"), series
        assert series.documentation.endswith("."), series


def test_the_page_lists_the_served_series() -> None:
    assert main(["--check"]) == 0, "run `python -m tools.series`"


def test_an_outdated_page_is_rewritten(tmp_path: Path) -> None:
    for name in PAGES:
        text = (REFERENCE / name).read_text()
        (tmp_path / name).write_text(text.replace("`lws_build_info`", "`lws_other`"))
    assert main(["--check"], tmp_path) == 1
    assert main([], tmp_path) == 0
    assert all((tmp_path / name).read_text() == (REFERENCE / name).read_text() for name in PAGES)


def test_each_kind_of_workload_has_a_section_on_the_page() -> None:
    metrics = served()
    metrics.count([KeyState("fleet", "Late", "lws_fleets_late", "Fleets that are late.")])
    late = Series("lws_fleets_late", "gauge", (), "Fleets that are late.")
    assert late in series_of(metrics) and late not in series_of(Metrics())
    row = "| `lws_fleets_late` | gauge |  | Fleets that are late. |\n"
    assert row in page((REFERENCE / PAGES[0]).read_text(), metrics)
