"""Scrape the metrics of a manager as Prometheus does, with the token of a ServiceAccount."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tools.deployment import ManagerProcess
from tools.localcluster import ClusterAccess

_READER = "lws-metrics-reader"


@dataclass(frozen=True)
class Scrape:
    """The metrics of one scrape."""

    families: Mapping[str, Metric]

    @classmethod
    def of(cls, text: str) -> Scrape:
        """Parse the text of /metrics."""
        return cls({_name_of(family): family for family in text_string_to_metric_families(text)})

    def values(self, name: str, /, **labels: str) -> list[float]:
        """Return the values of all samples of this name that have these labels."""
        named = (s for family in self.families.values() for s in family.samples if s.name == name)
        return [sample.value for sample in named if labels.items() <= sample.labels.items()]

    def value(self, sample: str, /, **labels: str) -> float | None:
        """Return the sum of the values of these samples; None if there are no samples."""
        values = self.values(sample, **labels)
        return sum(values) if values else None

    def labels_of(self, family: str) -> set[str]:
        """Return the names of labels, except the label `le` of buckets."""
        return {label for sample in self.families[family].samples for label in sample.labels} - {"le"}


@dataclass(frozen=True)
class Scraper:
    """A ServiceAccount that may read metrics.

    token: its token.
    """

    token: str

    def read(self, manager: ManagerProcess) -> str:
        """Read /metrics of a manager; raises OSError."""
        url = f"https://127.0.0.1:{manager.metrics_port}/metrics"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            text: str = answer.read().decode()
        return text

    def scrape(self, manager: ManagerProcess) -> Scrape:
        """Read and parse /metrics of a manager."""
        return Scrape.of(self.read(manager))


@contextmanager
def a_scraper(cluster: ClusterAccess, name: str = "scraper") -> Iterator[Scraper]:
    """Create a ServiceAccount that has the chart's role for scrapers during the block."""
    cluster.kubectl("create", "serviceaccount", name, "-n", "default")
    account = f"--serviceaccount=default:{name}"
    cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={_READER}", account)
    try:
        yield Scraper(cluster.kubectl("create", "token", name, "-n", "default", "--duration=2h").strip())
    finally:
        cluster.kubectl("delete", "clusterrolebinding", name, "--ignore-not-found")
        cluster.kubectl("delete", "serviceaccount", name, "-n", "default", "--ignore-not-found")


def _name_of(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name
