"""Run as `python -m test.bench.guard`: check the product's costs against its budget.

The guard compares counts, not seconds. It measures, each on a local cluster: 1 × 100 × 4, a few sets of one
group, a set with Hash groups, failures one by one, a few DisaggregatedSets, and 1 × 40 × 4 of slow pods, to
see how fully a rollout uses its budget. The limits are in budget.json and in the targets. The exit code is 0,
or 1 with a line for each figure beyond its limit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from test.bench.disaggregated.goals import paired_counts
from test.bench.disaggregated.measure import PairedOrder, measure_paired
from test.bench.disaggregated.shape import parse as parse_paired
from test.bench.failure_path import measure as measure_failures
from test.bench.measure import Order, measure
from test.bench.paced.cases import parse_cases
from test.bench.paced.goals import paced_verdicts
from test.bench.paced.measure import PacedOrder, measure_paced
from test.bench.shapes import parse
from test.bench.table import columns

BUDGET = Path(__file__).with_name("budget.json")
_PHASES = ("create", "rollout")
_PAIRED = "ds2x2x2x2"
_PACED = "1x40x4-uniform"
# So few sets that even a slow machine finishes before a status that only reports progress is due.
_OF_ONE = "2x1x4"
# Each group costs three writes: the gate of its leader, its workers, and the status that they are ready.
_HASH = "1x20x4-hash"
_AT_REST, _FAILURES = "1x20x4", 20


def main() -> int:
    """Measure without the baseline, compare with the budget, and print the result."""
    budget, of_paired = budgets()
    measured = counts(measure(Order(parse("1x100x4"), phases=_PHASES, has_floor=False, say=_say)))
    measured |= counts_of_one(measure(Order(parse(_OF_ONE), phases=_PHASES, has_floor=False, say=_say)))
    measured |= counts_of_hash(measure(Order(parse(_HASH), phases=_PHASES, has_floor=False, say=_say)))
    measured |= ratios(measure_failures(parse(_AT_REST), _FAILURES, say=_say))
    paired = measure_paired(PairedOrder(parse_paired(_PAIRED), has_alone=False, say=_say))
    figures = [
        *((name, measured[name], most) for name, most in budget.items()),
        *(
            (name, verdict.figure, min(verdict.bound, of_paired.get(name, verdict.bound)))
            for verdict in paired_counts(paired)
            for name in (f"{_PAIRED}: {verdict.measure}",)
        ),
    ]
    (paced,) = measure_paced(PacedOrder(parse_cases(_PACED), say=_say))["cases"].values()
    # The other ratio includes seconds of the control plane; this one does not.
    least = [verdict for verdict in paced_verdicts(paced) if verdict.measure == "utilisation"]
    lines = [(name, f"{had:.2f}", f"≤ {most:g}", _verdict(had <= most)) for name, had, most in figures]
    lines += [
        (
            f"{_PACED}: {verdict.measure}",
            f"{verdict.figure:.3f}",
            f"≥ {verdict.least:g}",
            _verdict(verdict.holds),
        )
        for verdict in least
    ]
    print(columns(lines))
    return int(any(had > most for _, had, most in figures) or not all(verdict.holds for verdict in least))


def budgets() -> tuple[dict[str, float], dict[str, float]]:
    """Return the limits of counts for LeaderWorkerSets, and for DisaggregatedSets."""
    budget: dict[str, float] = json.loads(BUDGET.read_text())
    of_paired = {name: most for name, most in budget.items() if name.startswith(f"{_PAIRED}: ")}
    return {name: most for name, most in budget.items() if name not in of_paired}, of_paired


def counts(result: dict[str, Any]) -> dict[str, float]:
    """Return every figure that a budget may name."""
    totals: dict[str, float] = {}
    for name, phase in result["phases"].items():
        totals[f"{name}: writes per group"] = phase["writes_per_group"]
        # Each step is a checkpoint and an apply. The number of steps depends on time.
        steps = phase["requests"].get("patch statefulsets", 0)
        totals[f"{name}: writes beside steps, per group"] = (phase["writes"] - 2 * steps) / phase["groups"]
        totals[f"{name}: steps per second"] = steps / phase["seconds"]
        totals[f"{name}: Events per group"] = phase["events_per_group"]
        totals[f"{name}: passes per group"] = sum(phase["passes"].values()) / phase["groups"]
        totals[f"{name}: objects listed"] = sum(phase["objects_listed"].values())
    totals["settled: writes"] = result["settled"]["writes"]
    totals["restart: writes"] = result["restart"]["writes"]
    return totals


def counts_of_one(result: dict[str, Any]) -> dict[str, float]:
    """Return the figures of sets of one group that a budget may name."""
    return {
        f"{_OF_ONE}, {name}: {kind} per set": phase[f"{kind.lower()}_per_group"]
        for name, phase in result["phases"].items()
        for kind in ("writes", "Events")
    }


def counts_of_hash(result: dict[str, Any]) -> dict[str, float]:
    """Return the figures of a set with Hash groups that a budget may name."""
    return {f"{_HASH}, {name}": figure for name, figure in counts(result).items()}


def ratios(failures: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the manager's delays relative to the null controller's.

    They are medians, because a busy machine delays both.
    """
    return {f"{name}, ÷ null controller": delays["ratio p50"] for name, delays in failures.items()}


def _verdict(holds: bool) -> str:
    return "" if holds else "beyond the budget"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
