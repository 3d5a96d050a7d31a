"""What does the performance page show? The part between two marks, written anew from the results there are.

In: a directory with results. Out: SVGs beside them, and the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from test.bench.goals import Verdict, growth, verdicts
from test.bench.plots import Bars, Lines, bars, flames, lines
from test.bench.shapes import parse
from test.bench.table import HEAD, pair, rows

FLAMES = "flames"
GROWTH = "growth"
_BEFORE = "before-"
_WAITERS = {
    "pod_webhook": "the API server waits for the webhook",
    "review": "the manager takes",
    "etcd": "the API server waits for etcd",
}
_IDLE_CORES = 0.1
BEGIN, END = "<!-- figures: written by make bench -->", "<!-- end of figures -->"

Result = dict[str, Any]


def write_page(page: Path, directory: Path) -> None:
    """Bring the figures of the page up to date; what stands around the marks stays."""
    paths = list(directory.glob("*.json"))
    results, before_ = (
        sorted(map(_read, kept), key=lambda result: _order(result["shape"]))
        for kept in (
            [each for each in paths if not each.name.startswith(_BEFORE)],
            [each for each in paths if each.name.startswith(_BEFORE)],
        )
    )
    ours = [result for result in results if result["against"] is None]
    charts = _draw(ours, directory)
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    figures = "\n\n".join([*_sections(ours, results, charts, directory.name), *_side_by_side(ours, before_)])
    page.write_text(f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}", encoding="utf-8")


def _sections(ours: Sequence[Result], all_: Sequence[Result], charts: Iterable[str], where: str) -> list[str]:
    others = [result for result in all_ if result["against"] is not None]
    found = [_machine(ours), _markdown(HEAD, rows(ours)), _floors(ours)]
    found += [f"![{name.replace('-', ' ')}]({where}/{name}.svg)" for name in charts]
    found += ["### Figures to reach", _goals(ours)]
    found += ["### What a review of a pod waits for", _waits(ours)]
    found += ["### Requests of the controller", _requests(ours)]
    if others:
        found += ["### Another controller", _markdown(HEAD, rows(others))]
    return found


def keep_before(path: Path) -> None:
    """The result that is about to be replaced stays, to be shown beside the new one."""
    if path.exists() and not path.name.startswith("against-"):
        path.replace(path.with_name(f"{_BEFORE}{path.name}"))


def _side_by_side(results: Iterable[Result], before: Iterable[Result]) -> list[str]:
    """Two runs in a row: what differs between them is what the machine adds."""
    former = {result["shape"]: result for result in before}
    pairs = [(result, former[result["shape"]]) for result in results if result["shape"] in former]
    if not pairs:
        return []
    cells = [
        (new["shape"], name, *(f"{one} / {two}" for one, two in zip(now[2:9], then[2:9], strict=True)))
        for new, old in pairs
        for name, now, then in _same_phases(new, old)
    ]
    told = [
        f"- {parse(old['shape']).label}: commit {old['commit'][:10]}, {old['machine']['others']} cores taken "
        "by other work meanwhile"
        for _, old in pairs
    ]
    head = ("shape", "phase", *(f"{each}, this run / the one before" for each in HEAD[2:9]))
    return ["### The run before", "\n".join(told), _markdown(head, cells)]


def _same_phases(new: Result, old: Result) -> list[tuple[str, Sequence[str], Sequence[str]]]:
    then = {row[1]: row for row in rows([old])}
    return [(row[1], row, then[row[1]]) for row in rows([new]) if row[1] in then]


def _machine(results: Sequence[Result]) -> str:
    lines = []
    for result in results:
        machine = result["machine"]
        lines.append(
            f"- {parse(result['shape']).label}: {machine['cores']} cores shared with the control plane, "
            f"{machine['memory_gib']} GiB, Python {machine['python']}, {machine['others']} cores taken by "
            f"other work meanwhile, commit {result['commit'][:10]}"
        )
    if any(result["machine"]["others"] > _IDLE_CORES for result in results):
        lines.append(
            "\n**The machine was busy with other work: seconds, ratios and CPU seconds mean little.**"
        )
    return "\n".join(lines)


def _floors(results: Iterable[Result]) -> str:
    cells = [
        (result["shape"], name, title, f"{phase['seconds']:.1f}", f"{phase['control_plane_cpu']:.1f}")
        for result in results
        for title, floor in (("floor", "floor"), ("floor with Services", "served_floor"))
        for name, phase in result[floor].items()
    ]
    return _markdown(("shape", "phase", "floor", "s", "control plane CPU s"), cells)


def _goals(results: Sequence[Result]) -> str:
    cells = [(result["shape"], *_verdict(each)) for result in results for each in verdicts(result)]
    cells += [("both", *_verdict(each)) for each in growth(results)]
    return _markdown(("shape", "measure", "figure", "to reach", ""), cells)


def _verdict(verdict: Verdict) -> tuple[str, ...]:
    said = "holds" if verdict.holds else "**missed**"
    return verdict.measure, f"{verdict.figure:.3g}", f"≤ {verdict.bound:g}", said


def _requests(results: Iterable[Result]) -> str:
    cells = [
        (result["shape"], name, what, str(count), f"{count / phase['groups']:.2f}")
        for result in results
        for name, phase in result["phases"].items()
        for what, count in phase["requests"].items()
    ]
    return _markdown(("shape", "phase", "request", "count", "per group"), cells)


def _waits(results: Iterable[Result]) -> str:
    cells = [
        (result["shape"], name, *(pair(phase[f"{who}_p50"], phase[f"{who}_p99"]) for who in _WAITERS))
        for result in results
        for name, phase in result["phases"].items()
        if name in ("create", "rollout")
    ]
    return _markdown(("shape", "phase", *(f"{title}, p50/p99 ms" for title in _WAITERS.values())), cells)


def draw_flames(profiles: Iterable[Path], directory: Path) -> None:
    """The flame graph of the process that was looked at most: the one that rolled."""
    texts = [path.read_text() for path in profiles]
    stacks = max(([_stack(line) for line in text.splitlines()] for text in texts), key=_samples)
    (directory / f"{FLAMES}.svg").write_text(flames(stacks, "Where the CPU time of a rollout goes"))


def _samples(stacks: list[tuple[list[str], int]]) -> int:
    return sum(count for _, count in stacks)


def _draw(results: Sequence[Result], directory: Path) -> list[str]:
    """Names of the plots, which are files then."""
    made = {
        "seconds": Bars(
            "Seconds of each phase",
            "s",
            ("the product", "floor"),
            {
                f"{result['shape']} {name}": (phase["seconds"], _floor(result, name))
                for result in results
                for name, phase in result["phases"].items()
            },
            {},
        ),
        "writes-per-group": _per_group(results, "writes_per_group", "writes"),
        "cpu-per-group": _per_group(results, "cpu_per_group", "CPU s"),
    }
    for name, chart in made.items():
        (directory / f"{name}.svg").write_text(bars(chart))
    shapes = [(result, parse(result["shape"])) for result in results]
    growing = [result for result, shape in shapes if (shape.sets, shape.size) == (1, 4)]
    drawn = [*made]
    if len(growing) > 1:
        (directory / f"{GROWTH}.svg").write_text(lines(_growth(growing)))
        drawn.append(GROWTH)
    return [*drawn, *([FLAMES] if (directory / f"{FLAMES}.svg").exists() else [])]


def _growth(results: Sequence[Result]) -> Lines:
    """Seconds and CPU seconds of one set by its groups; dashes go on as the smallest began."""
    series: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        for name in ("create", "rollout"):
            phase = result["phases"].get(name)
            if phase is not None:
                groups = parse(result["shape"]).all_groups
                series.setdefault(f"{name}, s", []).append((groups, phase["seconds"]))
                series.setdefault(f"{name}, CPU s", []).append((groups, phase["cpu"]))
    return Lines("One set: seconds by the number of its groups, of 4 pods each", "groups", series)


def _per_group(results: Iterable[Result], field: str, unit: str) -> Bars:
    labelled = {
        f"{result['shape']} {name}": (result, name, phase)
        for result in results
        for name, phase in result["phases"].items()
        if name in ("create", "rollout")
    }
    measure = {"writes_per_group": "writes per group", "cpu_per_group": "CPU s per group"}[field]
    limits = {
        label: each.bound
        for label, (result, name, _) in labelled.items()
        for each in verdicts(result)
        if each.measure == f"{measure}, {name}"
    }
    values = {label: (phase[field],) for label, (_, _, phase) in labelled.items()}
    return Bars(measure.capitalize() if unit == "writes" else measure, unit, ("the product",), values, limits)


def _floor(result: Result, name: str) -> float | None:
    found: Result = result["floor"].get(name) or {}
    return found.get("seconds")


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    made = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)]
    return "\n".join(made)


def _stack(line: str) -> tuple[list[str], int]:
    frames, _, count = line.rpartition(" ")
    return frames.split(";"), int(count)


def _order(shape: str) -> tuple[bool, int]:
    parsed = parse(shape)
    return parsed.sets > 1, parsed.all_groups


def _read(path: Path) -> Result:
    result: Result = json.loads(path.read_text())
    return result
