"""What would Prometheus read of a manager? With the token of somebody who may.

In: a cluster with the chart, a manager. Out: families of samples, as the parser of the client library reads
them.
"""

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
    """One look."""

    families: Mapping[str, Metric]

    @classmethod
    def of(cls, text: str) -> Scrape:
        """What stands in the text."""
        return cls({_name_of(each): each for each in text_string_to_metric_families(text)})

    def values(self, sample: str, /, **labels: str) -> list[float]:
        """Of all samples of this name that have these labels."""
        every = (each for family in self.families.values() for each in family.samples)
        return [each.value for each in every if each.name == sample and labels.items() <= each.labels.items()]

    def value(self, sample: str, /, **labels: str) -> float | None:
        """The sum of those, None where there are none."""
        found = self.values(sample, **labels)
        return sum(found) if found else None

    def labels_of(self, family: str) -> set[str]:
        """Names of labels, those of buckets left out."""
        return {label for sample in self.families[family].samples for label in sample.labels} - {"le"}


@dataclass(frozen=True)
class Scraper:
    """Somebody who may read metrics."""

    token: str

    def read(self, manager: ManagerProcess) -> str:
        """The text that a manager serves. Raises OSError."""
        url = f"https://127.0.0.1:{manager.metrics_port}/metrics"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            text: str = answer.read().decode()
        return text

    def scrape(self, manager: ManagerProcess) -> Scrape:
        """The same, parsed."""
        return Scrape.of(self.read(manager))


@contextmanager
def a_scraper(cluster: ClusterAccess, name: str = "scraper") -> Iterator[Scraper]:
    """A service account with the chart's role for scrapers; both go at the end."""
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
