"""Run as `python -m test.bench.guard`: does the product stay within its budget? Counts, no seconds.

In: 1 × 100 × 4 on a local cluster, budget.json. Out: 0, or 1 and a line for each count above its budget.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from test.bench.measure import Order, measure
from test.bench.shapes import parse
from test.bench.table import columns

BUDGET = Path(__file__).with_name("budget.json")
_PHASES = ("create", "rollout")


def main() -> int:
    """Measure without the floor, compare, tell."""
    budget: dict[str, float] = json.loads(BUDGET.read_text())
    found = counts(measure(Order(parse("1x100x4"), phases=_PHASES, has_floor=False, say=_say)))
    lines = [
        (name, f"{found[name]:.2f}", f"≤ {most:g}", _said(found[name], most)) for name, most in budget.items()
    ]
    print(columns(lines))
    return int(any(found[name] > most for name, most in budget.items()))


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
