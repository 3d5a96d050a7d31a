"""Measure how long a group takes to be recreated after a worker's process was killed, step by step.

The times come from the audit log. `make bench-node` prints the seconds as a table.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from test.harness.audit import MANAGER
from test.harness.waiting import eventually
from test.node.groups import SECONDS, Groups, Pod, manifest, member
from tools.deployment import CHART, NAMESPACE
from tools.localcluster import Options
from tools.realnode.cluster import RealCluster
from tools.realnode.kit import read_kit

AUDIT: dict[str, object] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["patch"],
            "resources": [{"group": "", "resources": ["pods/status"]}],
        },
        {
            "level": "Metadata",
            "verbs": ["create", "delete", "patch"],
            "resources": [
                {"group": "", "resources": ["pods"]},
                {"group": "apps", "resources": ["statefulsets"]},
            ],
        },
        {"level": "None"},
    ],
}
"""The audit policy of the measured cluster: who wrote what, and when it was answered."""

STRETCHES = {
    "kubelet": "from the kill until the kubelet reports the restart",
    "manager, deletes": "until the manager has had the leader deleted",
    "old pods": "until they are gone and the StatefulSet controller has made the new leader",
    "manager, creates": "until the manager has made the StatefulSet of the workers",
    "new workers": "until the StatefulSet controller has made them",
}
OURS = ("manager, deletes", "manager, creates")

_NAME = "timed"
_ROUNDS = 8

Entry = dict[str, Any]


@dataclass(frozen=True)
class Recreation:
    """The times of one recreation, in seconds since the epoch: the kill, and the end of each step."""

    moments: tuple[float, ...]

    @property
    def stretches(self) -> dict[str, float]:
        ends = self.moments[1:]
        return {
            name: end - start for name, start, end in zip(STRETCHES, self.moments[:-1], ends, strict=True)
        }

    @property
    def ours(self) -> float:
        return sum(self.stretches[name] for name in OURS)

    @property
    def total(self) -> float:
        return self.moments[-1] - self.moments[0]


def measured(groups: Groups, rounds: int) -> list[Recreation]:
    """Kill one worker's process in each of `rounds` groups, one after the other."""
    groups.apply(manifest(_NAME, {"replicas": rounds}, {"containers": [member()]}))
    groups.ready(_NAME, 2 * rounds)
    return [_one(groups, f"{_NAME}-{index}", 2 * rounds) for index in range(rounds)]


def table(recreations: Sequence[Recreation]) -> list[str]:
    """Return lines of Markdown with milliseconds."""
    rows = {name: [recreation.stretches[name] for recreation in recreations] for name in STRETCHES}
    lines = ["| stretch | p50 in ms | slowest | |", "| --- | --- | --- | --- |"]
    lines += [_row(name, values, STRETCHES[name]) for name, values in rows.items()]
    lines.append(_row("**ours**", [recreation.ours for recreation in recreations], "the two of the manager"))
    lines.append(
        _row("**all**", [recreation.total for recreation in recreations], "from the kill to the new worker")
    )
    return lines


def main() -> int:
    """Measure inside a node, and print the table."""
    with RealCluster(read_kit(), Options(audit_policy=AUDIT)) as cluster:
        arguments = ("install", "lws", str(CHART), "--namespace", NAMESPACE, "--create-namespace")
        cluster.helm(*arguments, "--wait", "--timeout", "300s")
        with Groups(cluster, "recreation").in_own_namespace() as groups:
            print("", *table(measured(groups, _ROUNDS)), "", sep="\n")
    return 0


def _one(groups: Groups, leader: str, pods: int) -> Recreation:
    worker, offset = f"{leader}-1", groups.cluster.audit_log.stat().st_size
    killed = _kill(groups.pods(_NAME)[worker])
    moments = eventually(
        f"the group of {leader} is recreated",
        lambda: _moments(_entries(groups.cluster.audit_log, offset, groups.namespace), leader, worker),
        lambda now: len(now) == len(STRETCHES),
        SECONDS,
    )
    groups.ready(_NAME, pods)
    return Recreation((killed, *moments))


def _kill(pod: Pod) -> float:
    """Kill the process in the pod's container with SIGKILL, and return the time."""
    mark = f"pod{pod['metadata']['uid']}"
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (path / "cgroup").read_text() and b"serve" in (path / "cmdline").read_bytes():
                now = time.time()
                os.kill(int(path.name), signal.SIGKILL)
                return now
    raise LookupError(f"{pod['metadata']['name']} runs no process")


def _moments(entries: Sequence[Entry], leader: str, worker: str) -> tuple[float, ...]:
    """Return the end of each step in order, up to the last one that has ended."""
    marks = (
        lambda entry: _is(entry, "pods/status", worker, "patch") and _reports_restart(entry),
        lambda entry: _is(entry, "pods", leader, "delete") and _is_ours(entry),
        lambda entry: _is(entry, "pods", leader, "create"),
        lambda entry: _is(entry, "statefulsets", leader, "create", "patch") and _is_ours(entry),
        lambda entry: _is(entry, "pods", worker, "create"),
    )
    moments = list[float]()
    for is_mark in marks:
        match = next((entry for entry in entries if is_mark(entry)), None)
        if match is None:
            break
        answered = datetime.fromisoformat(match["stageTimestamp"]).timestamp()
        # Watchers see an object before its creator has the answer.
        moments.append(max(answered, *moments[-1:], 0.0))
    return tuple(moments)


def _is_ours(entry: Entry) -> bool:
    return bool(entry["user"]["username"] == MANAGER)


def _is(entry: Entry, resource: str, name: str, *verbs: str) -> bool:
    target = entry["objectRef"]
    path = "/".join(filter(None, (target["resource"], target.get("subresource"))))
    is_done = entry["responseStatus"]["code"] < 300
    return is_done and (path, target.get("name")) == (resource, name) and entry["verb"] in verbs


def _reports_restart(entry: Entry) -> bool:
    statuses = entry["requestObject"].get("status", {}).get("containerStatuses", [])
    return any(status.get("restartCount") for status in statuses)


def _entries(log: Path, offset: int, namespace: str) -> list[Entry]:
    """Return entries in the order of the answers; lines of the same instant may be swapped in the log."""
    return sorted(_written(log, offset, namespace), key=lambda entry: str(entry["stageTimestamp"]))


def _written(log: Path, offset: int, namespace: str) -> Iterator[Entry]:
    with log.open("rb") as file:
        file.seek(offset)
        for line in file:
            # The last line may be incomplete.
            if line.endswith(b"\n"):
                entry: Entry = json.loads(line)
                if (entry.get("objectRef") or {}).get("namespace") == namespace:
                    yield entry


def _row(name: str, seconds: Sequence[float], meaning: str) -> str:
    half, most = (round(1000 * value) for value in (statistics.median(seconds), max(seconds)))
    return f"| {name} | {half} | {most} | {meaning} |"


if __name__ == "__main__":
    sys.exit(main())
