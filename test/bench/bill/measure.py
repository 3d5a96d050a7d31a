"""Measure what one rollout costs the control plane, without a controller and with ours.

Measured are the CPU seconds of each control-plane program, requests by sender and kind, and the CPU profile
of the API server by blocks of work.
"""

from __future__ import annotations

import re
import ssl
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from test.bench.audit import is_write
from test.bench.bill import requests
from test.bench.bill.blocks import seconds_by_block
from test.bench.bill.pprof import Stack, stacks
from test.bench.floor import Floor
from test.bench.phases import Phases
from test.bench.processes import Others, cpu_seconds
from test.bench.shapes import Shape
from test.bench.subject import Subject, running
from test.bench.surroundings import NODES, commit, machine
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options
from tools.localcluster.access import read_access
from tools.localcluster.cluster import COMPONENTS

BACKGROUND, BARE, OURS = "floor, background", "floor", "the product"
SERVED = "floor, background, with Services"
# For each baseline: whether it has Services, and whether new pods of a group wait until its old ones are
# gone.
_FLOORS = {BACKGROUND: (False, False), BARE: (False, True), SERVED: (True, False)}
_PROFILE_SECONDS = 5
_QUIET_SECONDS, _LONGEST_UNREST = 2.0, 30.0
_MOVING = ("pods", "statefulsets", "endpoints", "endpointslices", "leaderworkersets")

Result = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What to measure.

    flags: additional flags of each program. has_floors: whether the baselines are measured too. say: a
    function that receives each line of progress.
    """

    shape: Shape
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    has_floors: bool = True
    say: Callable[[str], None] = print


def measure(task: Task) -> Result:
    """Start a cluster, measure, and stop the cluster."""
    options = Options(nodes=NODES, audit_policy=AUDIT_METADATA, extra_flags=task.flags)
    others, bills = Others(), {}
    with LocalCluster(options) as cluster:
        bill = _Bill(cluster, task)
        if task.has_floors:
            for name, (has_services, waits_for_pods) in _FLOORS.items():
                namespace = _create_namespace(cluster, name)
                floor = Floor(cluster.api, task.shape, namespace, has_services, waits_for_pods)
                bills[name] = bill.of(name, floor.phases)
                floor.phases["delete"]()
                floor.close()
        with running(cluster) as subject:
            phases = Phases(cluster.api, task.shape, (_create_namespace(cluster, OURS),), subject.check)
            bills[OURS] = bill.of(OURS, phases.all, subject)
            phases.close()
    return {
        "shape": task.shape.name,
        "groups": task.shape.all_groups,
        "flags": {name: list(flags) for name, flags in task.flags.items()},
        "commit": commit(),
        "machine": machine(others),
        "bills": bills,
    }


def _create_namespace(cluster: LocalCluster, name: str) -> str:
    """Create a separate namespace for one measurement, without leftovers of another, and return it."""
    namespace = re.sub(r"\W+", "-", name).lower()
    cluster.kubectl("create", "namespace", namespace)
    return namespace


class _Bill:
    def __init__(self, cluster: LocalCluster, task: Task) -> None:
        self._cluster = cluster
        self._task = task
        self._log = cluster.audit_log

    def of(
        self, name: str, phases: Mapping[str, Callable[[], float]], subject: Subject | None = None
    ) -> Result:
        """Return the bill of a rollout, after creating the set."""
        phases["create"]()
        self._until_quiet()
        start, before = self._log.stat().st_size, self._cpu(subject)
        profile: Counter[Stack] = Counter()
        with self._profiled(profile):
            seconds = phases["rollout"]()
            self._until_quiet()
        after = self._cpu(subject)
        measured = requests.between(self._log, start, self._log.stat().st_size)
        cpu = {program: after[program] - before[program] for program in after}
        self._task.say(f"{name}: {seconds:.1f} s, API server {cpu['kube-apiserver']:.1f} CPU s")
        return {
            "seconds": seconds,
            "cpu": cpu,
            "requests": [
                [who, request, tally.count, round(tally.seconds, 3)]
                for (who, request), tally in sorted(measured.items())
            ],
            "profile": seconds_by_block(profile),
        }

    def _cpu(self, subject: Subject | None) -> dict[str, float]:
        """Return the CPU seconds of each program since its start."""
        pids = {name: self._cluster.component(name).pid for name in COMPONENTS}
        cpu = {name: cpu_seconds([pid]) for name, pid in pids.items() if pid is not None}
        return cpu if subject is None else {**cpu, requests.OURS: subject.cpu}

    @contextmanager
    def _profiled(self, into: Counter[Stack]) -> Iterator[None]:
        over = threading.Event()

        def take() -> None:
            while not over.is_set():
                for stack, seconds in stacks(self._profile()).items():
                    into[stack] += seconds

        taking = threading.Thread(target=take, daemon=True)
        taking.start()
        yield
        over.set()
        taking.join()

    def _profile(self) -> bytes:
        access = read_access(self._cluster.kubeconfig.read_text())
        address = f"{access.server}/debug/pprof/profile?seconds={_PROFILE_SECONDS}"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {access.token}"})
        trusting = ssl.create_default_context(cadata=access.ca.decode())
        with urllib.request.urlopen(request, timeout=60, context=trusting) as answer:
            data: bytes = answer.read()
            return data

    def _until_quiet(self) -> None:
        """Wait until writes stop: the ones after the end of a phase belong to it, whoever sends them."""
        deadline = time.monotonic() + _LONGEST_UNREST
        while time.monotonic() < deadline:
            start = self._log.stat().st_size
            time.sleep(_QUIET_SECONDS)
            if not _is_moving(self._log, start):
                return


def _is_moving(log: Path, start: int) -> bool:
    """Report whether an object of a kind that sets consist of has been written."""
    measured = requests.between(log, start, log.stat().st_size)
    return any(is_write(request) and request.split()[1].startswith(_MOVING) for _, request in measured)
