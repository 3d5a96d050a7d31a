"""The chart's alerts fire when they should, and only then: promtool evaluates the rendered rules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from test.integration.alert_stories import STORIES, Story
from test.integration.release import HelmAlone, find, render
from tools.localcluster.build import find_programs
from tools.localcluster.progress import LinePrinter
from tools.series import series_of, served

REPOSITORY = "https://example.com/lws/blob/main/"
PROCESS = ("process_cpu_seconds_total", "process_resident_memory_bytes")
ON = ("--set", f"alerts.enabled=true,dashboard.enabled=true,alerts.runbookURL={REPOSITORY}")


@pytest.fixture(scope="module")
def promtool() -> Path:
    return find_programs(["promtool"], LinePrinter())["promtool"]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return render(HelmAlone(tmp_path_factory.mktemp("helm")), *ON)


@pytest.fixture(scope="module")
def rules(rendered: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules as the operator would pass them to Prometheus."""
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text(yaml.safe_dump(find(rendered, "PrometheusRule", "lws-alerts")["spec"]))
    return path


def run(promtool: Path, *arguments: str) -> str:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def targets(story: Story) -> dict[str, str]:
    """Return the labels that distinguish managers from others that serve series of the same names."""
    if story.alert == "LWSAbsent":
        return {}
    return {f"lws_build_info{labels}": "1x90" for labels in ("", '{instance="one"}', '{instance="two"}')}


def check_alert(promtool: Path, rules: Path, story: Story, series: Mapping[str, str], fires: bool) -> None:
    firing = f'count(ALERTS{{alertname="{story.alert}",alertstate="firing"}})'
    test = {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": values} for name, values in {**targets(story), **series}.items()
        ],
        "promql_expr_test": [
            {
                "expr": firing,
                "eval_time": f"{story.at}m",
                "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
            }
        ],
    }
    path = rules.with_name("test.yaml")
    document = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}
    path.write_text(yaml.safe_dump(document))
    run(promtool, "test", "rules", str(path))


def ids(story: Story) -> str:
    return f"{story.alert}-{STORIES.index(story)}"


def test_the_rules_are_valid(promtool: Path, rules: Path) -> None:
    count = sum(len(group["rules"]) for group in yaml.safe_load(rules.read_text())["groups"])
    assert f"SUCCESS: {count} rules found" in run(promtool, "check", "rules", "--lint-fatal", str(rules))


@pytest.mark.parametrize("story", [story for story in STORIES if story.fires], ids=ids)
def test_the_alert_fires(promtool: Path, rules: Path, story: Story) -> None:
    check_alert(promtool, rules, story, story.fires, fires=True)


@pytest.mark.parametrize("story", [story for story in STORIES if story.quiet], ids=ids)
def test_the_alert_does_not_fire(promtool: Path, rules: Path, story: Story) -> None:
    check_alert(promtool, rules, story, story.quiet, fires=False)


OTHERS = 'job="other",instance="elsewhere"'


def other_program(story: Story) -> dict[str, str]:
    """Return the series for which an alert fires, served by another program."""
    return {
        name.replace('instance="one"', OTHERS).replace('instance="two"', 'job="other",instance="there"')
        if 'instance="' in name
        else (name.replace("{", "{" + OTHERS + ",") if "{" in name else f"{name}{{{OTHERS}}}"): values
        for name, values in story.fires.items()
    }


SHARED = ("leader_election_", "controller_runtime_", "workqueue_", "rest_client_")
OF_OTHERS = [
    story for story in STORIES if story.fires and all(name.startswith(SHARED) for name in story.fires)
]


@pytest.mark.parametrize("story", OF_OTHERS, ids=ids)
def test_the_alert_ignores_series_of_another_program(promtool: Path, rules: Path, story: Story) -> None:
    check_alert(promtool, rules, story, other_program(story), fires=False)


def test_every_alert_has_firing_and_quiet_stories(rules: Path) -> None:
    groups = yaml.safe_load(rules.read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert {story.alert for story in STORIES if story.fires} == alerts
    assert {story.alert for story in STORIES if story.quiet} == alerts


def test_runbook_urls_point_at_the_repository(rules: Path) -> None:
    every = [rule for group in yaml.safe_load(rules.read_text())["groups"] for rule in group["rules"]]
    start = f"{REPOSITORY}docs/operations/monitoring.md#"
    assert all(rule["annotations"]["runbook_url"].startswith(start) for rule in every)


def test_the_dashboard_has_its_label_and_every_query_returns_data(
    promtool: Path, rendered: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Evaluated over an hour of series as a manager would serve them."""
    config_map = find(rendered, "ConfigMap", "lws-dashboard")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    panels = json.loads(config_map["data"]["lws.json"])["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(queries) > 25
    sample = [{"labels": "{}", "value": 1}]
    tests = [
        {"expr": f"count({filled(query)}) > bool 0", "eval_time": "60m", "exp_samples": sample}
        for query in queries
    ]
    series = [{"series": name, "values": values} for name, values in an_hour().items()]
    path = tmp_path / "dashboard.yaml"
    test = {"interval": "1m", "input_series": series, "promql_expr_test": tests}
    path.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    run(promtool, "test", "rules", str(path))


def an_hour() -> dict[str, str]:
    """Return every served series, with the name of each label as its value."""
    hour = {f'{name}{{instance="instance"}}': "0+1x70" for name in PROCESS}
    for series in series_of(served()):
        labels = ",".join(f'{label}="{label}"' for label in ("instance", *series.labels))
        if series.type == "histogram":
            hour |= {f'{series.name}_bucket{{{labels},le="{bound}"}}': "0+9x70" for bound in ("5", "+Inf")}
        else:
            # More groups are desired than exist.
            rise = "0+1x70" if series.type == "counter" else "5x70" if "desired" in series.name else "3x70"
            hour[f"{series.name}{{{labels}}}"] = rise
    return hour


def filled(query: str) -> str:
    """Return a query as Grafana sends it."""
    return query.replace("$namespace", ".*").replace("$__rate_interval", "5m")


def test_alerts_and_dashboard_are_not_rendered_by_default(tmp_path: Path) -> None:
    kinds = {(obj["kind"], obj["metadata"]["name"]) for obj in render(HelmAlone(tmp_path))}
    assert not {("PrometheusRule", "lws-alerts"), ("ConfigMap", "lws-dashboard")} & kinds
