"""Show results in a terminal, one line per phase."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

HEAD = (
    "shape",
    "phase",
    "s",
    "÷ floor",
    "÷ floor with Services",
    "writes/group",
    "Events/group",
    "passes/group",
    "CPU s/group",
    "PSS MB",
    "pod webhook p50/p99 ms",
    "event→write p50/p99 ms",
    "control plane CPU s",
    "CPU ÷ control plane CPU",
)


def rows(results: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return one row of cells for each phase of each result."""
    return [
        (result["shape"], *_cells(name, phase, result))
        for result in results
        for name, phase in result["phases"].items()
    ]


def table(results: Iterable[dict[str, Any]]) -> str:
    """Return a table whose columns are as wide as their widest cell."""
    return columns([HEAD, *rows(results)])


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Return lines with aligned cells."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cells(name: str, phase: dict[str, Any], result: dict[str, Any]) -> Iterable[str]:
    yield name
    yield f"{phase['seconds']:.1f}"
    for floor in ("floor", "served_floor"):
        seconds = (result[floor].get(name) or {}).get("seconds")
        yield f"{phase['seconds'] / seconds:.2f}" if seconds else "–"
    yield f"{phase['writes_per_group']:.2f}"
    yield f"{phase['events_per_group']:.2f}"
    yield f"{sum(phase['passes'].values()) / phase['groups']:.1f}"
    yield f"{phase['cpu_per_group']:.4f}"
    yield f"{phase['peak_pss'] / 1e6:.0f}"
    yield pair(phase["pod_webhook_p50"], phase["pod_webhook_p99"])
    yield pair(phase["wait_p50"], phase["wait_p99"])
    yield f"{phase['control_plane_cpu']:.1f}"
    # Other work on the machine makes both larger.
    yield f"{phase['cpu'] / phase['control_plane_cpu']:.3f}"


def pair(first: float | None, second: float | None) -> str:
    """Return two figures in seconds as milliseconds."""
    return "–" if first is None or second is None else f"{first * 1000:.0f} / {second * 1000:.0f}"
