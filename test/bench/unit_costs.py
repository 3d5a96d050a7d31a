"""Measure what a group costs the active manager and a standby, as plain data for JSON."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from typing import Any

from test.bench.audit import AuditLog
from test.bench.phases import Phases
from test.bench.processes import Others, cpu_seconds, family, pss
from test.bench.shapes import Shape
from test.bench.streams import Taps
from test.bench.subject import Subject, deployed
from test.bench.surroundings import NODES, commit
from test.harness.audit import MANAGER
from test.harness.waiting import eventually
from tools.deployment import ManagerProcess
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options

PHASES = ("create", "rollout")

_QUIET_SECONDS, _LONGEST_UNREST = 3.0, 60.0
_REST_CORE = 0.02
_NAMESPACE = "bench"


def measure(shape: Shape) -> dict[str, Any]:
    """Measure two managers, one of them active, while sets of this shape are created and rolled out."""
    others = Others()
    with LocalCluster(Options(nodes=NODES, audit_policy=AUDIT_METADATA)) as cluster:
        cluster.kubectl("create", "namespace", _NAMESPACE)
        deployment = deployed(cluster)
        acting = Subject(cluster, deployment)
        acting.start()
        first = deployment.managers[-1]
        eventually("it acts", lambda: "held by this manager" in first.log_path.read_text(), seconds=60)
        following = deployment.manager("--zap-log-level=2").start().wait_ready()
        try:
            measured = _Run(cluster, shape, acting, following).measure()
        finally:
            deployment.stop()
            acting.peak.close()
    return {
        "shape": shape.name,
        "sets": shape.sets,
        "pods": shape.all_groups * shape.size,
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "others": round(others.cores(), 2),
        },
        **measured,
    }


@dataclass
class _Run:
    cluster: LocalCluster
    shape: Shape
    acting: Subject
    following: ManagerProcess

    def measure(self) -> dict[str, Any]:
        audit, taps = AuditLog(self.cluster.audit_log, MANAGER), Taps(self.cluster.api)
        phases = Phases(self.cluster.api, self.shape, (_NAMESPACE,), self.acting.check)
        empty, measured = self._memory(), {}
        for name in PHASES:
            start, before = audit.end, self._cpu()
            taps.take()
            phases.all[name]()
            self._until_quiet(audit)
            after, requests = self._cpu(), audit.between(start)
            measured[name] = {
                "streams": taps.take(),
                "writes": requests.writes,
                "events": requests.events,
                "cpu": [late - early for late, early in zip(after, before, strict=True)],
            }
            if name == "create":
                created = {"list_bytes": taps.list_bytes(), "pss": self._memory()}
        look = self._first_look()
        taps.close()
        phases.close()
        return {"commit": commit(), "pss_empty": empty, "created": created, "phases": measured, "look": look}

    def _first_look(self) -> dict[str, float]:
        """Return the CPU seconds of a pass over every set and group without work."""
        self.acting.stop()
        before = cpu_seconds(family(self.following.pid))
        log = self.following.log_path
        eventually("the other acts", lambda: "held by this manager" in log.read_text(), seconds=60)
        last = before
        while True:
            time.sleep(_QUIET_SECONDS)
            now = cpu_seconds(family(self.following.pid))
            # An idle manager uses a hundredth of a core.
            if now - last < _REST_CORE * _QUIET_SECONDS:
                return {"cpu": now - before}
            last = now

    def _cpu(self) -> list[float]:
        """Return the CPU seconds of the active manager, and of the standby."""
        return [self.acting.cpu, cpu_seconds(family(self.following.pid))]

    def _memory(self) -> list[int]:
        """Return the bytes of the active manager, and of the standby."""
        return [pss(self.acting.pids), pss(family(self.following.pid))]

    def _until_quiet(self, audit: AuditLog) -> None:
        deadline = time.monotonic() + _LONGEST_UNREST
        while time.monotonic() < deadline:
            start = audit.end
            time.sleep(_QUIET_SECONDS)
            requests = audit.between(start)
            if not requests.writes and not requests.events:
                return
