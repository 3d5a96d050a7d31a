"""Targets for the benchmark, and the verdict of one result against them.

Counts must hold on any machine. Seconds, ratios and CPU need a reader who knows what else the machine did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from test.bench.shapes import parse

_MB = 1e6
# The number of pods for which the target of memory is meant.
_PODS = 1_600
# Ten times the groups may take eleven times the seconds.
_GROWTH = 1.1


@dataclass(frozen=True)
class Verdict:
    """One figure with its bound. is_count: whether it must hold on any machine."""

    measure: str
    figure: float
    bound: float
    is_count: bool = False

    @property
    def holds(self) -> bool:
        return self.figure <= self.bound


def verdicts(result: dict[str, Any]) -> list[Verdict]:
    """Return every verdict on one result."""
    return [*_counts(result), *_costs(result), *_seconds(result)]


def growth(results: Iterable[dict[str, Any]]) -> list[Verdict]:
    """Return the verdicts across results: four times the groups take about four times as long."""
    rollouts = {result["shape"]: result["phases"].get("rollout") for result in results}
    small = rollouts.get("1x100x4")
    larger = {groups: rollouts.get(f"1x{groups}x4") for groups in (400, 1000)}
    return [
        Verdict(
            f"rollout, time({groups}) ÷ time(100)",
            large["seconds"] / small["seconds"],
            _GROWTH * groups / 100,
        )
        for groups, large in larger.items()
        if small and large
    ]


def _counts(result: dict[str, Any]) -> Iterator[Verdict]:
    phases, is_of_one = result["phases"], _is_of_one(result)
    writes = {"create": 6.5 if is_of_one else 1.2, "rollout": 9.0 if is_of_one else 5.0}
    events = {"create": 5.0 if is_of_one else 0.2, "rollout": 6.0 if is_of_one else 0.5}
    for name in ("create", "rollout"):
        # Groups of small sets have their own costs and a large part of the costs of their set.
        if name in phases and (is_of_one or result["shape"].startswith("1x")):
            phase = phases[name]
            yield Verdict(f"writes per group, {name}", phase["writes_per_group"], writes[name], True)
            yield Verdict(f"Events per group, {name}", phase["events_per_group"], events[name], True)
    yield Verdict("writes in 10 s, settled", result["settled"]["writes"], 0, True)
    yield Verdict("writes after a restart, settled", result["restart"]["writes"], 0, True)


def _costs(result: dict[str, Any]) -> Iterator[Verdict]:
    phases, shape = result["phases"], parse(result["shape"])
    for name, bound in (("create", 0.012), ("rollout", 0.020)):
        # There is no target for rollouts of sets of one group.
        if name in phases and not (_is_of_one(result) and name == "rollout"):
            yield Verdict(f"CPU s per group, {name}", phases[name]["cpu_per_group"], bound)
    if shape.all_groups * shape.size <= _PODS:
        yield Verdict("peak PSS in MB", max(phase["peak_pss"] for phase in phases.values()) / _MB, 110)
    if "foreign" in result:
        added = result["foreign"]["pss_added"] / _MB
        yield Verdict(f"MB more beside {result['foreign']['objects']} objects of others", added, 3)
    yield Verdict("share of a core, settled", result["settled"]["core"], 0.01)


def _seconds(result: dict[str, Any]) -> Iterator[Verdict]:
    phases, floor = result["phases"], result["floor"]
    create = phases["create"]["seconds"]
    if "create" in floor:
        bound = 1.6 if _is_of_one(result) else 1.25
        yield Verdict("create, time ÷ floor", create / floor["create"]["seconds"], bound)
    if "rollout" in phases and not _is_of_one(result):
        bound = 2.0 if result["shape"].startswith("1x") else 2.5
        yield Verdict("rollout, time ÷ create time", phases["rollout"]["seconds"] / create, bound)
    if phases["create"]["pod_webhook_p99"] is not None:
        yield Verdict("pod webhook p99 in ms, create", phases["create"]["pod_webhook_p99"] * 1000, 25)
    yield Verdict("start to first pass in s", result["restart"]["first_pass"], 3)


def _is_of_one(result: dict[str, Any]) -> bool:
    return parse(result["shape"]).groups == 1
