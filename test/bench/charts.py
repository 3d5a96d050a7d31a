"""Draw the plots of the report as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from test.bench.goals import verdicts
from test.bench.plots import Bars, Lines, bars, lines
from test.bench.shapes import parse

Result = dict[str, Any]
_MOVING, _OTHERS = ("create", "rollout"), ("scale", "loss", "delete")
_SERIES = ("the product", "floor", "floor with Services")
_WAITERS = {
    "pod_webhook_p99": "the API server waits for the webhook",
    "review_p99": "the manager takes",
    "etcd_p99": "the API server waits for etcd",
}


def charts(results: Sequence[Result], profile: Mapping[str, Any]) -> dict[str, str]:
    """Return every plot for which there is data, in the order of the page."""
    drawn = {
        "seconds": bars(_seconds(results, "Seconds to create and to roll out", _MOVING)),
        "seconds-others": bars(_seconds(results, "Seconds to scale, to heal and to delete", _OTHERS)),
        "writes-per-group": bars(_per_group(results, "writes_per_group", "writes per group", "")),
        "cpu-per-group": bars(_per_group(results, "cpu_per_group", "CPU s per group", "s")),
        "reviews": bars(_reviews(results)),
    }
    growing = [result for result in results if _is_growing(result["shape"])]
    if len(growing) > 1:
        drawn["growth"] = lines(_growth(growing))
    if profile:
        drawn["shares"] = bars(_shares(profile))
    return drawn


def label(shape: str) -> str:
    """Return the name of a shape on the page."""
    return parse(shape).label


def _phases(results: Iterable[Result], names: Iterable[str]) -> Iterable[tuple[Result, str, Result]]:
    phase_names = tuple(names)
    return (
        (result, name, result["phases"][name])
        for result in results
        for name in phase_names
        if name in result["phases"]
    )


def _seconds(results: Iterable[Result], title: str, names: Iterable[str]) -> Bars:
    def row(result: Result, name: str, phase: Result) -> tuple[float | None, ...]:
        floors = (result[floor].get(name) or {} for floor in ("floor", "served_floor"))
        return phase["seconds"], *(floor.get("seconds") for floor in floors)

    values = {
        f"{label(result['shape'])} {name}": row(result, name, phase)
        for result, name, phase in _phases(results, names)
    }
    return Bars(title, "s", _SERIES, values)


def _per_group(results: Iterable[Result], field: str, measure: str, unit: str) -> Bars:
    phases = {
        f"{label(result['shape'])} {name}": (result, name, phase)
        for result, name, phase in _phases(results, _MOVING)
    }
    limits = {
        where: verdict.bound
        for where, (result, name, _) in phases.items()
        for verdict in verdicts(result)
        if verdict.measure == f"{measure}, {name}"
    }
    values = {where: (phase[field],) for where, (_, _, phase) in phases.items()}
    return Bars(measure[0].upper() + measure[1:], unit, ("the product",), values, limits)


def _reviews(results: Iterable[Result]) -> Bars:
    values = {
        f"{label(result['shape'])} {name}": [
            None if phase[who] is None else phase[who] * 1000 for who in _WAITERS
        ]
        for result, name, phase in _phases(results, _MOVING)
    }
    return Bars("What a review of a pod waits for, 99th percentile", "ms", tuple(_WAITERS.values()), values)


def _is_growing(shape: str) -> bool:
    parsed = parse(shape)
    return (parsed.sets, parsed.size) == (1, 4)


def _growth(results: Iterable[Result]) -> Lines:
    series: dict[str, list[tuple[float, float]]] = {}
    for result, name, phase in _phases(results, _MOVING):
        groups = parse(result["shape"]).all_groups
        series.setdefault(name, []).append((groups, phase["seconds"]))
        series.setdefault(f"{name}, CPU of the product", []).append((groups, phase["cpu"]))
    return Lines("One set: seconds by the number of its groups, of 4 pods each", "groups", "s", series)


def _shares(profile: Mapping[str, Any]) -> Bars:
    values = {part: (float(share),) for part, share in profile["percent"].items()}
    title = f"Where the CPU time of a rollout goes, {label(profile['shape'])}, commit {profile['commit']}"
    return Bars(title, "%", ("the product",), values)
