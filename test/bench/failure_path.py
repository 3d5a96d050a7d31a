"""Measure how soon the manager acts on urgent events, compared with a controller that decides nothing.

The shape is settled or in a rollout. Two delays are read from the audit log of the API server, in
milliseconds: from the status of a worker whose container restarted to the deletion of its leader, and from
the creation of a leader to the creation of its workers' StatefulSet. Two things are left out: leaders that a
gate held until their former group was deleted, and the time that the server takes to store the record that
must precede the deletion of a group. The same delays are measured for a null controller, which answers each
of these events with a read. A third measurement, by the manager's own clock, runs from the event to the
request (`own_time`).

    python -m test.bench.failure_path 1x400x4 100             # failures one by one, everything else settled
    python -m test.bench.failure_path 1x400x4 100 rollout     # from the bottom up, while a rollout comes down
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lws_api.leaderworkerset.v1 import NAME_LABEL, WORKER_INDEX_LABEL
from test.bench import own_time
from test.bench.audit import STATEFULSET_CONTROLLER, AuditLog, seconds_of
from test.bench.ledger import SETS, STATEFULSETS, Ledger
from test.bench.manifests import OLD, group_name, set_name
from test.bench.meter import Meter
from test.bench.phases import Phases
from test.bench.shapes import Shape, parse
from test.bench.subject import running
from test.bench.surroundings import NODES
from test.harness.audit import MANAGER
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options
from tools.localcluster.access import read_access
from tools.localcluster.api import Api, ApiError, Call
from tools.localcluster.pods import Pods

_NAMESPACE, _CONTAINER = "bench", "server"
_ECHO = "null-controller"
_SECONDS = 120.0

FAILED, MADE = "failed worker to deletion", "new leader to its workers"


class Echo:
    """A controller that watches the pods of sets, and answers each restarted or new pod with a read."""

    def __init__(self, cluster: LocalCluster) -> None:
        access = read_access(cluster.kubeconfig.read_text())
        self._api = Api(access.server, access.ca, access.token, _ECHO)
        self._pods = f"/api/v1/namespaces/{_NAMESPACE}/pods"
        self._seen: set[str] = set()
        self._is_over = False

    def start(self) -> None:
        """Watch from now on, until `stop`."""
        listed = self._api.get(self._pods)
        self._seen = {pod["metadata"]["uid"] for pod in listed["items"]}
        threading.Thread(
            target=self._follow, args=(listed["metadata"]["resourceVersion"],), daemon=True
        ).start()

    def stop(self) -> None:
        self._is_over = True

    def _follow(self, version: str) -> None:
        query = {"watch": "1", "resourceVersion": version, "labelSelector": NAME_LABEL}
        with suppress(OSError):
            for event in self._api.watch(Call("GET", self._pods, query=query)):
                if self._is_over:
                    return
                self._take(event["type"], event["object"])

    def _take(self, type_: str, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        is_leader = metadata["labels"].get(WORKER_INDEX_LABEL) == "0"
        if is_leader and type_ == "ADDED":
            self._read(metadata["name"])
        elif not is_leader and f"{metadata['uid']} failed" not in self._seen and _has_restarted(pod):
            self._seen.add(f"{metadata['uid']} failed")
            self._read(f"{metadata['name'].rpartition('-')[0]}/status")

    def _read(self, path: str) -> None:
        # The object may be gone already; only the request counts.
        with suppress(ApiError):
            self._api.get(f"{self._pods}/{path}")


def _has_restarted(pod: dict[str, Any]) -> bool:
    return any(status.get("restartCount") for status in pod.get("status", {}).get("containerStatuses") or ())


@dataclass(frozen=True)
class Waits:
    """Seconds of each event until the manager's request, and until the null controller's."""

    ours: list[float]
    null: list[float]

    def figures(self) -> dict[str, float]:
        """Return the quantiles in milliseconds.

        own: the manager's delay beyond the null controller's, computed for each event.
        """
        own = [max(0.0, ours - null) for ours, null in zip(self.ours, self.null, strict=True)]
        result: dict[str, float] = {"events": len(own)}
        for name, values in (("ours", self.ours), ("null", self.null), ("own", own)):
            for share in (0.5, 0.99):
                result[f"{name} p{100 * share:.0f}"] = 1000 * _quantile(values, share)
        result["ratio p50"] = _quantile(self.ours, 0.5) / max(_quantile(self.null, 0.5), 1e-4)
        result["ratio p99"] = _quantile(self.ours, 0.99) / max(_quantile(self.null, 0.99), 1e-4)
        return result


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(
    shape: Shape, times: int, in_rollout: bool = False, say: Callable[[str], None] = print
) -> dict[str, dict[str, float]]:
    """Measure the delays while one worker after the other fails.

    Everything else is settled, or is rolled out meanwhile. In the settled case, as many groups are added
    afterwards. times: the number of failures; there are fewer if the rollout ends earlier.
    """
    options = Options(nodes=NODES, audit_policy=AUDIT_METADATA)
    with LocalCluster(options) as cluster, tempfile.TemporaryDirectory() as folder:
        cluster.kubectl("create", "namespace", _NAMESPACE)
        with running(cluster, profile=Path(folder, "manager")) as subject:
            phases = Phases(cluster.api, shape, (_NAMESPACE,), subject.check)
            say(f"create: {phases.all['create']():.1f} s")
            meter = Meter(cluster, subject, say)
            meter.until_quiet()
            start, began, echo = meter.audit.end, time.monotonic(), Echo(cluster)
            echo.start()
            if in_rollout:
                with ThreadPoolExecutor(1) as pool:
                    rollout = pool.submit(phases.all["rollout"])
                    _fail(cluster, shape, times, rollout.done)
                    say(f"rollout: {rollout.result():.1f} s")
            else:
                _fail(cluster, shape, times)
                _add(cluster, shape, times)
            meter.until_quiet()
            echo.stop()
            phases.close()
            waits = waits_in(meter.audit, start)
            figures_by_name = {name: measured.figures() for name, measured in waits.items() if measured.ours}
        events = [event for path in Path(folder).glob("*.own") for event in own_time.read(path)]
    kinds = {FAILED: own_time.FAILED, MADE: own_time.MADE}
    return {
        name: figures | own_time.figures(events, kinds[name], began)
        for name, figures in figures_by_name.items()
    }


def _fail(
    cluster: LocalCluster, shape: Shape, times: int, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Restart a worker of one group after the other, each time after the previous group is ready again.

    Stop when `is_over`, or when a rollout has come down to the next group.
    """
    pods, ledger = Pods(cluster.api), Ledger(cluster.api, _NAMESPACE, STATEFULSETS, SETS)
    every = [group_name(index, group) for index in range(shape.sets) for group in range(shape.groups)]
    for name in every[:times]:
        if is_over() or ledger.statefulsets[name].image != OLD:
            break
        former = ledger.statefulsets[name].uid
        pods.restart_container(_NAMESPACE, f"{name}-1", _CONTAINER)

        def missing(name: str = name, former: str = former) -> str:
            statefulset = ledger.statefulsets.get(name)
            is_there = statefulset is not None and statefulset.uid != former and statefulset.is_ready
            return "" if is_there else f"{name} is not there again"

        ledger.wait(missing, _SECONDS)
    ledger.close()


def _add(cluster: LocalCluster, shape: Shape, times: int) -> None:
    """Scale the first set up by one group at a time, each time after the previous group is ready."""
    ledger = Ledger(cluster.api, _NAMESPACE, STATEFULSETS, SETS)
    path = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{_NAMESPACE}/leaderworkersets/{set_name(0)}"
    for group in range(shape.groups, shape.groups + times):
        cluster.api.merge(path, {"spec": {"replicas": group + 1}})

        def missing(name: str = group_name(0, group)) -> str:
            statefulset = ledger.statefulsets.get(name)
            return "" if statefulset is not None and statefulset.is_ready else f"{name} is not there"

        ledger.wait(missing, _SECONDS)
    ledger.close()


def waits_in(audit: AuditLog, start: int) -> dict[str, Waits]:
    """Return the delays after each failure and each new leader in the log."""
    since: dict[tuple[str, str], float] = {}
    ours: dict[tuple[str, str], float] = {}
    null: dict[tuple[str, str], float] = {}
    gated: set[str] = set()
    # Writes of the record that must precede a deletion; the manager waits for their answers.
    remembering: list[tuple[float, float]] = []
    for entry in audit.entries(start, None, MANAGER, STATEFULSET_CONTROLLER, _ECHO, "/status"):
        target, verb, user = entry.get("objectRef") or {}, entry["verb"], entry["user"]["username"]
        name, request = target.get("name", ""), (verb, target.get("resource"), target.get("subresource"))
        began = seconds_of(entry["requestReceivedTimestamp"])
        if entry.get("userAgent") == _ECHO:
            if verb == "get":
                null.setdefault((FAILED if target.get("subresource") else MADE, name), began)
        elif user == MANAGER and request == ("delete", "pods", None):
            ours.setdefault((FAILED, name), began)
        elif user == MANAGER and request == ("patch", "pods", None):
            gated.add(name)
        elif user == MANAGER and request == ("patch", "leaderworkersets", "status"):
            remembering.append((began, seconds_of(entry["stageTimestamp"])))
        elif user == MANAGER and request == ("create", "statefulsets", None):
            ours.setdefault((MADE, name), began)
        elif user == STATEFULSET_CONTROLLER and request == ("create", "pods", None):
            since.setdefault((MADE, name), seconds_of(entry["stageTimestamp"]))
        elif request == ("patch", "pods", "status") and entry.get("userAgent") == "localcluster":
            since.setdefault((FAILED, name.rpartition("-")[0]), seconds_of(entry["stageTimestamp"]))
    since = {key: at for key, at in since.items() if key[0] != MADE or key[1] not in gated}
    for key in ours.keys() & since.keys():
        ours[key] -= sum(end - began for began, end in remembering if since[key] < end and began < ours[key])
    return {kind: _paired(kind, since, ours, null) for kind in (FAILED, MADE)}


def _paired(kind: str, since: dict[Any, float], ours: dict[Any, float], null: dict[Any, float]) -> Waits:
    keys = [key for key in since if key[0] == kind and key in ours and key in null]
    # A watch event leaves the API server a moment before the response to the write is logged.
    return Waits(
        [max(0.0, ours[key] - since[key]) for key in keys], [max(0.0, null[key] - since[key]) for key in keys]
    )


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    values = [*arguments, *("1x400x4", "100", "rest")[len(arguments) :]]
    print(json.dumps(measure(parse(values[0]), int(values[1]), values[2] == "rollout"), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
