"""Every panel of the dashboard has data when a real Prometheus scrapes a manager under load.

With PICTURE=1, the data of the panels becomes the recording from which docs/pictures/dashboard.svg is drawn.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from test.harness.disaggregated.manifests import a_disaggregated_set, new_roles, roles
from test.harness.groups import settle
from test.harness.manifests import a_set, new_image, pod_template, rolling
from test.harness.product import Product
from test.harness.prometheus import Prometheus, a_prometheus
from test.harness.scraping import a_scraper
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ApiError, ClusterAccess, Pods
from tools.pictures.dashboard import RECORDING

DASHBOARD = Path(__file__).parents[3] / "charts" / "lws" / "files" / "dashboard.json"
POINTS = 60
SETS = ("chat", "code", "embed", "rerank")


def panels() -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return each panel's title and unit, and the query and legend of each line."""
    return [
        (
            panel["title"],
            panel["fieldConfig"]["defaults"]["unit"],
            [(filled(target["expr"]), target["legendFormat"]) for target in panel["targets"]],
        )
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        if panel.get("targets")
    ]


def filled(query: str) -> str:
    """Return a query as Grafana sends it."""
    return query.replace("$namespace", ".*").replace("$__rate_interval", "20s")


def load(world: World, pods: Pods) -> None:
    """Cause rollouts, a crash, a set that cannot start, and rejected reviews."""
    for number, name in enumerate(SETS, start=2):
        world.create(a_set(name, replicas=number, rolloutStrategy=rolling(maxUnavailable=1)))
    world.create(a_disaggregated_set("pair", roles(2, 2)))
    world.create(a_set("waiting", workers=pod_template(serviceAccountName="nobody")))
    for name in SETS:
        settle(world, name)
    try:
        world.create(a_set("wrong", size=0))
        raise AssertionError("a set of size 0 is not refused")
    except ApiError:
        pass
    pods.restart_container(world.namespace, "chat-0-1", "server")
    for name in SETS[1:]:
        world.patch(SET, name, new_image("server:2"))
    world.patch("DisaggregatedSet", "pair", new_roles(roles(2, 2, "server:2")))
    for name in SETS:
        settle(world, name)


def test_every_query_of_the_dashboard_returns_data(
    world: World, product: Product, cluster: ClusterAccess, pods: Pods, tmp_path: Path
) -> None:
    port = product.manager.metrics_port
    with (
        a_scraper(cluster, "prometheus") as scraper,
        a_prometheus(tmp_path, port, scraper.token) as prometheus,
    ):
        start = time.time()
        load(world, pods)
        queries = [query for _, _, lines in panels() for query, _ in lines]
        assert len(queries) > 25

        def empty() -> list[str]:
            end = time.time()
            step = max(1.0, (end - start) / POINTS)
            return [query for query in queries if not numbers(prometheus.over(query, start, end, step))]

        eventually("every query returns data", empty, lambda unanswered: not unanswered, 180)
        if os.environ.get("PICTURE"):
            RECORDING.write_text(json.dumps(recorded(prometheus, start, time.time()), indent=1) + "\n")


def numbers(series: list[dict[str, Any]]) -> list[float]:
    return [float(value) for line in series for _, value in line["values"] if value != "NaN"]


def recorded(prometheus: Prometheus, start: float, end: float) -> dict[str, Any]:
    """Return the lines of each panel, as points (seconds, value)."""
    step = max(1.0, (end - start) / POINTS)
    result = {}
    for title, unit, lines in panels():
        drawn = {}
        for query, legend in lines:
            for series in prometheus.over(query, start, end, step):
                points = [
                    [round(at - start), float(f"{float(value):.4g}")]
                    for at, value in series["values"]
                    if value != "NaN"
                ]
                if points:
                    drawn[named(legend, series["metric"])] = points
        result[title] = {"unit": unit, "lines": drawn}
    return {"seconds": round(end - start), "panels": result}


def named(legend: str, labels: dict[str, str]) -> str:
    for label, value in labels.items():
        text = "my-models" if label == "namespace" else value
        legend = legend.replace("{{" + label + "}}", "manager" if label == "instance" else text)
    return legend
