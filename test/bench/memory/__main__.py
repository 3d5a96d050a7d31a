"""Run as `python -m test.bench.memory [SHAPE]`: show what a manager's memory consists of after a rollout.

A shape is, for example, 200x1x4. The first table has, before and after each phase, the MB of the process, the
part of them in the C library's heap, where TLS has its buffers, and the number of open connections. The
second has the MB of the objects of each kind at the end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from test.bench.memory.inside import LOOK_UPS
from test.bench.phases import Phases
from test.bench.processes import heap, pss, sockets
from test.bench.progress import clocked
from test.bench.shapes import Shape, parse
from test.bench.subject import Subject, deployed
from test.bench.surroundings import NODES
from test.bench.table import columns
from test.harness.waiting import eventually
from tools.localcluster import LocalCluster, Options

PHASES = ("create", "rollout")

_NAMESPACE, _MB = "bench", 1e6


def main() -> int:
    """Measure and print both tables."""
    shape, say = parse(sys.argv[1] if len(sys.argv) > 1 else "200x1x4"), clocked()
    say(f"{shape.label}: a cluster, and a manager")
    with tempfile.TemporaryDirectory() as directory, LocalCluster(Options(nodes=NODES)) as cluster:
        cluster.kubectl("create", "namespace", _NAMESPACE)
        report = Path(directory) / "kept.json"
        deployment = deployed(cluster, "--set", "replicaCount=1")
        subject = Subject(cluster, deployment, profile=report, runner="test.bench.memory.inside")
        subject.start()
        phases = Phases(cluster.api, shape, (_NAMESPACE,), subject.check)
        try:
            lines = [("", "PSS MB", "C heap MB", "connections"), _line("started", subject)]
            for name in PHASES:
                say(f"{name}: {phases.all[name]():.1f} s")
                lines.append(_line(name, subject))
            # This comes last: inspecting all objects takes memory, which the process keeps.
            os.kill(subject.pids[0], signal.SIGUSR1)
            eventually("it says what it keeps", report.exists, seconds=60)
        finally:
            phases.close()
            subject.stop()
            subject.peak.close()
        print(columns(lines), columns(_kinds(json.loads(report.read_text()), shape)), sep="\n\n")
    return 0


def _line(phase: str, subject: Subject) -> tuple[str, ...]:
    pids = subject.pids
    return (phase, f"{pss(pids) / _MB:.1f}", f"{heap(pids) / _MB:.1f}", str(sockets(pids)))


def _kinds(sizes: dict[str, list[int]], shape: Shape) -> list[tuple[str, ...]]:
    lines = [("kept of", "objects", "MB", "kB each", "kB for each group")]
    for kind, (number, size) in sorted(sizes.items(), key=lambda item: -item[1][1]):
        if number or kind == LOOK_UPS:
            per_object = f"{size / number / 1e3:.1f}" if number else "–"
            group = f"{size / shape.all_groups / 1e3:.1f}"
            lines.append((kind, str(number), f"{size / _MB:.1f}", per_object, group))
    return lines


if __name__ == "__main__":
    sys.exit(main())
