"""Measure the share of its CPU time that a manager of 1,600 pods spends on metrics.

The set is settled and has 10 groups of 8 pods, in the form in which a pass reads it. Two figures are the CPU
time for the metrics of any pass, and of a pass over a set. Each is the shortest of thousands of tries, the
one least disturbed by other work on the machine. The third is their share of the CPU time that a group costs
(test/bench/results/REPORT.md).

    python -m test.bench.metrics_cost
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from lws.leaderworkerset import plan as set_plan
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.status.status import SetStatus, StatusInput
from lws.registrations import REGISTRATIONS
from lws.runtime.actions import Key
from lws.runtime.endpoints.metrics import Metrics
from test.unit.builders import make_set
from test.unit.set_world import settled

GROUPS, SIZE = 10, 8
# The CPU time and the number of passes of a creation for each group of a large set, from the page about
# performance.
GROUP_MICROSECONDS, PASSES_OF_A_GROUP = 9670.0, 5.2
_CONTROLLERS = {"set": "leaderworkerset", "group": "pod", "disaggregatedset": "disaggregatedset"}
_TRIES = 4000


def _served() -> Metrics:
    metrics = Metrics()
    for registration in REGISTRATIONS:
        metrics.count(registration.standings)
        metrics.workloads.serve(registration.series)
    metrics.passes.serve(_CONTROLLERS.values(), 32)
    metrics.queue.serve(_CONTROLLERS)
    return metrics


def shortest(act: Callable[[], object]) -> float:
    """Return the shortest CPU time of many tries, in microseconds."""
    best = min(_timed(act) for _ in range(_TRIES))
    return (best - min(_timed(lambda: None) for _ in range(_TRIES))) / 1000


def _timed(act: Callable[[], object]) -> int:
    began = time.thread_time_ns()
    act()
    return time.thread_time_ns() - began


def of_any_pass() -> float:
    """Measure what the queue and the loop count."""
    metrics, key = _served(), Key("group", "ns", "demo-0")

    def once() -> None:
        metrics.queue.due(key)
        metrics.queue.begun(key)
        metrics.passes.begun("pod")
        metrics.passes.ended("pod", "success", 0.01)
        metrics.queue.ended(key)
        metrics.workloads.observe(key, None)

    return shortest(once)


def of_a_set() -> float:
    """Measure what a pass over a set computes for metrics in addition."""
    snapshot = settled(make_set(replicas=GROUPS, size=SIZE))
    observed = StatusInput(snapshot, assess(snapshot).rollout)
    status = SetStatus(snapshot.lws["status"], None)
    workloads, key = _served().workloads, Key("set", snapshot.lws["metadata"]["namespace"], "demo")

    def once() -> None:
        set_plan._standing(status)
        workloads.observe(key, set_plan._figures(observed, status))

    return shortest(once)


def main() -> int:
    """Measure and print the figures."""
    any_pass, a_set = of_any_pass(), of_a_set()
    print(f"any pass: {any_pass:.1f} µs; over a set of {GROUPS} groups: {a_set:.1f} µs more")
    # This assumes that every pass over a group triggers one over its set.
    share = PASSES_OF_A_GROUP * (2 * any_pass + a_set) / GROUP_MICROSECONDS
    print(f"share of the CPU time of a creation: at most {share:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
