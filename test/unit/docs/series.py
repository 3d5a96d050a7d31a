"""Which series does the manager serve? Their names with their labels, for tests of several pages."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics import MetricWrapperBase

from lws.controller.endpoints.metrics import Metrics
from lws.controller.manager import REGISTRATIONS


def series_of(metrics: Metrics) -> Iterator[tuple[str, list[str]]]:
    """Those of kinds of workload have no labels: how many there are does not depend on what there is."""
    yield from ((standing.series, []) for each in REGISTRATIONS for standing in each.standings)
    for each in vars(metrics).values():
        if isinstance(each, MetricWrapperBase):
            ending = "_total" if each._type == "counter" else ""
            yield f"{each._name}{ending}", list(each._labelnames)
