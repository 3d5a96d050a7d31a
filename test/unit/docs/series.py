"""Which series does the manager serve? Their names with their labels, for tests of several pages."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics import MetricWrapperBase

from lws.controller.endpoints.metrics import Metrics


def series_of(metrics: Metrics) -> Iterator[tuple[str, list[str]]]:
    for each in vars(metrics).values():
        if isinstance(each, MetricWrapperBase):
            ending = "_total" if each._type == "counter" else ""
            yield f"{each._name}{ending}", list(each._labelnames)
