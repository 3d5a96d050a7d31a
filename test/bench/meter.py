"""Measure what a phase costs, by counters of the controller, the API server and /proc before and after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from test.bench.audit import AuditLog, RequestCounts
from test.bench.scrape import Scrape
from test.bench.subject import (
    Subject,
    control_plane_cpu,
    etcd_quantile,
    pod_webhook_quantile,
    review_quantile,
)
from test.harness.audit import MANAGER
from tools.localcluster import LocalCluster

_QUIET_SECONDS, _LONGEST_UNREST = 2.0, 30.0
_SETTLED_SECONDS = 10.0

Result = dict[str, Any]


@dataclass
class Mark:
    """All counters at one moment.

    offset: the offset in the audit log. own, server: the metrics of the controller and of the API server.
    """

    offset: int
    cpu: float
    control_plane: float
    own: Scrape
    server: Scrape
    at: float = field(default_factory=time.monotonic)


class Measured(Protocol):
    """One controller, or several that share the work."""

    @property
    def cpu(self) -> float:
        """Return the CPU seconds since the start."""
        ...

    @property
    def peak(self) -> Peaks:
        """Return the largest memory since the last reset."""
        ...

    def scrape(self) -> Scrape:
        """Return the controller's metrics."""
        ...

    def server_scrape(self) -> Scrape:
        """Return the API server's metrics."""
        ...


class Peaks(Protocol):
    """A maximum over time."""

    def reset(self) -> None:
        """Start a new period."""
        ...

    @property
    def bytes(self) -> int:
        """Return the maximum in this period."""
        ...


class Meter:
    """Measures a controller. say: a function that receives each line of progress."""

    def __init__(self, cluster: LocalCluster, subject: Measured, say: Callable[[str], None]) -> None:
        self.audit = AuditLog(cluster.audit_log, MANAGER)
        self._cluster = cluster
        self._subject = subject
        self._say = say

    def phase(self, name: str, run: Callable[[], float], groups: Callable[[], int]) -> Result:
        """Measure one phase.

        run: carries the phase out and returns its seconds. groups: returns the number of its groups
        afterwards.
        """
        self._subject.peak.reset()
        before = self.mark()
        seconds = run()
        self.until_quiet()
        after, count = self.mark(), groups()
        counted = self.audit.between(before.offset, after.offset)
        own, server = after.own.since(before.own), after.server.since(before.server)
        result = {
            "seconds": seconds,
            "groups": count,
            **_figures_of(counted, count),
            "cpu": after.cpu - before.cpu,
            "cpu_per_group": (after.cpu - before.cpu) / count,
            "control_plane_cpu": after.control_plane - before.control_plane,
            "peak_pss": self._subject.peak.bytes,
            "passes": own.by("controller_runtime_reconcile_total", "controller"),
            "objects_listed": objects_listed(server, counted.requests),
            **quantiles("pod_webhook", partial(pod_webhook_quantile, server)),
            **quantiles("review", partial(review_quantile, own)),
            **quantiles("etcd", partial(etcd_quantile, server)),
        }
        self._say(
            f"{name}: {seconds:.1f} s, {counted.writes / count:.2f} writes and {counted.events / count:.2f} "
            f"Events per group, CPU {result['cpu_per_group']:.4f} s per group"
        )
        return result

    def settled(self) -> Result:
        """Measure a period in which nothing changes."""
        before = self.mark()
        time.sleep(_SETTLED_SECONDS)
        after = self.mark()
        measured = self.audit.between(before.offset, after.offset)
        share = (after.cpu - before.cpu) / (after.at - before.at)
        self._say(f"settled: {measured.writes} writes, {share:.1%} of a core")
        passes = after.own.since(before.own).by("controller_runtime_reconcile_total", "controller")
        counts = {"writes": measured.writes, "events": measured.events, "lists": measured.lists}
        return {**counts, "core": share, "passes": passes, "requests": measured.requests}

    def restart(self, subject: Subject) -> Result:
        """Measure a new process, which reconciles everything once and writes nothing."""
        subject.stop()
        start, began = self.audit.end, time.monotonic()
        ready = subject.start()
        first = subject.until_first_pass(began)
        time.sleep(_QUIET_SECONDS)
        self.until_quiet()
        measured = self.audit.between(start)
        cpu = subject.cpu
        self._say(f"restart: first pass after {first:.1f} s, {measured.writes} writes")
        counts = {
            "writes": measured.writes,
            "events": measured.events,
            "requests": measured.requests,
            "cpu": cpu,
        }
        return {"ready": ready, "first_pass": first, **counts}

    def mark(self) -> Mark:
        """Return the current values of all counters."""
        # The control plane comes last, because reading the other counters costs it CPU time.
        own, server = self._subject.scrape(), self._subject.server_scrape()
        return Mark(self.audit.end, self._subject.cpu, control_plane_cpu(self._cluster), own, server)

    def until_quiet(self) -> None:
        """Wait until writes stop; the ones after the end of a phase, such as a last status, belong to it."""
        deadline = time.monotonic() + _LONGEST_UNREST
        while time.monotonic() < deadline:
            start = self.audit.end
            time.sleep(_QUIET_SECONDS)
            measured = self.audit.between(start)
            if not measured.writes and not measured.events:
                return


def objects_listed(server: Scrape, requests: Mapping[str, int]) -> dict[str, float]:
    """Return the number of objects that the API server listed, by resource.

    Only resources that the controller lists count, because other clients list pods of a node or namespace at
    any time.
    """
    counts = server.by("apiserver_cache_list_returned_objects_total", "resource")
    return {resource: count for resource, count in counts.items() if f"list {resource}" in requests}


def quantiles(name: str, of: Callable[[float], float | None]) -> Result:
    """Return the median and the 99th percentile."""
    return {f"{name}_p50": of(0.5), f"{name}_p99": of(0.99)}


def _figures_of(measured: RequestCounts, groups: int) -> Result:
    waits = measured.waits
    return {
        "requests": measured.requests,
        "refused": measured.refused,
        "writes": measured.writes,
        "writes_per_group": measured.writes / groups,
        "events": measured.events,
        "events_per_group": measured.events / groups,
        "lists": measured.lists,
        "wait_p50": waits[len(waits) // 2] if waits else None,
        "wait_p99": waits[min(len(waits) - 1, int(len(waits) * 0.99))] if waits else None,
    }
