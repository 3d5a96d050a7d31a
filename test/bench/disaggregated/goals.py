"""Targets for DisaggregatedSets, and the verdict of one result against them.

Counts must hold on any machine. Other figures are compared with the same LeaderWorkerSets, measured in the
same run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lws import timing
from lws.disaggregatedset.tables import DISAGGREGATED_SET
from lws.leaderworkerset.tables import LEADER_WORKER_SET
from test.bench.disaggregated.creation import SLICES
from test.bench.disaggregated.shape import PairedShape, parse
from test.bench.goals import Verdict

PASS = "disaggregatedset"
"""The name of passes over DisaggregatedSets in metrics."""

_WORKLOADS = (LEADER_WORKER_SET, DISAGGREGATED_SET)
_TIME, _COST = 1.3, 1.25
_REVIEW_MS, _WAIT_SECONDS = 25.0, 1.0
_SETS, _SERVICES, _REVISIONS = "leaderworkersets", "services", "controllerrevisions"
_SCALERS = "disaggregatedsetrolescalers"
_STATUSES = "patch disaggregatedsets/status"
# For one set: when it is created, and for each step of its rollout.
_PASSES_OF_CREATION, _PASSES_OF_A_STEP = 13, 7
# One before the first step, and one after the last.
_STATUSES_BESIDE_STEPS = 2
_ANY = 10**9

Result = dict[str, Any]


def paired_verdicts(result: Result) -> list[Verdict]:
    """Return every verdict on one result."""
    return [*paired_counts(result), *_ratios(result), *_seconds(result)]


def paired_counts(result: Result) -> Iterator[Verdict]:
    """Yield verdicts that hold on any machine, for the set with the most of each write."""
    shape, phases = parse(result["shape"]), result["phases"]
    yield from _writes("create", phases["create"], _on_creation(shape), 2)
    yield from _writes("rollout", phases["rollout"], _in_rollout(shape), shape.steps + _STATUSES_BESIDE_STEPS)
    if sliced := result.get("sliced"):
        yield from _writes("create with slices and a scaler", sliced, _on_creation_of_slices(shape), 2)
    # One at the beginning, one at the end, one for each role in each step, and one for each deletion of a
    # child.
    rolled = phases["rollout"]["most_of_a_set"]
    events = shape.role_count * shape.steps + shape.role_count + 2
    yield Verdict("Events of a set, rollout", _events(rolled), events, True)
    for name, most in (("create", _PASSES_OF_CREATION), ("rollout", _PASSES_OF_A_STEP * shape.steps)):
        yield Verdict(
            f"passes of a set, {name}", phases[name]["passes"].get(PASS, 0) / shape.sets, most, True
        )
    for name in ("create", "rollout", "delete"):
        yield Verdict(f"lists by passes, {name}", _lists(phases[name], phases[name]["seconds"]), 0, True)
    settled = result["settled"]
    yield Verdict("writes in 10 s, settled", settled["writes"], 0, True)
    yield Verdict("lists by passes in 10 s, settled", _lists(settled, 10.0), 0, True)
    yield Verdict("passes in 10 s, settled", settled["passes"].get(PASS, 0), 0, True)
    yield Verdict("writes after a restart, settled", result["restart"]["writes"], 0, True)


def _writes(name: str, phase: Result, expected: dict[str, int], statuses: int) -> Iterator[Verdict]:
    """Yield a verdict for each write: at most as often as expected, and no others."""
    most = phase["most_of_a_set"]
    # A slow machine reports progress more often meanwhile.
    statuses += int(phase["seconds"] / timing.DISAGGREGATED_STATUS_SECONDS)
    for request in sorted(expected):
        yield Verdict(f"{request} of a set, {name}", most.get(request, 0), expected[request], True)
    yield Verdict(f"statuses of a set, {name}", most.get(_STATUSES, 0), statuses, True)
    yield Verdict(f"other writes of a set, {name}", _others(most, {*expected, _STATUSES}), 0, True)


def least_ratio(result: Result) -> float | None:
    """Return the CPU time with a client that only sends the writes and reads the results, divided by `alone`.

    None if this was not measured.
    """
    alone, least = (result.get(side) or {} for side in ("alone", "least"))
    if not alone or not least:
        return None
    alone_cpu = sum(alone[name]["cpu"] for name in ("create", "rollout", "delete"))
    return float(1 + sum(phase["cpu"] for phase in least.values()) / alone_cpu)


def _on_creation(shape: PairedShape) -> dict[str, int]:
    children = dict.fromkeys((f"create {_SETS}", f"create {_SERVICES}"), shape.role_count)
    return {**children, f"create {_REVISIONS}": 1}


def _on_creation_of_slices(shape: PairedShape) -> dict[str, int]:
    """Return the expected writes. One role has a scaler, whose status is written twice."""
    children = {request: count * SLICES for request, count in _on_creation(shape).items()}
    scaler = {f"create {_SCALERS}": 1, f"patch {_SCALERS}/status": 2}
    return {**children, f"create {_REVISIONS}": 1, **scaler}


def _in_rollout(shape: PairedShape) -> dict[str, int]:
    """Return the expected writes.

    There is one for each count that changes, and one for the baseline of each old child.
    """
    deletions = dict.fromkeys((f"delete {_SETS}", f"delete {_SERVICES}"), shape.role_count)
    return {**_on_creation(shape), **deletions, f"patch {_SETS}": shape.changes + shape.role_count}


def _lists(phase: Result, seconds: float) -> int:
    """Return the number of lists, except those of streams and of Events.

    Streams restart, and compare themselves with the API server at intervals, twice if they were behind.
    Passes over LeaderWorkerSets list Events when pods are missing.
    """
    often = 3 + 3 * int(seconds / timing.COMPARE_SETS_SECONDS)
    streams = (resource for workload in _WORKLOADS for resource in (workload.resource, *workload.children))
    expected = {f"list {resource.plural}": often for resource in streams} | {"list events": _ANY}
    lists = {request: count for request, count in phase["requests"].items() if request.startswith("list ")}
    return sum(max(0, count - expected.get(request, 0)) for request, count in lists.items())


def _others(most: dict[str, int], expected: set[str]) -> int:
    return sum(
        count
        for request, count in most.items()
        if request not in expected and not request.endswith(" events")
    )


def _events(most: dict[str, int]) -> int:
    return sum(count for request, count in most.items() if request.endswith(" events"))


def _ratios(result: Result) -> Iterator[Verdict]:
    phases, alone = result["phases"], result["alone"]
    if not alone:
        return

    def ratio(field: str, *names: str) -> float:
        ours, baseline = (sum(side[name][field] for name in names) for side in (phases, alone))
        return float(ours / baseline)

    yield Verdict("created and deleted, time ÷ alone", ratio("seconds", "create", "delete"), _TIME)
    group = alone["rollout"]["seconds_of_steps"][0]
    rollout = phases["rollout"]["seconds"] / (result["steps"] * group)
    yield Verdict("rollout, time ÷ (steps × one group)", rollout, _TIME)
    yield Verdict("rollout, time ÷ the same steps alone", ratio("seconds", "rollout"), _TIME)
    yield Verdict("CPU ÷ alone", ratio("cpu", "create", "rollout", "delete"), _COST)
    memory = [max(phase["peak_pss"] for phase in side.values()) for side in (phases, alone)]
    yield Verdict("peak PSS ÷ alone", memory[0] / memory[1], _COST)


def _seconds(result: Result) -> Iterator[Verdict]:
    for name in ("create", "rollout"):
        p99 = result["phases"][name]["set_review_p99"]
        if p99 is not None:
            yield Verdict(f"review p99 in ms, {name}", p99 * 1000, _REVIEW_MS)
    waits = result["single"].get("step_waits")
    if waits:
        yield Verdict("last pod to next step in s, one set at rest", max(waits), _WAIT_SECONDS)
