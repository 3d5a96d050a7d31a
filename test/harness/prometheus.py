"""Run a real Prometheus that scrapes the manager of a test, and query it as dashboards do."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from test.harness.waiting import eventually
from tools.localcluster.build import find_programs
from tools.localcluster.ports import LOOPBACK, pick_ports
from tools.localcluster.progress import LinePrinter

Series = list[dict[str, Any]]


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    port: int

    def ask(self, path: str, **parameters: str) -> Any:
        """Return `data` of a response of the Prometheus API.

        Raises ValueError with Prometheus' message if it rejects the request, OSError while it starts.
        """
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}{path}?{query}", timeout=30) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            raise ValueError(json.loads(error.read())["error"]) from error

    def now(self, query: str) -> Series:
        """Query the present moment."""
        series: Series = self.ask("/api/v1/query", query=query)["result"]
        return series

    def over(self, query: str, start: float, end: float, step: float) -> Series:
        """Query the time between two moments."""
        span = {"start": str(start), "end": str(end), "step": str(step)}
        series: Series = self.ask("/api/v1/query_range", query=query, **span)["result"]
        return series


@contextmanager
def a_prometheus(workspace: Path, metrics_port: int, token: str) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes the manager at this port once a second, with the settings of the
    ServiceMonitor.
    """
    program = find_programs(["prometheus"], LinePrinter())["prometheus"]
    (port,) = pick_ports(1)
    workspace.mkdir(parents=True, exist_ok=True)
    config = workspace / "prometheus.yml"
    config.write_text(yaml.safe_dump(configuration(metrics_port, token)))
    listen = f"--web.listen-address={LOOPBACK}:{port}"
    command = [program, f"--config.file={config}", f"--storage.tsdb.path={workspace / 'tsdb'}", listen]
    with (workspace / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=workspace)
        try:
            prometheus = Prometheus(port)
            eventually("Prometheus has scraped", lambda: _is_up(prometheus), seconds=180)
            yield prometheus
        finally:
            process.terminate()
            process.wait(60)


def configuration(metrics_port: int, token: str) -> Mapping[str, Any]:
    return {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {
                "job_name": "lws",
                "scheme": "https",
                "honor_labels": True,
                "tls_config": {"insecure_skip_verify": True},
                "authorization": {"credentials": token},
                "static_configs": [{"targets": [f"{LOOPBACK}:{metrics_port}"]}],
            }
        ],
    }


def _is_up(prometheus: Prometheus) -> bool:
    try:
        return any(series["value"][1] == "1" for series in prometheus.now("up"))
    except OSError:
        return False
