"""Targets for thousands of groups, relative to a result of 400 groups by the same command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from test.bench.goals import Verdict

REFERENCE = "1x400x4"

_GROWTH, _BYTES_OF_A_POD = 1.15, 25_000
_FIRST_PASS_SECONDS, _REVIEW_MS, _LAG_MS = 10.0, 20.0, 50.0
_MOVING = ("create", "rollout")

Result = dict[str, Any]


def verdicts(result: Result, reference: Result | None) -> Iterator[Verdict]:
    """Yield the verdicts on one result.

    Growth is judged only for one manager, because each of several managers decodes every event.
    """
    phases = result["phases"]
    if reference is not None and result["managers"] == 1 and result["shape"] != REFERENCE:
        for name in _MOVING:
            for field, title in (("cpu_per_group", "CPU"), ("writes_per_group", "writes")):
                ratio = phases[name][field] / reference["phases"][name][field]
                measure = f"{title} per group ÷ that of {REFERENCE}, {name}"
                yield Verdict(measure, ratio, _GROWTH, is_count=field == "writes_per_group")
    yield Verdict("kB for each pod, over the base", bytes_of_a_pod(result) / 1e3, _BYTES_OF_A_POD / 1e3)
    if "first_pass" in result["restart"]:
        yield Verdict("restart: s to the first pass", result["restart"]["first_pass"], _FIRST_PASS_SECONDS)
        yield Verdict(
            "restart: s to a pass over everything", result["restart"]["all_passes"], _FIRST_PASS_SECONDS
        )
    yield Verdict("restart: writes", result["restart"]["writes"], 0, True)
    for name in _MOVING:
        yield Verdict(f"reviews, own time p99 in ms, {name}", 1000 * phases[name]["review_p99"], _REVIEW_MS)
        yield Verdict(f"loop lag p99 in ms, {name}", 1000 * phases[name]["loop"]["waited_p99"], _LAG_MS)


def bytes_of_a_pod(result: Result) -> float:
    """Return the bytes per pod of one manager: the largest growth by the end of a creation.

    Each manager keeps all objects.
    """
    grown = (late - early for early, late in zip(result["base_pss"], result["created_pss"], strict=True))
    return float(max(grown) / result["pods"])


def balance(result: Result) -> float:
    """Return the largest CPU time of a manager in a rollout, relative to the mean."""
    cpu = result["phases"]["rollout"]["cpu_of_each"]
    return float(max(cpu) * len(cpu) / sum(cpu))
