"""Passes as the original controller counts its reconciles.

In: what the loop says of each pass. Out: `controller_runtime_*` by controller, from 0 on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_RESULTS = ("success", "requeue_after", "requeue", "error")
_BY_CONTROLLER = ("controller",)
# Passes have no deadline of their own and are always tried again.
_NEVER = {
    "controller_runtime_terminal_reconcile_errors": "Passes that failed and are not tried again; always 0.",
    "controller_runtime_reconcile_timeouts": "Passes that ran into a deadline of their own; always 0.",
}


# One per controller: to look a label up takes as long as to count.
@dataclass(slots=True)
class _Of:
    """The series of one controller. results: by result. running: passes."""

    results: dict[str, Counter]
    errors: Counter
    panics: Counter
    seconds: Histogram
    running: int = 0


class PassSeries:
    """Every series about passes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._by_controller: dict[str, _Of] = {}
        self._results = Counter(
            "controller_runtime_reconcile",
            "Passes over objects by controller and result.",
            ("controller", "result"),
            registry=registry,
        )

        def counter(name: str, documentation: str) -> Counter:
            return Counter(name, documentation, _BY_CONTROLLER, registry=registry)

        def gauge(name: str, documentation: str) -> Gauge:
            return Gauge(name, documentation, _BY_CONTROLLER, registry=registry)

        self._errors = counter("controller_runtime_reconcile_errors", "Passes that failed.")
        self._panics = counter("controller_runtime_reconcile_panics", "Passes that failed because of a bug.")
        self._never = tuple(counter(name, documentation) for name, documentation in _NEVER.items())
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Seconds per pass.",
            _BY_CONTROLLER,
            buckets=_BUCKETS,
            registry=registry,
        )
        self._most = gauge("controller_runtime_max_concurrent_reconciles", "Most passes at the same time.")
        self._active = gauge("controller_runtime_active_workers", "Passes that are running.")

    def serve(self, controllers: Iterable[str], at_once: int) -> None:
        """Show the series of these controllers from now on. at_once: most passes at the same time."""
        for name in controllers:
            self._most.labels(name).set(at_once)
            self._of(name)

    def begun(self, controller: str) -> None:
        """A pass began."""
        self._of(controller).running += 1

    def ended(self, controller: str, result: str, seconds: float) -> None:
        """A pass that had begun came to its end; result: one of those of the original controller."""
        series = self._of(controller)
        series.running -= 1
        series.results[result].inc()
        series.seconds.observe(seconds)
        if result == "error":
            series.errors.inc()

    def crashed(self, controller: str, seconds: float) -> None:
        """A pass that had begun raised what nobody expects."""
        self._of(controller).panics.inc()
        self.ended(controller, "error", seconds)

    def _of(self, controller: str) -> _Of:
        known = self._by_controller.get(controller)
        if known is not None:
            return known
        for each in self._never:
            each.labels(controller)
        made = _Of(
            results={result: self._results.labels(controller, result) for result in _RESULTS},
            errors=self._errors.labels(controller),
            panics=self._panics.labels(controller),
            seconds=self._seconds.labels(controller),
        )
        self._active.labels(controller).set_function(lambda: made.running)
        self._by_controller[controller] = made
        return made
