"""What the process counts: the series of the original controller under its names, and ours.

In: passes, the queue, requests, reviews, leadership. Out: Prometheus series in a registry of our own; which
there are, subject by subject: `series`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from lws.controller.endpoints.series.passes import PassSeries
from lws.controller.endpoints.series.process import ProcessSeries
from lws.controller.endpoints.series.reviews import ReviewSeries
from lws.controller.endpoints.series.workloads import Workloads
from lws.controller.endpoints.series.workqueue import QueueSeries

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Standing:
    """How keys of a kind may stand, and the gauge that says how many do. word: as plans have it."""

    kind: str
    word: str
    series: str
    documentation: str


class Metrics:
    """Every series of the process. is_each_set_shown: False has only sums over all of a kind."""

    def __init__(self, is_each_set_shown: bool = True) -> None:
        # Series that the original controller does not have.
        disable_created_metrics()
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self.passes = PassSeries(registry)
        self.queue = QueueSeries(registry)
        self.reviews = ReviewSeries(registry)
        self.process = ProcessSeries(registry)
        self.workloads = Workloads(registry, is_each_set_shown)
        self._standings: dict[Standing, Gauge] = {}
        self._stuck_pods = Gauge(
            "lws_pods_held_by_lost_nodes",
            "Pods that cannot go because the node that would end them is lost.",
            registry=registry,
        )
        self._forced = Counter(
            "lws_pods_deleted_by_force",
            "Pods deleted without waiting for their node.",
            registry=registry,
        )

    def observe_stuck_pods(self, pods: int) -> None:
        """A pass has found another number of pods that lost nodes hold, all groups together."""
        self._stuck_pods.set(pods)

    def count(self, standings: Iterable[Standing]) -> None:
        """Have a gauge for each from now on; those that are there already go on."""
        for each in standings:
            if each not in self._standings:
                self._standings[each] = Gauge(each.series, each.documentation, registry=self._registry)

    def observe_standings(self, keys: Mapping[tuple[str, str], int]) -> None:
        """Passes have found other keys to stand in some way. keys: how many, by kind and word."""
        for each, gauge in self._standings.items():
            gauge.set(keys.get((each.kind, each.word), 0))

    def observe_forced(self, pods: int) -> None:
        """Pods were deleted by force."""
        self._forced.inc(pods)

    @property
    def collectors(self) -> Iterable[Collector]:
        """Where the series come from."""
        return tuple(self._registry._collector_to_names)

    def text(self) -> bytes:
        """Everything in the Prometheus text format."""
        return generate_latest(self._registry)
