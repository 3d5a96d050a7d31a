"""Measure rollouts of slow pods in one cluster: each controller in turn, one rollout after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from lws_api.leaderworkerset.v1 import API_VERSION, KIND
from test.bench.audit import AuditLog
from test.bench.floor import until_pods
from test.bench.manifests import NEW
from test.bench.paced.cases import Case
from test.bench.paced.figures import Turn, ideal, utilisation
from test.bench.paced.turns import Turns
from test.bench.processes import Others
from test.bench.subject import Subject, control_plane_cpu, running
from test.bench.surroundings import NODES, commit, machine
from test.harness.audit import MANAGER
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options

_NAMESPACE = "slow"
_PATIENCE = 1800.0
_QUIET_SECONDS = 2.0

Result = dict[str, Any]


@dataclass(frozen=True)
class PacedOrder:
    """What to measure.

    against: another controller that runs the same rollouts first, in the same cluster. say: a function that
    receives each line of progress.
    """

    cases: Sequence[Case]
    against: str | None = None
    say: Callable[[str], None] = print


def measure_paced(order: PacedOrder) -> Result:
    """Start a cluster, measure, and stop the cluster."""
    others, options = Others(), Options(nodes=NODES, audit_policy=AUDIT_METADATA)
    with LocalCluster(options) as cluster:
        cluster.kubectl("create", "namespace", _NAMESPACE)
        with running(cluster, order.against) as subject:
            before = _measured(cluster, order, subject) if order.against else {}
            if order.against:
                subject.stop()
                subject.against = None
                subject.start()
            ours = _measured(cluster, order, subject)
    return {"commit": commit(), "machine": machine(others), "cases": ours, "against": before}


def _measured(cluster: LocalCluster, order: PacedOrder, subject: Subject) -> dict[str, Result]:
    return {case.name: _Rollout(cluster, subject, case, order.say).measure() for case in order.cases}


class _Rollout:
    """One set: created with fast pods, rolled out to slow pods, and deleted."""

    def __init__(
        self, cluster: LocalCluster, subject: Subject, case: Case, say: Callable[[str], None]
    ) -> None:
        self._api = cluster.api
        self._cluster = cluster
        self._subject = subject
        self._case = case
        self._say = say
        self._audit = AuditLog(cluster.audit_log, MANAGER)
        self._sets = f"/apis/{API_VERSION}/namespaces/{_NAMESPACE}/leaderworkersets"
        self._set = f"{self._sets}/{case.set_name}"

    def measure(self) -> Result:
        case = self._case
        metadata = {"name": case.set_name}
        self._api.create(
            self._sets, {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": case.spec}
        )
        self._until_available()
        time.sleep(_QUIET_SECONDS)
        result = self._rolled()
        self._api.delete(self._set)
        until_pods(self._api, f"/api/v1/namespaces/{_NAMESPACE}/pods")
        self._say(
            f"{case.name}: {result['seconds']:.1f} s, {result['of_ideal']:.3f} of the ideal, "
            f"utilisation {result['utilisation']:.3f}, {result['turnaround']:.2f} s beside each start, "
            f"{result['steps']} steps, {result['writes_per_group']:.2f} writes per group"
        )
        return result

    def _rolled(self) -> Result:
        case, turns = self._case, Turns(self._api, _NAMESPACE, self._case.set_name, NEW)
        turns.follow()
        start, cpu, plane = self._audit.end, self._subject.cpu, control_plane_cpu(self._cluster)
        began = time.monotonic()
        self._api.merge(self._set, case.rolled(NEW))
        turns.wait(case.shape.groups, _PATIENCE, self._subject.check)
        turns.close()
        time.sleep(_QUIET_SECONDS)
        measured = self._audit.between(start)
        steps = sum(count for request, count in measured.requests.items() if request == "patch statefulsets")
        groups = case.shape.groups
        return {
            **figures(case, turns.turns, began),
            "repeated": turns.repeated,
            "steps": steps,
            "writes_per_group": measured.writes / groups,
            "cpu_per_group": (self._subject.cpu - cpu) / groups,
            "control_plane_cpu": control_plane_cpu(self._cluster) - plane,
        }

    def _until_available(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while (status := self._api.get(self._set).get("status") or {}).get(
            "readyReplicas"
        ) != self._case.shape.groups:
            self._subject.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._case.set_name} is not ready: {status}")
            time.sleep(0.2)


def figures(case: Case, turns: dict[int, Turn] | Any, began: float) -> Result:
    """Return the figures of a rollout, computed from its turns.

    turnaround: median seconds of a turn without the start of its leader: the old pods are deleted, and new
    ones are created and scheduled. of_same_turns: the ideal of groups that take their whole turn; it is below
    1 only because of slots that were not refilled.
    """
    order = [index for index in case.order if index in turns]
    lengths = {index: turn.ready - turn.started for index, turn in turns.items()}
    seconds = max(turn.ready for turn in turns.values()) - began
    best = ideal((case.seconds_of(index) for index in order), case.budget)
    by_time = sorted(order, key=lambda index: turns[index].started)
    return {
        "seconds": seconds,
        "ideal": best,
        "of_ideal": best / seconds,
        "of_same_turns": ideal((lengths[index] for index in by_time), case.budget) / seconds,
        "utilisation": utilisation(list(turns.values()), case.budget, began),
        "turnaround": median(lengths[index] - case.seconds_of(index) for index in order),
    }
