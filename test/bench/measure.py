"""One shape, measured: the floor, then a controller through the same phases, in one cluster of its own.

In: a shape and who is measured. Out: a `Result`, plain data for JSON.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from test.bench.audit import Asked, AuditLog
from test.bench.crowd import for_each
from test.bench.floor import Floor
from test.bench.manifests import a_foreign_pod, a_foreign_statefulset
from test.bench.phases import Phases
from test.bench.processes import Others
from test.bench.scrape import Scrape
from test.bench.shapes import Shape
from test.bench.subject import (
    Subject,
    control_plane_cpu,
    etcd_quantile,
    pod_webhook_quantile,
    review_quantile,
)
from test.harness.audit import MANAGER
from test.harness.product import serve_definitions, wait_until_sets_may_own
from tools.deployment import Deployment
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options

_REPOSITORY = Path(__file__).resolve().parents[2]
_NODES = 50
_QUIET_SECONDS, _LONGEST_UNREST = 2.0, 30.0
_SETTLED_SECONDS = 10.0
_FLOOR, _SERVED_FLOOR, _BENCH, _FOREIGN = "floor", "floor-with-services", "bench", "foreign"
_SERVED_PHASES = ("create", "rollout", "delete")

Result = dict[str, Any]


@dataclass(frozen=True)
class Order:
    """What to measure.

    phases: names; all where it is empty. foreign: pods, and StatefulSets, of others that come before the sets
    are deleted. say: is told each line of progress.
    """

    shape: Shape
    against: str | None = None
    profile: Path | None = None
    phases: tuple[str, ...] = ()
    has_floor: bool = True
    foreign: int = 0
    say: Callable[[str], None] = print


@dataclass
class _Mark:
    """All counters at one moment."""

    place: int
    cpu: float
    control_plane: float
    own: Scrape
    server: Scrape
    at: float = field(default_factory=time.monotonic)


def measure(order: Order) -> Result:
    """Start a cluster, measure, and take it down."""
    others, options = Others(), Options(nodes=_NODES, audit_policy=AUDIT_METADATA)
    with LocalCluster(options) as cluster:
        for namespace in (_FLOOR, _SERVED_FLOOR, _BENCH):
            cluster.kubectl("create", "namespace", namespace)
        floors = _measure_floors(cluster, order) if order.has_floor else {"floor": {}, "served_floor": {}}
        with _subject(cluster, order) as subject:
            result = _Run(cluster, order, subject).measure()
    return {**_header(order, others), **floors, **result}


@cache
def commit() -> str:
    """What is measured, by the name that git gives it; with a plus sign where the tree has changes.

    As it is before the page is written, which is a change too.
    """
    asked = ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    return subprocess.run(asked, cwd=_REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()


def _header(order: Order, others: Others) -> Result:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "shape": order.shape.name,
        "groups": order.shape.all_groups,
        "against": order.against,
        "commit": commit(),
        "machine": {
            "cores": os.cpu_count(),
            "memory_gib": round(memory),
            "python": platform.python_version(),
            "others": round(others.cores(), 2),
        },
    }


def _measure_floors(cluster: LocalCluster, order: Order) -> Result:
    """Without and with the Services of the sets, whose endpoints cost the control plane with every pod."""
    api, shape = cluster.api, order.shape
    bare = _measure_floor(cluster, order, Floor(api, shape, _FLOOR), "floor")
    served = Floor(api, shape, _SERVED_FLOOR, has_services=True)
    return {
        "floor": bare,
        "served_floor": _measure_floor(cluster, order, served, "floor with Services", _SERVED_PHASES),
    }


def _measure_floor(
    cluster: LocalCluster, order: Order, floor: Floor, title: str, phases: tuple[str, ...] = ()
) -> Result:
    """phases: names; all where it is empty."""
    found: Result = {}
    for name, run in floor.phases.items():
        if order.phases and name not in (*order.phases, "create", "delete"):
            continue
        if phases and name not in phases:
            continue
        before = control_plane_cpu(cluster)
        seconds = run()
        found[name] = {"seconds": seconds, "control_plane_cpu": control_plane_cpu(cluster) - before}
        order.say(f"{title} {name}: {seconds:.1f} s")
    floor.close()
    return found


@contextmanager
def _subject(cluster: LocalCluster, order: Order) -> Iterator[Subject]:
    deployment = Deployment(cluster, cluster.workspace / "bench")
    serve_definitions(cluster)
    deployment.install("--take-ownership", "--set", "replicaCount=1")
    wait_until_sets_may_own(cluster)
    subject = Subject(cluster, deployment, order.against, order.profile)
    subject.start()
    try:
        yield subject
    finally:
        subject.stop()
        subject.peak.close()


class _Run:
    """A controller goes through the phases of one shape."""

    def __init__(self, cluster: LocalCluster, order: Order, subject: Subject) -> None:
        self._cluster = cluster
        self._order = order
        self._subject = subject
        self._audit = AuditLog(cluster.audit_log, MANAGER)
        self._phases = Phases(cluster.api, order.shape, _BENCH, subject.check)

    def measure(self) -> Result:
        found: dict[str, Result] = {}
        extra: Result = {}
        for name, run in self._phases.all.items():
            if self._order.phases and name not in (*self._order.phases, "create"):
                continue
            if name == "delete" and self._order.foreign:
                extra["foreign"] = self._foreign()
            found[name] = self._measure_phase(name, run)
            if name == "create":
                extra["settled"] = self._settled()
                extra["restart"] = self._restart()
        self._phases.close()
        return {"phases": found, **extra}

    def _measure_phase(self, name: str, run: Callable[[], float]) -> Result:
        former = self._phases.groups
        self._subject.peak.reset()
        before = self._mark()
        seconds = run()
        self._until_quiet()
        after = self._mark()
        groups = {"scale": former - self._phases.groups, "loss": self._phases.lost}.get(name, former)
        asked = self._audit.between(before.place, after.place)
        own, server = after.own.since(before.own), after.server.since(before.server)
        result = {
            "seconds": seconds,
            "groups": groups,
            **_told(asked, groups),
            "cpu": after.cpu - before.cpu,
            "cpu_per_group": (after.cpu - before.cpu) / groups,
            "control_plane_cpu": after.control_plane - before.control_plane,
            "peak_pss": self._subject.peak.bytes,
            "passes": own.by("controller_runtime_reconcile_total", "controller"),
            "objects_listed": objects_listed(server, asked.requests),
            **_quantiles("pod_webhook", partial(pod_webhook_quantile, server)),
            **_quantiles("review", partial(review_quantile, own)),
            **_quantiles("etcd", partial(etcd_quantile, server)),
        }
        self._order.say(
            f"{name}: {seconds:.1f} s, {asked.writes / groups:.2f} writes and {asked.events / groups:.2f} "
            f"Events per group, CPU {result['cpu_per_group']:.4f} s per group"
        )
        return result

    def _settled(self) -> Result:
        """Nothing changes: nothing is to be done."""
        before = self._mark()
        time.sleep(_SETTLED_SECONDS)
        after = self._mark()
        asked = self._audit.between(before.place, after.place)
        share = (after.cpu - before.cpu) / (after.at - before.at)
        self._order.say(f"settled: {asked.writes} writes, {share:.1%} of a core")
        return {"writes": asked.writes, "events": asked.events, "core": share}

    def _foreign(self) -> Result:
        """What belongs to others costs no memory: streams are narrowed by label on the server."""
        count = self._order.foreign
        self._cluster.kubectl("create", "namespace", _FOREIGN)
        self._subject.peak.reset()
        before = self._subject.peak.bytes
        pods = f"/api/v1/namespaces/{_FOREIGN}/pods"
        statefulsets = f"/apis/apps/v1/namespaces/{_FOREIGN}/statefulsets"
        api = self._cluster.api
        for_each(range(count), lambda index: api.create(pods, a_foreign_pod(index)))
        for_each(range(count), lambda index: api.create(statefulsets, a_foreign_statefulset(index)))
        self._until_quiet()
        added = self._subject.peak.bytes - before
        self._order.say(f"foreign: {count} pods and StatefulSets, {added / 1e6:.1f} MB more")
        return {"objects": 2 * count, "pss_before": before, "pss_added": added}

    def _restart(self) -> Result:
        """A new process looks at everything once, and writes nothing."""
        self._subject.stop()
        place, began = self._audit.end, time.monotonic()
        ready = self._subject.start()
        first = self._subject.until_first_pass(began)
        time.sleep(_QUIET_SECONDS)
        self._until_quiet()
        asked = self._audit.between(place)
        cpu = self._subject.cpu
        self._order.say(f"restart: first pass after {first:.1f} s, {asked.writes} writes")
        counts = {"writes": asked.writes, "events": asked.events, "requests": asked.requests, "cpu": cpu}
        return {"ready": ready, "first_pass": first, **counts}

    def _mark(self) -> _Mark:
        # The control plane last: looking at everything else costs it something.
        own, server = self._subject.scrape(), self._subject.server_scrape()
        return _Mark(self._audit.end, self._subject.cpu, control_plane_cpu(self._cluster), own, server)

    def _until_quiet(self) -> None:
        """What follows the end of a phase, such as a last status, belongs to it."""
        deadline = time.monotonic() + _LONGEST_UNREST
        while time.monotonic() < deadline:
            place = self._audit.end
            time.sleep(_QUIET_SECONDS)
            asked = self._audit.between(place)
            if not asked.writes and not asked.events:
                return


def objects_listed(server: Scrape, requests: Mapping[str, int]) -> dict[str, float]:
    """Objects that the API server listed, by resource; only of those that the controller asked for: others
    list pods of a node, or of a namespace, whenever it pleases them.
    """
    found = server.by("apiserver_cache_list_returned_objects_total", "resource")
    return {resource: count for resource, count in found.items() if f"list {resource}" in requests}


def _quantiles(name: str, of: Callable[[float], float | None]) -> Result:
    return {f"{name}_p50": of(0.5), f"{name}_p99": of(0.99)}


def _told(asked: Asked, groups: int) -> Result:
    waits = asked.waits
    return {
        "requests": asked.requests,
        "refused": asked.refused,
        "writes": asked.writes,
        "writes_per_group": asked.writes / groups,
        "events": asked.events,
        "events_per_group": asked.events / groups,
        "lists": asked.lists,
        "wait_p50": waits[len(waits) // 2] if waits else None,
        "wait_p99": waits[min(len(waits) - 1, int(len(waits) * 0.99))] if waits else None,
    }
