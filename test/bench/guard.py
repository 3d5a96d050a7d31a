"""Run as `python -m test.bench.guard`: does the product stay within its budget? Counts, no seconds.

In: 1 × 100 × 4 and a few DisaggregatedSets, each on a local cluster; budget.json, and what is to be reached.
Out: 0, or 1 and a line for each count above that.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from test.bench.disaggregated.goals import paired_counts
from test.bench.disaggregated.measure import PairedOrder, measure_paired
from test.bench.disaggregated.shape import parse as parse_paired
from test.bench.measure import Order, measure
from test.bench.shapes import parse
from test.bench.table import columns

BUDGET = Path(__file__).with_name("budget.json")
_PHASES = ("create", "rollout")
_PAIRED = "ds2x2x2x2"


def main() -> int:
    """Measure without the floor, compare, tell."""
    budget: dict[str, float] = json.loads(BUDGET.read_text())
    found = counts(measure(Order(parse("1x100x4"), phases=_PHASES, has_floor=False, say=_say)))
    paired = measure_paired(PairedOrder(parse_paired(_PAIRED), has_alone=False, say=_say))
    figures = [
        *((name, found[name], most) for name, most in budget.items()),
        *((f"{_PAIRED}: {each.measure}", each.figure, each.bound) for each in paired_counts(paired)),
    ]
    print(columns([(name, f"{had:.2f}", f"≤ {most:g}", _said(had, most)) for name, had, most in figures]))
    return int(any(had > most for _, had, most in figures))


def counts(result: dict[str, Any]) -> dict[str, float]:
    """Everything that a budget may name."""
    found: dict[str, float] = {}
    for name, phase in result["phases"].items():
        found[f"{name}: writes per group"] = phase["writes_per_group"]
        found[f"{name}: Events per group"] = phase["events_per_group"]
        found[f"{name}: passes per group"] = sum(phase["passes"].values()) / phase["groups"]
        found[f"{name}: objects listed"] = sum(phase["objects_listed"].values())
    found["settled: writes"] = result["settled"]["writes"]
    found["restart: writes"] = result["restart"]["writes"]
    return found


def _said(figure: float, most: float) -> str:
    return "" if figure <= most else "above the budget"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
