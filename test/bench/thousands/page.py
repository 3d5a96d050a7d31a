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
    results = sorted(results, key=lambda each: (each["managers"], each["pods"], each["shape"]))
    alone = [each for each in results if each["managers"] == 1]
    reference = next((each for each in alone if each["shape"] == REFERENCE), None)
    largest = max(alone, key=lambda each: int(each["pods"]))
    judged = [
        (each.measure, f"{each.figure:.3g}", f"≤ {each.bound:g}", "holds" if each.holds else "**missed**")
        for each in verdicts(largest, reference)
    ]
    blocks = ((name, f"{share:.0%}") for name, share in largest["blocks"].items())
    parts = [
        f"{parse(largest['shape']).label}, one manager:",
        _table(("figure", "measured", "to reach", ""), judged),
        _table(_PHASES, (row for each in alone for row in _phase_rows(each))),
        "Where the CPU time goes, starts included:",
        _table(("block", "share"), blocks),
    ]
    shared = _comparable(results)
    parts += ["Shared:", _table(_SHARED, map(_shared_row, shared))] if shared else []
    parts.append(_machine(results))
    return "\n\n".join(parts)


def _phase_rows(result: Result) -> Iterator[tuple[str, ...]]:
    for name, each in result["phases"].items():
        lag = each["loop"]
        yield (
            parse(result["shape"]).label,
            name,
            f"{each['seconds']:.0f}",
            f"{each['writes_per_group']:.2f}",
            f"{each['events_per_group']:.2f}",
            f"{each['cpu_per_group']:.4f}",
            _pair(each["review_p50"], each["review_p99"]),
            _pair(lag["waited_p50"], lag["waited_p99"]),
            _pair(lag["own_p50"], lag["own_p99"]),
            f"{each['peak_pss'] / 1e6:.0f}",
        )


def _comparable(results: Iterable[Result]) -> list[Result]:
    """Return all results of shapes that were also measured with several managers."""
    known = list(results)
    shapes = {each["shape"] for each in known if each["managers"] > 1}
    return [each for each in known if each["shape"] in shapes]


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
        f"{each['shape']} by {each['managers']}: {each['machine']['others']:g}" for each in results
    )
    kinds = dict.fromkeys(f"{each['machine']['cores']} cores" for each in results)
    commits = dict.fromkeys(each["commit"][:10] for each in results)
    return (
        f"Measured on {', '.join(kinds)} shared with the control plane, commits {', '.join(commits)}. Cores "
        f"that other work took meanwhile: {runs}. Where that is much, seconds mean nothing, and CPU seconds "
        "are too large: compare those of one table."
    )


def _pair(one: float, two: float) -> str:
    return f"{1000 * one:.1f} / {1000 * two:.1f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(each)} |" for each in (head, ["---"] * len(head), *rows))
