"""Write the plots, the marked parts of documents, and the report of all figures, from the stored results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from test.bench.bill import page as bill
from test.bench.charts import charts
from test.bench.disaggregated.page import paired_section, read_paired
from test.bench.disaggregated.shape import is_paired
from test.bench.goals import Verdict, growth, verdicts
from test.bench.paced.page import RESULT as PACED
from test.bench.paced.page import paced_section
from test.bench.plots import flames
from test.bench.serving import HEAD as HEAD_OF_SERVING
from test.bench.serving import RESULT as SERVING
from test.bench.serving import serving_rows
from test.bench.shapes import parse
from test.bench.table import HEAD, rows
from test.bench.thousands import page as thousands

ONCE = "once.json"
"""Data that is not measured in every run: a profile, results of changes, single observations."""

UPSTREAM = "upstream.json"
"""One run of each shape with upstream's manager and with an earlier commit of ours, on one machine."""

_ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
PICTURES = _ROOT / "docs" / "pictures" / "performance"
PAGES = (_ROOT / "docs" / "operations" / "performance.md", _ROOT / "docs" / "design" / "performance.md")
REPORT = "REPORT.md"
_BEFORE = "before-"
_PHASES = ("create", "rollout")
_MEASURES = ("seconds", "manager's CPU", "control plane's CPU")
_IDLE_CORES = 0.1
# The shape whose figures are shown separately.
_SHOWN = "1x400x4"
_SHOWN_FIGURES = (
    "writes per group, create",
    "writes per group, rollout",
    "CPU s per group, create",
    "CPU s per group, rollout",
    "peak PSS in MB",
    "create, time ÷ floor",
    "pod webhook p99 in ms, create",
    "start to first pass in s",
)
_COMPARED = {"seconds": "seconds", "cpu_per_group": "CPU per group", "writes_per_group": "writes per group"}
_ABOUT_REPORT = """# Measurements

Written by `python -m test.bench --page-only` from the JSON beside it:
[how it is measured](../../../docs/design/performance.md)."""
_PART = re.compile(r"(<!-- (\w+): written by make bench -->\n).*?(<!-- end -->)", re.DOTALL)

Result = dict[str, Any]
Judged = Sequence[tuple[str, Verdict]]
"""Verdicts, each with its shape."""


def write_pages(results: Path = RESULTS, pictures: Path = PICTURES, pages: Sequence[Path] = PAGES) -> None:
    """Write the plots, the report next to the results, and the marked parts of the pages."""
    all_, before = _read_all(results)
    ours = [result for result in all_ if result["against"] is None]
    others = [result for result in all_ if result["against"] is not None]
    profile = _read_if_there(results / ONCE).get("profile", {})
    pictures.mkdir(parents=True, exist_ok=True)
    for name, text in charts(ours, profile).items():
        (pictures / f"{name}.svg").write_text(text, encoding="utf-8")
    judged = [(result["shape"], verdict) for result in ours for verdict in verdicts(result)]
    judged += [("1x100x4", verdict) for verdict in growth(ours)]
    parts = {
        "upstream": _against_upstream(_read_if_there(results / UPSTREAM), ours, others),
        "figures": "\n\n".join([_ten(judged), _count(judged), _machines(ours), *_compared(ours, before)]),
        "missed": "\n".join(_missed(judged)),
        "serving": _markdown(HEAD_OF_SERVING, serving_rows(_read_if_there(results / SERVING))),
    }
    for page in pages:
        written = _PART.sub(lambda part: f"{part[1]}\n{parts[part[2]]}\n\n{part[3]}", page.read_text("utf-8"))
        page.write_text(written, encoding="utf-8")
    sections = {
        "Sets": _markdown(HEAD, rows([*ours, *others])),
        "DisaggregatedSets": paired_section(read_paired(results)),
        "Pods that take time to start": paced_section(results / PACED),
        "The control plane": bill.section(_read(results / "bill")),
        "Thousands of groups": thousands.section(_read(results / "thousands")),
    }
    report = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    (results / REPORT).write_text(f"{_ABOUT_REPORT}\n\n{report}\n", encoding="utf-8")


def _read(directory: Path) -> list[Result]:
    return [json.loads(path.read_text("utf-8")) for path in sorted(directory.glob("*.json"))]


def _read_if_there(path: Path) -> Result:
    result: Result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return result


def keep_before(path: Path) -> None:
    """Keep the result that is about to be replaced, to compare it with the new one."""
    if path.exists() and not path.name.startswith("against-"):
        path.replace(path.with_name(f"{_BEFORE}{path.name}"))


def draw_flames(profiles: Iterable[Path], picture: Path) -> None:
    """Write the flame graph of the process with the most samples, which is the one that did the rollout."""
    texts = [path.read_text() for path in profiles]
    stacks = max(([_stack(line) for line in text.splitlines()] for text in texts), key=_samples)
    picture.write_text(flames(stacks, "Where the CPU time of a rollout goes"))


def _ten(judged: Judged) -> str:
    cells = []
    for measure in _SHOWN_FIGURES:
        verdicts_by_shape = {shape: verdict for shape, verdict in judged if verdict.measure == measure}
        if not verdicts_by_shape:
            continue
        example = verdicts_by_shape.get(_SHOWN, next(iter(verdicts_by_shape.values())))
        # Sets of one group have separate bounds.
        alike = [verdict for verdict in verdicts_by_shape.values() if verdict.bound == example.bound]
        missed = sum(not verdict.holds for verdict in alike)
        outcome = f"**missed** by {missed} of {len(alike)} shapes" if missed else "holds"
        ends = dict.fromkeys(_short(end(verdict.figure for verdict in alike)) for end in (min, max))
        cells.append((measure, _short(example.figure), "–".join(ends), f"≤ {example.bound:g}", outcome))
    return _markdown(("figure", _SHOWN, "all with this bound", "to reach", ""), cells)


def _against_upstream(measured: Result, ours: Iterable[Result], others: Iterable[Result]) -> str:
    """Return ratios to upstream, or "" if nothing was measured.

    Upstream was measured beside an earlier commit. Where that commit is among the others, the ratio to it is
    multiplied with its ratio to upstream.
    """
    if not measured:
        return ""
    runs: dict[str, dict[str, dict[str, float]]] = {"ours": {}, "original": {}}
    for run in measured["runs"]:
        slow = "" if run["pods"] == "at once" else f", pods take {run['pods']}"
        figures = [
            (run[phase]["s"], run[phase]["manager_cpu_s"], sum(run[phase]["control_plane_cpu_s"].values()))
            for phase in _PHASES
        ]
        costs = _named(run["peak_pss_mb"], figures)
        runs[run["controller"]][f"{run['sets']}x{run['groups']}x{run['size']}{slow}"] = costs
    now = {(result["shape"], result["commit"]): result for result in _with_phases(ours)}
    # Results of other commits, and thus of other days and machines, are no pair.
    pairs = {
        result["shape"]: (_costs(now[pair]), _costs(result))
        for result in _with_phases(others)
        if measured["ours"] in result["against"] and (pair := (result["shape"], result["commit"])) in now
    }
    head, lines = ["shape"], []
    for shape, costs in runs["ours"].items():
        ratios = {measure: figure / runs["original"][shape][measure] for measure, figure in costs.items()}
        label = f"{shape} ({measured['ours']})"
        if shape in pairs:
            label, (today, earlier) = shape, pairs[shape]
            ratios = {measure: ratio * today[measure] / earlier[measure] for measure, ratio in ratios.items()}
        head = ["shape", *ratios]
        lines.append([label, *(f"{ratio:.2f}" for ratio in ratios.values())])
    return f"{_markdown(head, lines)}\n\n{measured['what']}"


def _with_phases(results: Iterable[Result]) -> list[Result]:
    """Return the results that have all phases that are compared with upstream's."""
    return [result for result in results if result["phases"].keys() >= set(_PHASES)]


def _costs(result: Result) -> dict[str, float]:
    """Return the figures of a run that are compared with upstream's."""
    phases = [result["phases"][phase] for phase in _PHASES]
    figures = [(measured["seconds"], measured["cpu"], measured["control_plane_cpu"]) for measured in phases]
    return _named(max(measured["peak_pss"] for measured in phases), figures)


def _named(memory: float, figures: Iterable[Sequence[float]]) -> dict[str, float]:
    """Name the memory, and the figures of each phase in the order of `_MEASURES`."""
    named = {
        f"{phase}, {measure}": figure
        for phase, of_phase in zip(_PHASES, figures, strict=True)
        for measure, figure in zip(_MEASURES, of_phase, strict=True)
    }
    return {"memory": memory, **named}


def _count(judged: Judged) -> str:
    held = sum(verdict.holds for _, verdict in judged)
    others = "[The others](../design/performance.md#what-is-missed-and-why)."
    return f"Of all {len(judged)} figures with a bound, {held} hold. {others}"


def _missed(judged: Judged) -> Iterator[str]:
    missed: dict[tuple[str, float], list[str]] = {}
    for shape, verdict in judged:
        if not verdict.holds:
            missed.setdefault((verdict.measure, verdict.bound), []).append(
                f"{_short(verdict.figure)} ({shape})"
            )
    for (measure, bound), figures in sorted(missed.items()):
        yield f"- {measure}, ≤ {bound:g}: {', '.join(figures)}"


def _machines(results: Sequence[Result]) -> str:
    kinds = dict.fromkeys(
        "{cores} cores shared with the control plane, {memory_gib} GiB, Python {python}".format(
            **result["machine"]
        )
        for result in results
    )
    commits: dict[str, list[str]] = {}
    for result in results:
        commits.setdefault(result["commit"][:10], []).append(result["shape"])
    runs = ", ".join(f"{commit} ({', '.join(shapes)})" for commit, shapes in commits.items())
    most = max((result["machine"]["others"] for result in results), default=0.0)
    text = f"Measured on {'; '.join(kinds)}; commits {runs}. Other work took {most:g} cores at most."
    if most <= _IDLE_CORES:
        return text
    return f"{text}\n\n**The machine was busy with other work: seconds, ratios and CPU seconds mean little.**"


def _compared(results: Iterable[Result], before: Iterable[Result]) -> Iterator[str]:
    """Describe the differences between two runs in a row, which are noise of the machine."""
    former = {result["shape"]: result["phases"] for result in before}
    pairs = [
        (result["phases"][name], former[result["shape"]][name])
        for result in results
        for name in _PHASES
        if name in result["phases"] and name in former.get(result["shape"], {})
    ]
    if pairs:
        differences = (
            f"{title} by up to {max(abs(new[field] / old[field] - 1) for new, old in pairs):.0%}"
            for field, title in _COMPARED.items()
        )
        yield f"Between two runs in a row, creations and rollouts differ in {', in '.join(differences)}."


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)]
    return "\n".join(rows)


def _short(figure: float) -> str:
    return f"{figure:.0f}" if figure >= 1000 else f"{figure:.3g}"


def _samples(stacks: list[tuple[list[str], int]]) -> int:
    return sum(count for _, count in stacks)


def _stack(line: str) -> tuple[list[str], int]:
    frames, _, count = line.rpartition(" ")
    return frames.split(";"), int(count)


def _read_all(directory: Path) -> tuple[list[Result], list[Result]]:
    """Return the results of the last runs, and of the runs before."""
    all_: tuple[list[Result], list[Result]] = [], []
    for path in directory.glob("*x*x*.json"):
        if is_paired(path.name.removeprefix(_BEFORE)):
            continue
        all_[path.name.startswith(_BEFORE)].append(json.loads(path.read_text(encoding="utf-8")))
    for results in all_:
        results.sort(key=lambda result: _order(result["shape"]))
    return all_


def _order(shape: str) -> tuple[bool, int, int]:
    parsed = parse(shape)
    return parsed.sets > 1, parsed.all_groups, parsed.size
