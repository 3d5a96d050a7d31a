"""Render the section of the report about thousands of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from test.bench.shapes import parse
from test.bench.thousands.goals import REFERENCE, balance, bytes_of_a_pod, verdicts

_UNMEASURED = "Not measured yet: `python -m test.bench.thousands` writes it here."
_SHARED = (
    "shape",
    "managers",
    "groups of each",
    "CPU s/group of all, create",
    "rollout",
    "most ÷ mean, rollout",
    "writes/group, rollout",
    "kB for each pod",
)
_PHASES = (
    "shape",
    "phase",
    "s",
    "writes/group",
    "Events/group",
    "CPU s/group",
    "review p50/p99 ms",
    "loop lag p50/p99 ms",
    "of its own making",
    "PSS MB",
)

Result = dict[str, Any]


def section(results: Sequence[Result]) -> str:
    """Return the section of the report."""
    if not results:
        return _UNMEASURED
    results = sorted(results, key=lambda result: (result["managers"], result["pods"], result["shape"]))
    alone = [result for result in results if result["managers"] == 1]
    reference = next((result for result in alone if result["shape"] == REFERENCE), None)
    largest = max(alone, key=lambda result: int(result["pods"]))
    judged = [
        (
            verdict.measure,
            f"{verdict.figure:.3g}",
            f"≤ {verdict.bound:g}",
            "holds" if verdict.holds else "**missed**",
        )
        for verdict in verdicts(largest, reference)
    ]
    blocks = ((name, f"{share:.0%}") for name, share in largest["blocks"].items())
    parts = [
        f"{parse(largest['shape']).label}, one manager:",
        _table(("figure", "measured", "to reach", ""), judged),
        _table(_PHASES, (row for result in alone for row in _phase_rows(result))),
        "Where the CPU time goes, starts included:",
        _table(("block", "share"), blocks),
    ]
    shared = _comparable(results)
    parts += ["Shared:", _table(_SHARED, map(_shared_row, shared))] if shared else []
    parts.append(_machine(results))
    return "\n\n".join(parts)


def _phase_rows(result: Result) -> Iterator[tuple[str, ...]]:
    for name, phase in result["phases"].items():
        lag = phase["loop"]
        yield (
            parse(result["shape"]).label,
            name,
            f"{phase['seconds']:.0f}",
            f"{phase['writes_per_group']:.2f}",
            f"{phase['events_per_group']:.2f}",
            f"{phase['cpu_per_group']:.4f}",
            _pair(phase["review_p50"], phase["review_p99"]),
            _pair(lag["waited_p50"], lag["waited_p99"]),
            _pair(lag["own_p50"], lag["own_p99"]),
            f"{phase['peak_pss'] / 1e6:.0f}",
        )


def _comparable(results: Iterable[Result]) -> list[Result]:
    """Return all results of shapes that were also measured with several managers."""
    measured = list(results)
    shapes = {result["shape"] for result in measured if result["managers"] > 1}
    return [result for result in measured if result["shape"] in shapes]


def _shared_row(result: Result) -> tuple[str, ...]:
    phases = result["phases"]
    return (
        parse(result["shape"]).label,
        f"{result['managers']}",
        " + ".join(map(str, result["groups_of_each"])),
        f"{phases['create']['cpu_per_group']:.4f}",
        f"{phases['rollout']['cpu_per_group']:.4f}",
        f"{balance(result):.2f}",
        f"{phases['rollout']['writes_per_group']:.2f}",
        f"{bytes_of_a_pod(result) / 1e3:.1f}",
    )


def _machine(results: Iterable[Result]) -> str:
    runs = ", ".join(
        f"{result['shape']} by {result['managers']}: {result['machine']['others']:g}" for result in results
    )
    kinds = dict.fromkeys(f"{result['machine']['cores']} cores" for result in results)
    commits = dict.fromkeys(result["commit"][:10] for result in results)
    return (
        f"Measured on {', '.join(kinds)} shared with the control plane, commits {', '.join(commits)}. Cores "
        f"that other work took meanwhile: {runs}. Where that is much, seconds mean nothing, and CPU seconds "
        "are too large: compare those of one table."
    )


def _pair(first: float, second: float) -> str:
    return f"{1000 * first:.1f} / {1000 * second:.1f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
