"""Alerts and the dashboard use only series that exist, and every alert has a runbook."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from test.unit.chart.templates import CHART, ROOT
from tools.series import series_of, served

GROUPS = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"]
ALERTS: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
DASHBOARD: dict[str, Any] = json.loads((CHART / "files" / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RUNBOOK = "docs/operations/monitoring.md"
_SERIES = re.compile(r"\b((?:lws|workqueue|controller_runtime|rest_client|leader_election|process)_\w+)")
_LABELS = re.compile(r"\b(?:by|on) \(([\w, ]+)\)")


def queries() -> list[str]:
    of_panels = [target["expr"] for panel in PANELS for target in panel["targets"]]
    return [*(rule["expr"] for rule in ALERTS), *of_panels]


def known_series() -> dict[str, set[str]]:
    """Return every series that can be queried, with its labels."""
    labels = {series.name: set(series.labels) for series in series_of(served())}
    for series in series_of(served()):
        if series.type == "histogram":
            labels[f"{series.name}_bucket"] = {*series.labels, "le"}
    return labels


@pytest.mark.parametrize("query", queries())
def test_queried_series_and_labels_exist(query: str) -> None:
    series = known_series()
    queried = [name for name in _SERIES.findall(query) if not name.startswith("process_")]
    assert queried and set(queried) <= series.keys()
    # Labels that the scraper adds, and the label that every histogram has.
    available = {"instance", "job"}.union(*(series[name] for name in queried))
    grouped = {label for labels in _LABELS.findall(query) for label in re.split(r", *", labels)}
    assert grouped <= available


@pytest.mark.parametrize("query", queries())
def test_series_of_other_programs_are_queried_for_managers_only(query: str) -> None:
    for name in re.findall(
        r"\b(?:leader_election|controller_runtime|workqueue|rest_client|process)_\w+", query
    ):
        assert re.search(rf"{name}[^()]*\)? and on \(job, instance\) lws_build_info", query), name


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    names = [rule["alert"] for rule in ALERTS]
    assert len({*names}) == len(names) > 15
    headings = re.findall(r"^### (LWS\w+)$", (ROOT / RUNBOOK).read_text(), re.MULTILINE)
    assert headings == names, "in the order of the rules"
    for rule in ALERTS:
        assert rule["annotations"]["runbook_url"] == f"{RUNBOOK}#{rule['alert'].lower()}"


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alert_has_a_severity_and_a_description(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    for annotation in ("summary", "description"):
        assert rule["annotations"][annotation].endswith("."), annotation


def test_panels_have_unique_ids_titles_and_positions() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len({*ids}) == len(ids)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in PANELS}
    assert len(places) == len(PANELS) == len({panel["title"] for panel in PANELS})


def test_panels_use_the_selected_data_source() -> None:
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "namespace"]
