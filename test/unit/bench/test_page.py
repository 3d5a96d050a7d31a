"""Benchmark results: verdicts, tables, plots and the page. The counts of the guard."""

from __future__ import annotations

import copy
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from test.bench import __main__ as bench
from test.bench.failure_path import FAILED, MADE
from test.bench.goals import growth, verdicts
from test.bench.guard import budgets, counts, counts_of_hash, counts_of_one, ratios
from test.bench.measure import Order
from test.bench.page import ONCE, PAGES, PICTURES, REPORT, RESULTS, draw_flames, keep_before, write_pages
from test.bench.table import HEAD, columns, rows

MARKS = "<!-- {}: written by make bench -->\n{}<!-- end -->\n"
EMPTY = MARKS.format("figures", "") + MARKS.format("missed", "")

PHASE: dict[str, Any] = {
    "seconds": 5.0,
    "groups": 100,
    "requests": {"create statefulsets": 100},
    "writes": 110,
    "writes_per_group": 1.1,
    "events_per_group": 0.1,
    "cpu": 1.0,
    "cpu_per_group": 0.01,
    "control_plane_cpu": 9.0,
    "peak_pss": 60e6,
    "passes": {"leaderworkerset": 20.0, "pod": 200.0},
    "objects_listed": {"pods": 3.0},
    "pod_webhook_p50": 0.004,
    "pod_webhook_p99": 0.02,
    "review_p50": 0.001,
    "review_p99": 0.007,
    "etcd_p50": 0.003,
    "etcd_p99": None,
    "wait_p50": 0.1,
    "wait_p99": None,
}


def _result(shape: str = "1x100x4", **phase: Any) -> dict[str, Any]:
    return {
        "shape": shape,
        "groups": 100,
        "against": None,
        "commit": "a" * 40,
        "machine": {"cores": 2, "memory_gib": 24, "python": "3.11", "others": 0.01},
        "floor": {"create": {"seconds": 4.0, "control_plane_cpu": 5.0}},
        "served_floor": {"create": {"seconds": 4.5, "control_plane_cpu": 6.0}},
        "phases": {"create": {**PHASE, **phase}, "rollout": {**PHASE, "seconds": 20.0}},
        "settled": {"writes": 0, "events": 0, "core": 0.001},
        "restart": {"ready": 1.0, "first_pass": 1.5, "writes": 0},
    }


def _missed(result: dict[str, Any]) -> set[str]:
    return {verdict.measure for verdict in verdicts(result) if not verdict.holds}


def test_figures_beside_their_bounds() -> None:
    assert _missed(_result()) == {"rollout, time ÷ create time"}
    assert _missed(_result(seconds=20.0)) == {"create, time ÷ floor"}
    more = _result(writes_per_group=1.3, events_per_group=0.3, cpu_per_group=0.013, peak_pss=111e6)
    assert _missed(more) >= {
        "writes per group, create",
        "Events per group, create",
        "CPU s per group, create",
    }
    assert "peak PSS in MB" in _missed(more)


def test_sets_of_one_group_have_separate_bounds() -> None:
    result = _result("200x1x4", writes_per_group=6.4, events_per_group=4.9, seconds=6.0)
    result["phases"]["rollout"]["cpu_per_group"] = 0.1
    assert _missed(result) == set()


def test_memory_is_not_judged_for_larger_shapes() -> None:
    assert "peak PSS in MB" in _missed(_result("1x400x4", peak_pss=111e6))
    assert "peak PSS in MB" not in _missed(_result("1x1000x8", peak_pss=111e6))


def test_growth_is_judged_in_proportion_to_groups() -> None:
    shapes = {"1x100x4": 10.0, "1x400x4": 45.0, "1x1000x4": 100.0}
    results = [_result(shape) for shape in shapes]
    for result in results:
        result["phases"]["rollout"]["seconds"] = shapes[result["shape"]]
    holds = {verdict.measure: verdict.holds for verdict in growth(results)}
    assert holds == {"rollout, time(400) ÷ time(100)": False, "rollout, time(1000) ÷ time(100)": True}
    assert growth(results[1:]) == []


def test_writes_to_a_settled_cluster_are_reported() -> None:
    result = _result(seconds=12.0)
    result["settled"]["writes"] = 1
    result["restart"]["writes"] = 2
    assert {"writes in 10 s, settled", "writes after a restart, settled"} <= _missed(result)
    assert all(
        verdict.is_count
        for verdict in verdicts(result)
        if "settled" in verdict.measure and "writes" in verdict.measure
    )


def test_a_row_for_each_phase() -> None:
    create, rollout = rows([_result()])
    assert create[:5] == ("1x100x4", "create", "5.0", "1.25", "1.11")
    assert rollout[3:5] == ("–", "–") and len(create) == len(HEAD)
    assert columns([("a", "bb"), ("ccc", "d")]) == "a    bb\nccc  d"


def test_the_guard_measures_all_figures_of_its_budget() -> None:
    budget, _ = budgets()
    measured = counts(_result()) | counts_of_one(_result()) | counts_of_hash(_result())
    measured |= ratios({FAILED: {"ratio p50": 2.0}, MADE: {"ratio p50": 3.0}})
    assert measured.keys() >= budget.keys()
    assert measured["create: passes per group"] == 2.2 and measured["rollout: objects listed"] == 3.0


def test_pages_and_plots_match_the_stored_results(tmp_path: Path) -> None:
    results, pictures = tmp_path / "results", tmp_path / "pictures"
    shutil.copytree(RESULTS, results)
    pages = [shutil.copy(page, tmp_path / page.parent.name) for page in PAGES]
    write_pages(results, pictures, [*map(Path, pages)])
    again = "run `python -m test.bench --page-only`"
    assert [Path(page).read_text() for page in pages] == [page.read_text() for page in PAGES], again
    assert (results / REPORT).read_text() == (RESULTS / REPORT).read_text(), again
    drawn = {path.name: path.read_text() for path in pictures.glob("*.svg")}
    stored = {path.name: path.read_text() for path in PICTURES.glob("*.svg") if "flames" not in path.name}
    assert drawn == stored, again


def test_linked_plots_exist() -> None:
    picture = re.compile(r"!\[[^]]{10,}\]\(\S+/([\w-]+\.svg)\)")
    linked = {name for page in PAGES for name in picture.findall(page.read_text())}
    assert linked and linked <= {path.name for path in PICTURES.glob("*.svg")}


def test_pages_are_written_between_their_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        f"before\n{MARKS.format('figures', 'yesterday')}between\n{MARKS.format('missed', '')}after\n"
    )
    (tmp_path / "1x100x4.json").write_text(json.dumps(_result()))
    (tmp_path / "50x4x8.json").write_text(json.dumps(_result("50x4x8")))
    against = copy.deepcopy(_result()) | {"against": "theirs"}
    (tmp_path / "against-1x100x4.json").write_text(json.dumps(against))
    write_pages(tmp_path, tmp_path, [page])
    written = page.read_text()
    assert written.startswith("before\n<!-- figures") and written.endswith("<!-- end -->\nafter\n")
    assert "yesterday" not in written and "<!-- end -->\nbetween\n" in written
    assert "| writes per group, create | 1.1 | 1.1 | ≤ 1.2 | holds |" in written
    assert "- rollout, time ÷ create time, ≤ 2: 4 (1x100x4)\n" in written
    report = (tmp_path / REPORT).read_text()
    assert report.count("| 1x100x4 | create | 5.0 | 1.25 |") == 2, "the other controller too"
    assert report.count("Not measured yet") == 4
    for name in ("seconds", "writes-per-group", "cpu-per-group", "reviews"):
        ElementTree.parse(tmp_path / f"{name}.svg")
    assert not (tmp_path / "shares.svg").exists()
    write_pages(tmp_path, tmp_path, [page])
    assert page.read_text() == written


def test_ratios_to_upstream_follow_from_an_earlier_commit_that_was_measured_beside_both(
    tmp_path: Path,
) -> None:
    phase = {"s": 10.0, "manager_cpu_s": 2.0, "control_plane_cpu_s": {"etcd": 4.0, "kube-apiserver": 6.0}}
    run = {"pods": "at once", "sets": 1, "size": 4, "peak_pss_mb": 80, "create": phase, "rollout": phase}
    runs = [
        {**run, "controller": controller, "groups": groups, "rollout": {**phase, "s": seconds}}
        for groups in (100, 400)
        for controller, seconds in (("original", 10.0), ("ours", 12.0))
    ]
    measured = {"what": "One run each.", "ours": "949170b", "runs": runs}
    (tmp_path / "upstream.json").write_text(json.dumps(measured))
    (tmp_path / "1x100x4.json").write_text(json.dumps(_result()))
    earlier = copy.deepcopy(_result()) | {"against": "lws-949170b manager"}
    earlier["phases"]["rollout"]["seconds"] = 25.0
    (tmp_path / "against-1x100x4.json").write_text(json.dumps(earlier))
    (tmp_path / "1x400x4.json").write_text(json.dumps(_result("1x400x4") | {"commit": "b" * 40}))
    (tmp_path / "against-1x400x4.json").write_text(json.dumps({**earlier, "shape": "1x400x4"}))
    page = tmp_path / "page.md"
    page.write_text(MARKS.format("upstream", ""))
    write_pages(tmp_path, tmp_path, [page])
    assert "| 1x100x4 | 1.00 | 1.00 | 1.00 | 1.00 | 0.96 | 1.00 | 1.00 |" in page.read_text()
    assert "| 1x400x4 (949170b) | 1.00 | 1.00 | 1.00 | 1.00 | 1.20 | 1.00 | 1.00 |" in page.read_text()


def test_shapes_are_compared_only_with_the_same_bound(tmp_path: Path) -> None:
    shapes = {"1x100x4": 1.1, "1x400x4": 1.0, "1x1000x4": 1.3, "200x1x4": 6.0}
    results = [(f"{shape}.json", _result(shape, writes_per_group=writes)) for shape, writes in shapes.items()]
    assert "| writes per group, create | 1 | 1–1.3 | ≤ 1.2 | **missed** by 1 of 3 shapes |" in _figures(
        tmp_path, *results
    )


def test_shares_are_drawn_from_the_stored_profile(tmp_path: Path) -> None:
    profile = {"shape": "1x400x4", "commit": "abc", "percent": {"streams": 30, "rest": 70}}
    _figures(tmp_path, ("1x100x4.json", _result()), (ONCE, {"profile": profile}))
    drawn = (tmp_path / "shares.svg").read_text()
    assert "30 %" in drawn and "1 × 400 × 4, commit abc" in drawn


def test_a_busy_machine_is_reported(tmp_path: Path) -> None:
    for cores, is_reported in ((0.04, False), (0.5, True)):
        result = _result()
        result["machine"]["others"] = cores
        assert ("The machine was busy" in _figures(tmp_path, ("1x100x4.json", result))) is is_reported


def test_the_flame_graph_shows_the_busiest_process(tmp_path: Path) -> None:
    idle, busy = tmp_path / "stacks.1", tmp_path / "stacks.2"
    idle.write_text("main;wait 3\n")
    busy.write_text("main;run;<plan> 60\nmain;run;put 30\nmain;rare 1\n")
    draw_flames([idle, busy], tmp_path / "flames.svg")
    text = (tmp_path / "flames.svg").read_text()
    ElementTree.fromstring(text)
    assert "91 samples" in text and "&lt;plan&gt;: 60" in text and "wait" not in text


def _figures(directory: Path, *results: tuple[str, dict[str, Any]]) -> str:
    """Return the page that is generated from these results, given by file name."""
    page = directory / "page.md"
    for name, result in results:
        (directory / name).write_text(json.dumps(result))
    page.write_text(EMPTY)
    write_pages(directory, directory, [page])
    return page.read_text()


def test_two_consecutive_runs_are_compared(tmp_path: Path) -> None:
    assert "two runs" not in _figures(tmp_path, ("1x100x4.json", _result()))
    keep_before(tmp_path / "1x100x4.json")
    keep_before(tmp_path / "1x400x4.json")
    text = _figures(tmp_path, ("1x100x4.json", _result(seconds=6.0, writes_per_group=1.2)))
    assert "in seconds by up to 20%, in CPU per group by up to 0%, in writes per group by up to 9%" in text
    assert "| writes per group, create | 1.2 |" in text, "the figures are those of the new run"


def test_results_of_another_controller_are_not_kept_as_an_earlier_run(tmp_path: Path) -> None:
    path = tmp_path / "against-1x100x4.json"
    path.write_text("{}")
    keep_before(path)
    assert path.exists()


def test_growth_is_drawn_if_there_are_several_sizes(tmp_path: Path) -> None:
    small, large = _result(), _result("1x400x4")
    _figures(tmp_path, ("1x100x4.json", small), ("50x4x8.json", _result("50x4x8")))
    assert not (tmp_path / "growth.svg").exists()
    large["phases"]["rollout"]["seconds"] = 90.0
    text = _figures(tmp_path, ("1x400x4.json", large))
    assert "- rollout, time(400) ÷ time(100), ≤ 4.4: 4.5 (1x100x4)" in text
    drawn = (tmp_path / "growth.svg").read_text()
    ElementTree.fromstring(drawn)
    assert all(
        label in drawn for label in ("100 groups", "400 groups", "create 5 to 5 s", "rollout 20 to 90 s")
    )


def test_pages_are_written_without_measuring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written: list[Path] = []
    monkeypatch.setattr(bench, "write_pages", written.append)
    monkeypatch.setattr(sys, "argv", ["bench", "--page-only", f"--results={tmp_path}"])
    assert bench.main() == 0
    assert written == [tmp_path]


def test_the_command_line_accepts_the_arguments_of_make(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    orders: list[Order] = []

    def measured(order: Order) -> dict[str, Any]:
        orders.append(order)
        return {**_result(order.shape.name), "against": order.against}

    monkeypatch.setattr(bench, "measure", measured)
    monkeypatch.setattr(bench, "commit", lambda: "a" * 40)
    arguments = ["1x100x4", "--foreign=500", "--against=other --flag", "--resume", f"--results={tmp_path}"]
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        assert bench.main() == 0
    (order,) = orders
    assert (order.foreign, order.against, order.has_floor) == (500, "other --flag", True)
    assert [path.name for path in tmp_path.iterdir()] == ["against-1x100x4.json"], "the second time resumed"
