"""Measure one shape in a cluster of its own: first the baseline, then a controller in the same phases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from test.bench.crowd import for_each
from test.bench.floor import Floor
from test.bench.manifests import a_foreign_pod, a_foreign_statefulset
from test.bench.meter import Meter
from test.bench.phases import Phases
from test.bench.processes import Others
from test.bench.shapes import Shape
from test.bench.subject import Subject, control_plane_cpu, running
from test.bench.surroundings import NODES, commit, machine
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options

_FLOOR, _SERVED_FLOOR, _BENCH, _FOREIGN = "floor", "floor-with-services", "bench", "foreign"
_SERVED_PHASES = ("create", "rollout", "delete")

Result = dict[str, Any]


@dataclass(frozen=True)
class Order:
    """What to measure.

    phases: names of phases, all if empty. foreign: the number of foreign pods, and of foreign StatefulSets,
    that are created before the sets are deleted. say: a function that receives each line of progress.
    """

    shape: Shape
    against: str | None = None
    profile: Path | None = None
    phases: tuple[str, ...] = ()
    has_floor: bool = True
    foreign: int = 0
    say: Callable[[str], None] = print


def measure(order: Order) -> Result:
    """Start a cluster, measure, and stop the cluster."""
    others, options = Others(), Options(nodes=NODES, audit_policy=AUDIT_METADATA)
    with LocalCluster(options) as cluster:
        for namespace in (_FLOOR, _SERVED_FLOOR, _BENCH):
            cluster.kubectl("create", "namespace", namespace)
        floors = _measure_floors(cluster, order) if order.has_floor else {"floor": {}, "served_floor": {}}
        with running(cluster, order.against, order.profile) as subject:
            result = _Run(cluster, order, subject).measure()
    return {**_header(order, others), **floors, **result}


def _header(order: Order, others: Others) -> Result:
    return {
        "shape": order.shape.name,
        "groups": order.shape.all_groups,
        "against": order.against,
        "commit": commit(),
        "machine": machine(others),
    }


def _measure_floors(cluster: LocalCluster, order: Order) -> Result:
    """Measure without and with the sets' Services, whose endpoints cost the control plane with every pod."""
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
    """Measure one baseline. phases: names of phases, all if empty."""
    measured: Result = {}
    for name, run in floor.phases.items():
        if order.phases and name not in (*order.phases, "create", "delete"):
            continue
        if phases and name not in phases:
            continue
        before = control_plane_cpu(cluster)
        seconds = run()
        measured[name] = {"seconds": seconds, "control_plane_cpu": control_plane_cpu(cluster) - before}
        order.say(f"{title} {name}: {seconds:.1f} s")
    floor.close()
    return measured


class _Run:
    """A run of a controller through the phases of one shape."""

    def __init__(self, cluster: LocalCluster, order: Order, subject: Subject) -> None:
        self._cluster = cluster
        self._order = order
        self._subject = subject
        self._meter = Meter(cluster, subject, order.say)
        self._phases = Phases(cluster.api, order.shape, (_BENCH,), subject.check)

    def measure(self) -> Result:
        phases: dict[str, Result] = {}
        extra: Result = {}
        for name, run in self._phases.all.items():
            if self._order.phases and name not in (*self._order.phases, "create"):
                continue
            if name == "delete" and self._order.foreign:
                extra["foreign"] = self._foreign()
            phases[name] = self._meter.phase(name, run, self._groups_of(name))
            if name == "create":
                extra["settled"] = self._meter.settled()
                extra["restart"] = self._meter.restart(self._subject)
        self._phases.close()
        return {"phases": phases, **extra}

    def _groups_of(self, phase: str) -> Callable[[], int]:
        """Return a function for the number of groups in a phase, to be called after the phase."""
        former = self._phases.groups
        counts = {"scale": lambda: former - self._phases.groups, "loss": lambda: self._phases.lost}
        return counts.get(phase, lambda: former)

    def _foreign(self) -> Result:
        """Measure that foreign objects cost no memory: the server narrows streams by label."""
        count = self._order.foreign
        self._cluster.kubectl("create", "namespace", _FOREIGN)
        self._subject.peak.reset()
        before = self._subject.peak.bytes
        pods = f"/api/v1/namespaces/{_FOREIGN}/pods"
        statefulsets = f"/apis/apps/v1/namespaces/{_FOREIGN}/statefulsets"
        api = self._cluster.api
        for_each(range(count), lambda index: api.create(pods, a_foreign_pod(index)))
        for_each(range(count), lambda index: api.create(statefulsets, a_foreign_statefulset(index)))
        self._meter.until_quiet()
        added = self._subject.peak.bytes - before
        self._order.say(f"foreign: {count} pods and StatefulSets, {added / 1e6:.1f} MB more")
        return {"objects": 2 * count, "pss_before": before, "pss_added": added}
