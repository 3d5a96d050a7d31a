"""Render the results of DisaggregatedSets: the section of the report, and lines for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from test.bench.disaggregated.goals import least_ratio, paired_verdicts
from test.bench.disaggregated.shape import is_paired
from test.bench.goals import Verdict

HEAD = ("phase", "s", "alone", "CPU s", "alone", "peak PSS MB", "alone", "writes of a set", "passes of a set")

_UNMEASURED = "Not measured yet: `make bench SHAPES=ds100x2x2x2` writes it here."
_IDLE_CORES = 0.1

Result = dict[str, Any]


def read_paired(directory: Path) -> list[Result]:
    """Return the stored results, the smallest first."""
    results = [json.loads(path.read_text("utf-8")) for path in directory.glob("ds*.json")]
    return sorted(
        (result for result in results if is_paired(result["shape"])), key=lambda result: int(result["groups"])
    )


def paired_section(results: Sequence[Result]) -> str:
    """Return the section of the report."""
    return "\n\n".join(part for result in results for part in _parts(result)) or _UNMEASURED


def paired_rows(result: Result) -> Iterator[tuple[str, ...]]:
    """Yield one row of cells for each phase."""
    sets = _sets(result)
    for name, phase in result["phases"].items():
        alone = result["alone"].get(name)
        passes = phase["passes"].get("disaggregatedset", 0)
        yield (
            name,
            *(_cell(figures and figures["seconds"]) for figures in (phase, alone)),
            *(_cell(figures and figures["cpu"]) for figures in (phase, alone)),
            *(_cell(figures and figures["peak_pss"] / 1e6) for figures in (phase, alone)),
            _cell(sum(_written(phase).values()) / sets),
            _cell(passes / sets),
        )


def judged(verdicts: Iterable[Verdict]) -> Iterator[tuple[str, str, str, str]]:
    """Yield one row of cells for each figure with a bound."""
    for verdict in verdicts:
        yield (
            verdict.measure,
            _cell(verdict.figure),
            f"≤ {verdict.bound:g}",
            "holds" if verdict.holds else "**missed**",
        )


def _parts(result: Result) -> Iterator[str]:
    yield f"**{result['shape']}**: {_sets(result)} sets; a rollout of one has {result['steps']} steps."
    yield _table(HEAD, paired_rows(result))
    yield _table(("figure", "measured", "to reach", ""), judged(paired_verdicts(result)))
    yield from _least(result)
    machine = result["machine"]
    origin = (
        f"Commit {result['commit'][:10]}, {machine['cores']} cores shared with the control plane, Python "
        f"{machine['python']}. Other work took {machine['others']:g} cores."
    )
    busy = (
        "**The machine was busy with other work: seconds and CPU seconds mean little, ratios not much more.**"
    )
    yield origin if machine["others"] <= _IDLE_CORES else f"{origin} {busy}"


def _least(result: Result) -> Iterator[str]:
    """Yield the minimum that any controller needs."""
    ratio = least_ratio(result)
    if ratio is None:
        return
    cpu, requests = (sum(phase[name] for phase in result["least"].values()) for name in ("cpu", "requests"))
    yield (
        f"A client that only sends the writes of passes over these sets, and takes in the answers and what "
        f"the streams bring of it, took {cpu:.3g} CPU s for {requests} requests, "
        f"{1000 * cpu / requests:.2g} ms each: "
        f"**CPU ÷ alone would be {ratio:.3g} without any decision and any review.**"
    )


def _sets(result: Result) -> int:
    return int(result["shape"].removeprefix("ds").partition("x")[0])


def _written(phase: Result) -> dict[str, int]:
    """Return the writes without Events."""
    return {request: count for request, count in phase["written"].items() if not request.endswith(" events")}


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def _cell(figure: float | None) -> str:
    if figure is None:
        return "–"
    return f"{figure:.0f}" if figure >= 1000 or figure == int(figure) else f"{figure:.3g}"
