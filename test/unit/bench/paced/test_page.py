"""Results of rollouts with slow pods: verdicts, the page and the guard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from test.bench import guard
from test.bench.paced.cases import parse_cases
from test.bench.paced.figures import Turn
from test.bench.paced.goals import paced_verdicts
from test.bench.paced.measure import figures as figures_of
from test.bench.paced.page import RESULT, keep, paced_section


def figures(**more: float) -> dict[str, Any]:
    """Return the figures of one rollout that meets every target."""
    return {
        "seconds": 100.0,
        "ideal": 98.0,
        "of_ideal": 0.98,
        "of_same_turns": 0.99,
        "utilisation": 0.97,
        "turnaround": 0.25,
        "repeated": 0,
        "steps": 38,
        "writes_per_group": 4.0,
        "cpu_per_group": 0.02,
        "control_plane_cpu": 30.0,
        **more,
    }


def _result(**cases: dict[str, Any]) -> dict[str, Any]:
    machine = {"cores": 2, "memory_gib": 8, "python": "3.11.7", "others": 0.0}
    return {"commit": "0123456789ab", "machine": machine, "cases": cases, "against": {}}


def _section(directory: Path, result: dict[str, Any]) -> str:
    (directory / RESULT).write_text(json.dumps(result))
    return paced_section(directory / RESULT)


def test_missed_figures_are_listed(tmp_path: Path) -> None:
    assert all(verdict.holds for verdict in paced_verdicts(figures()))
    text = _section(tmp_path, _result(one=figures(), two=figures(utilisation=0.86)))
    assert "Of 4 figures with a bound, 3 hold. Missed:\n\n- two, utilisation: 0.860, to reach ≥ 0.95" in text
    assert "hold." in _section(tmp_path, _result(one=figures()))
    assert "busy" not in text
    assert "Not measured yet" in paced_section(tmp_path / "nothing.json")


def test_two_controllers_are_listed_below_each_other(tmp_path: Path) -> None:
    text = _section(tmp_path, {**_result(one=figures()), "against": {"one": figures(seconds=150.0)}})
    assert text.index("| one | 100.0") < text.index("| one | 150.0")


def test_results_of_the_same_commit_are_merged(tmp_path: Path) -> None:
    keep(tmp_path, _result(one=figures(), two=figures()))
    keep(tmp_path, _result(two=figures(seconds=90.0)))
    first = json.loads((tmp_path / "paced.json").read_text())
    assert {name: case["seconds"] for name, case in first["cases"].items()} == {"one": 100.0, "two": 90.0}
    keep(tmp_path, {**_result(three=figures()), "commit": f"{first['commit']}+"})
    second = json.loads((tmp_path / "paced.json").read_text())
    assert (list(second["cases"]), second["commit"]) == (["one", "two", "three"], first["commit"])
    keep(tmp_path, {**_result(two=figures()), "commit": "another"})
    assert list(json.loads((tmp_path / "paced.json").read_text())["cases"]) == ["two"]


@pytest.mark.parametrize(("utilisation", "code"), [(0.95, 0), (0.94, 1)])
def test_the_guard_checks_the_utilisation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], utilisation: float, code: int
) -> None:
    monkeypatch.setattr(guard, "counts_of_one", lambda _: {})
    monkeypatch.setattr(guard, "measure_failures", lambda *_, **_given: {})
    monkeypatch.setattr(guard, "measure", lambda _: None)
    monkeypatch.setattr(guard, "counts", lambda _: dict.fromkeys(json.loads(guard.BUDGET.read_text()), 0.0))
    monkeypatch.setattr(guard, "measure_paired", lambda _: {})
    monkeypatch.setattr(guard, "paired_counts", lambda _: ())
    bad = figures(utilisation=utilisation, of_ideal=0.1)
    monkeypatch.setattr(guard, "measure_paced", lambda _: {"cases": {"one": bad}})
    assert guard.main() == code
    assert ("beyond the budget" in capsys.readouterr().out) is bool(code)


def test_the_guard_counts_steps_separately() -> None:
    """The number of steps depends on the speed of the machine; the cost of each group does not."""
    phase = {
        "writes": 281,
        "writes_per_group": 2.81,
        "events_per_group": 0.5,
        "groups": 100,
        "seconds": 52.0,
        "passes": {"pod": 500},
        "objects_listed": {},
        "requests": {"patch statefulsets": 39},
    }
    none = {"writes": 0}
    measured = guard.counts({"phases": {"rollout": phase}, "settled": none, "restart": none})
    assert measured["rollout: writes beside steps, per group"] == pytest.approx(2.03)
    assert measured["rollout: steps per second"] == pytest.approx(0.75)
    named = json.loads(guard.BUDGET.read_text())
    assert {name for name in named if name.startswith("rollout")} <= measured.keys()


def test_figures_of_turns() -> None:
    """Ten groups, one at a time: a turn is one second longer than a start, and a slot is idle for two."""
    (case,) = parse_cases("1x10x4-fixed")
    turns = {index: Turn(15.0 * turn, 15.0 * turn + 13.0) for turn, index in enumerate(case.order)}
    result = figures_of(case, turns, 0.0)
    assert (result["seconds"], result["ideal"], result["turnaround"]) == (148.0, 120.0, 1.0)
    assert result["of_ideal"] == pytest.approx(120 / 148)
    assert result["of_same_turns"] == pytest.approx(130 / 148)
    assert result["utilisation"] == pytest.approx(13 / 15)
