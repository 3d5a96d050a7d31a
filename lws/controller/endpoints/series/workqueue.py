"""The queue of passes as the original controller shows its work queues: one for each controller.

In: what the queue says of its keys. Out: `workqueue_*` by controller, from 0 on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from lws.controller.endpoints.series.key import PassKey

_LABELS = ("name", "controller")
# From 10 ns to 1000 s, as the original has them.
_BUCKETS = tuple(10.0 ** (power - 8) for power in range(12))


@dataclass(slots=True)
class _Queue:
    """One controller. due, running: keys with the moments when their passes were due or began."""

    adds: Counter
    retries: Counter
    waited: Histogram
    worked: Histogram
    due: dict[PassKey, float] = field(default_factory=dict)
    running: dict[PassKey, float] = field(default_factory=dict)


class QueueSeries:
    """Every series about the queue; what it is told of a key of a kind that it does not serve is an error."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._queues: dict[str, _Queue] = {}
        self._of_kind: dict[str, _Queue] = {}

        def gauge(name: str, documentation: str, *further: str) -> Gauge:
            return Gauge(name, documentation, (*_LABELS, *further), registry=registry)

        def counter(name: str, documentation: str) -> Counter:
            return Counter(name, documentation, _LABELS, registry=registry)

        def histogram(name: str, documentation: str) -> Histogram:
            return Histogram(name, documentation, _LABELS, buckets=_BUCKETS, registry=registry)

        self._depth = gauge("workqueue_depth", "Keys whose pass is due and has not begun.", "priority")
        self._adds = counter("workqueue_adds", "Keys whose pass became due.")
        self._retries = counter("workqueue_retries", "Keys that are tried again because their pass failed.")
        self._waited = histogram(
            "workqueue_queue_duration_seconds", "Seconds from when a pass was due until it began."
        )
        self._worked = histogram("workqueue_work_duration_seconds", "Seconds that a pass over a key took.")
        self._unfinished = gauge(
            "workqueue_unfinished_work_seconds", "Seconds that the running passes have taken, all together."
        )
        self._longest = gauge(
            "workqueue_longest_running_processor_seconds", "Seconds that the longest running pass has taken."
        )

    def serve(self, controllers: Mapping[str, str]) -> None:
        """Show the series of these controllers from now on, by kind of key."""
        self._of_kind = {kind: self._of(name) for kind, name in controllers.items()}

    def due(self, key: PassKey) -> None:
        """A pass over the key is to begin as soon as there is room."""
        queue = self._of_kind[key.kind]
        queue.adds.inc()
        queue.due[key] = self._clock()

    def begun(self, key: PassKey) -> None:
        """The pass over a key that was due begins."""
        queue, now = self._of_kind[key.kind], self._clock()
        queue.waited.observe(now - queue.due.pop(key, now))
        queue.running[key] = now

    def dropped(self, key: PassKey) -> None:
        """There will be no pass over a key that was due."""
        self._of_kind[key.kind].due.pop(key, None)

    def ended(self, key: PassKey) -> None:
        """The pass over the key is over."""
        queue, now = self._of_kind[key.kind], self._clock()
        queue.worked.observe(now - queue.running.pop(key, now))

    def retried(self, key: PassKey) -> None:
        """The pass over the key failed: another one follows."""
        self._of_kind[key.kind].retries.inc()

    def _of(self, controller: str) -> _Queue:
        if controller in self._queues:
            return self._queues[controller]
        labels = (controller, controller)
        queue = self._queues[controller] = _Queue(
            self._adds.labels(*labels),
            self._retries.labels(*labels),
            self._waited.labels(*labels),
            self._worked.labels(*labels),
        )
        self._depth.labels(*labels, "").set_function(lambda: len(queue.due))
        self._unfinished.labels(*labels).set_function(lambda: sum(self._ages(queue)))
        self._longest.labels(*labels).set_function(lambda: max(self._ages(queue), default=0.0))
        return queue

    def _ages(self, queue: _Queue) -> list[float]:
        now = self._clock()
        return [now - began for began in queue.running.values()]
