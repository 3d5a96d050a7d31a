"""Render the results of rollouts with slow pods: the section of the report, and lines for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from test.bench.paced.goals import paced_verdicts

HEAD = (
    "rollout",
    "s",
    "ideal s",
    "of the ideal",
    "utilisation",
    "of its own turns",
    "s beside each start",
    "steps",
    "writes/group",
    "CPU s/group",
)

RESULT = "paced.json"

_UNMEASURED = "Not measured yet: `make bench SHAPES=paced` writes it here."
_IDLE_CORES = 0.1

Result = dict[str, Any]


def keep(directory: Path, result: Result) -> None:
    """Store a result, with the former figures of rollouts that it lacks."""
    path = directory / RESULT
    former: Result = json.loads(path.read_text("utf-8")) if path.exists() else {}
    # Writing the first result changes the tree.
    if former and former["commit"].removesuffix("+") == result["commit"].removesuffix("+"):
        merged = {part: {**former[part], **result[part]} for part in ("cases", "against")}
        result = {**result, **merged, "commit": former["commit"]}
    path.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def paced_section(path: Path) -> str:
    """Return the section of the report, from a stored result."""
    if not path.exists():
        return _UNMEASURED
    result: Result = json.loads(path.read_text("utf-8"))
    parts = [_table(HEAD, paced_rows(result["cases"]))]
    if result["against"]:
        parts += ["With waits by the clock, as before, in the same cluster:"]
        parts += [_table(HEAD, paced_rows(result["against"]))]
    return "\n\n".join([*parts, _missed(result["cases"]), _machine(result)])


def paced_rows(cases: Mapping[str, Result]) -> Iterator[tuple[str, ...]]:
    """Yield one row of cells for each rollout."""
    for name, figures in cases.items():
        yield (
            name,
            f"{figures['seconds']:.1f}",
            f"{figures['ideal']:.1f}",
            f"{figures['of_ideal']:.3f}",
            f"{figures['utilisation']:.3f}",
            f"{figures['of_same_turns']:.3f}",
            f"{figures['turnaround']:.2f}",
            f"{figures['steps']}",
            f"{figures['writes_per_group']:.2f}",
            f"{figures['cpu_per_group']:.4f}",
        )


def _missed(cases: Mapping[str, Result]) -> str:
    judged = [(name, verdict) for name, figures in cases.items() for verdict in paced_verdicts(figures)]
    missed = [
        f"- {name}, {verdict.measure}: {verdict.figure:.3f}, to reach ≥ {verdict.least:g}"
        for name, verdict in judged
        if not verdict.holds
    ]
    summary = f"Of {len(judged)} figures with a bound, {len(judged) - len(missed)} hold."
    return "\n".join([f"{summary} Missed:\n", *missed] if missed else [summary])


def _machine(result: Result) -> str:
    machine = result["machine"]
    origin = (
        f"Commit {result['commit'][:10]}, {machine['cores']} cores shared with the control plane, Python "
        f"{machine['python']}. Other work took {machine['others']:g} cores."
    )
    busy = "**The machine was busy with other work: what a turn takes beside its start is most of it.**"
    return origin if machine["others"] <= _IDLE_CORES else f"{origin} {busy}"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))
