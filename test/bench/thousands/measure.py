"""Measure one large shape: creation, start of a new process, rollout and recovery."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from test.bench.audit import STATEFULSET_CONTROLLER
from test.bench.loop_lag import Lag, quantiles, read
from test.bench.meter import Meter
from test.bench.phases import Phases
from test.bench.processes import Others, pss
from test.bench.shapes import Shape
from test.bench.surroundings import NODES, commit, machine
from test.bench.thousands.blocks import shares
from test.bench.thousands.crew import Crew, working
from test.harness.audit import MANAGER
from tools.localcluster import LocalCluster, Options

# The requests of all clients would be gigabytes.
AUDIT_MANAGER = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [MANAGER]},
        {
            "level": "Metadata",
            "users": [STATEFULSET_CONTROLLER],
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods"]}],
        },
        {"level": "None"},
    ],
}
LOST_OF = 100

_PASSES = "controller_runtime_reconcile_total"
_LOOK_SECONDS, _POLL_SECONDS = 600.0, 0.2
_PHASES = ("create", "rollout", "loss")

Result = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What to measure.

    profiles: a directory for them. say: a function that receives each line of progress.
    """

    shape: Shape
    managers: int
    profiles: Path
    say: Callable[[str], None] = print

    @property
    def namespaces(self) -> list[str]:
        """Return one namespace for each set, because a namespace belongs to one manager."""
        return [f"fleet-{index}" for index in range(self.shape.sets)]


def measure(task: Task) -> Result:
    """Start a cluster, measure, and stop the cluster."""
    others, options = Others(), Options(nodes=NODES, audit_policy=AUDIT_MANAGER)
    with LocalCluster(options) as cluster:
        for namespace in task.namespaces:
            cluster.kubectl("create", "namespace", namespace)
        with working(cluster, task.managers, task.profiles) as crew:
            result = _Run(task, cluster, crew).measure()
    lags = [lag for path in task.profiles.glob("*.lag") for lag in read(path)]
    return {
        "shape": task.shape.name,
        "pods": task.shape.all_groups * task.shape.size,
        "managers": task.managers,
        "commit": commit(),
        "machine": machine(others),
        **_with_lags(result, lags),
        "blocks": shares(_stacks(task.profiles)),
    }


def _with_lags(result: Result, lags: list[Lag]) -> Result:
    """Add the loop delays of each phase, selected by the times of its beginning and end."""
    for phase in result["phases"].values():
        phase["loop"] = quantiles(lags, phase.pop("began"), phase.pop("ended"))
    return result


def _stacks(profiles: Path) -> Counter[str]:
    stacks: Counter[str] = Counter()
    for path in profiles.glob("manager-*[0-9]"):
        for line in path.read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            stacks[stack] += int(count)
    return stacks


class _Run:
    def __init__(self, task: Task, cluster: LocalCluster, crew: Crew) -> None:
        self._task = task
        self._crew = crew
        self._meter = Meter(cluster, crew, task.say)
        self._phases = Phases(cluster.api, task.shape, task.namespaces, crew.check, LOST_OF)

    def measure(self) -> Result:
        shape = self._task.shape
        result: Result = {"base_pss": self._memory(), "phases": {}}
        counts = {"create": shape.all_groups, "rollout": shape.all_groups, "loss": self._phases.lost}
        for name in _PHASES:
            result["phases"][name] = self._phase(name, counts[name])
            if name == "create":
                result["created_pss"] = self._memory()
                result["groups_of_each"] = self._crew.groups_of_each(self._task.namespaces, shape.groups)
                result["settled"] = self._meter.settled()
                result["restart"] = self._restart()
        self._phases.close()
        return result

    def _phase(self, name: str, groups: int) -> Result:
        began, before = time.monotonic(), [manager.cpu for manager in self._crew.managers]
        measured = self._meter.phase(name, self._phases.all[name], lambda: groups)
        after = [manager.cpu for manager in self._crew.managers]
        cpu_of_each = [late - early for late, early in zip(after, before, strict=True)]
        return {**measured, "cpu_of_each": cpu_of_each, "began": began, "ended": time.monotonic()}

    def _restart(self) -> Result:
        """Measure a new process in place of the first manager."""
        first, began, start = self._crew.managers[0], time.monotonic(), self._meter.audit.end
        result: Result = {"ready": self._crew.restart_first()}
        if len(self._crew.managers) == 1:
            result["first_pass"] = first.until_first_pass(began)
            result["all_passes"] = self._until_all_passes(began)
        self._crew.until_shared()
        self._meter.until_quiet()
        measured = self._meter.audit.between(start)
        result |= {"writes": measured.writes, "events": measured.events, "requests": measured.requests}
        result |= {"cpu": first.cpu, "pss": first.peak.bytes, "settled_pss": pss(first.pids)}
        self._task.say(f"restart: {result}")
        return result

    def _until_all_passes(self, began: float) -> float:
        """Return the seconds until as many passes have ended as there are sets and groups."""
        keys, deadline = self._task.shape.all_groups + self._task.shape.sets, began + _LOOK_SECONDS
        while self._crew.scrape().total(_PASSES) < keys:
            if time.monotonic() > deadline:
                raise TimeoutError(f"fewer than {keys} passes within {_LOOK_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - began

    def _memory(self) -> list[int]:
        """Return the bytes of each manager."""
        return [pss(manager.pids) for manager in self._crew.managers]
