"""Results of DisaggregatedSet benchmarks: verdicts, their section of the page, and the guard."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from test.bench import __main__ as bench
from test.bench import guard
from test.bench.disaggregated.goals import paired_verdicts
from test.bench.disaggregated.measure import PairedOrder
from test.bench.disaggregated.page import paired_section, read_paired
from test.unit.bench.paced.test_page import figures

CREATED = {
    "create controllerrevisions": 1,
    "create leaderworkersets": 2,
    "create services": 2,
    "patch disaggregatedsets/status": 2,
}
ROLLED = {
    **CREATED,
    "create events": 12,
    "delete leaderworkersets": 2,
    "delete services": 2,
    "patch leaderworkersets": 10,
}
SLICED = {
    "create controllerrevisions": 1,
    "create disaggregatedsetrolescalers": 1,
    "create leaderworkersets": 6,
    "create services": 6,
    "patch disaggregatedsets/status": 2,
    "patch disaggregatedsetrolescalers/status": 2,
}


def _phase(seconds: float, most: dict[str, int], **more: Any) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "cpu": seconds / 2,
        "peak_pss": 90e6,
        "passes": {"disaggregatedset": 10.0, "pod": 99.0},
        "requests": {"list pods": 1},
        "most_of_a_set": most,
        "written": {action: 2 * count for action, count in most.items()},
        "set_review_p99": 0.01,
        **more,
    }


def _result(**more: Any) -> dict[str, Any]:
    phases = {"create": _phase(10.0, CREATED), "rollout": _phase(20.0, ROLLED), "delete": _phase(2.0, {})}
    alone = {name: {**phase, "peak_pss": 80e6} for name, phase in phases.items()}
    alone["rollout"]["seconds_of_steps"] = [5.0, 4.0, 5.0, 4.0]
    return {
        "shape": "ds2x2x2x2",
        "groups": 8,
        "steps": 4,
        "changes": 8,
        "commit": "a" * 40,
        "machine": {"cores": 2, "memory_gib": 24, "python": "3.11", "others": 0.5},
        "alone": alone,
        "phases": phases,
        "settled": {"writes": 0, "events": 0, "requests": {}, "passes": {"disaggregatedset": 0.0}},
        "single": {"step_waits": [0.1, 0.6]},
        "restart": {"writes": 0},
        "sliced": _phase(3.0, SLICED),
        **more,
    }


def _missed(result: dict[str, Any]) -> set[str]:
    return {verdict.measure for verdict in paired_verdicts(result) if not verdict.holds}


def test_all_goals_are_reached() -> None:
    assert _missed(_result()) == set()


@pytest.mark.parametrize(
    ("phase", "action", "measure"),
    [
        pytest.param("create", "create services", "create services of a set, create", id="service"),
        pytest.param("create", "patch disaggregatedsets/status", "statuses of a set, create", id="status"),
        pytest.param("create", "patch leaderworkersets", "other writes of a set, create", id="other"),
        pytest.param(
            "rollout", "patch leaderworkersets", "patch leaderworkersets of a set, rollout", id="step"
        ),
        pytest.param("rollout", "create events", "Events of a set, rollout", id="event"),
        pytest.param(
            "rollout", "delete leaderworkersets", "delete leaderworkersets of a set, rollout", id="deletion"
        ),
    ],
)
def test_one_excess_write_is_reported(phase: str, action: str, measure: str) -> None:
    result = _result()
    most = result["phases"][phase]["most_of_a_set"]
    result["phases"][phase]["most_of_a_set"] = {**most, action: most.get(action, 0) + 1}
    assert _missed(result) == {measure}


@pytest.mark.parametrize(
    ("action", "measure"),
    [
        pytest.param("create services", "create services of a set", id="service"),
        pytest.param("create disaggregatedsetrolescalers", None, id="scaler"),
        pytest.param("patch disaggregatedsets/status", "statuses of a set", id="status"),
        pytest.param("patch leaderworkersets", "other writes of a set", id="other"),
    ],
)
def test_one_excess_write_of_a_set_with_slices_is_reported(action: str, measure: str | None) -> None:
    result = _result(sliced=_phase(3.0, {**SLICED, action: SLICED.get(action, 0) + 1}))
    assert _missed(result) == {f"{measure or f'{action} of a set'}, create with slices and a scaler"}


def test_lists_of_watches_are_not_counted() -> None:
    result = _result()
    result["phases"]["create"]["requests"] = {"list leaderworkersets": 3, "get nodes": 9, "list events": 9}
    assert _missed(result) == set()
    result["phases"]["create"]["requests"] = {"list leaderworkersets": 4}
    result["phases"]["delete"]["requests"] = {"list secrets": 1}
    assert _missed(result) == {"lists by passes, create", "lists by passes, delete"}


def test_costs_relative_to_the_same_sets_alone() -> None:
    result = _result()
    result["phases"]["create"]["seconds"] = 20.0
    result["phases"]["rollout"]["cpu"] = 20.0
    result["phases"]["delete"]["peak_pss"] = 101e6
    assert _missed(result) == {"created and deleted, time ÷ alone", "CPU ÷ alone", "peak PSS ÷ alone"}
    slow = _result(single={"step_waits": [0.1, 1.1]})
    slow["phases"]["rollout"]["seconds"] = 26.5
    slow["phases"]["rollout"]["set_review_p99"] = 0.026
    assert _missed(slow) == {
        "rollout, time ÷ (steps × one group)",
        "rollout, time ÷ the same steps alone",
        "review p99 in ms, rollout",
        "last pod to next step in s, one set at rest",
    }


def test_the_report_has_a_section_for_disaggregated_sets(tmp_path: Path) -> None:
    assert "Not measured yet" in paired_section(read_paired(tmp_path))
    (tmp_path / "ds2x2x2x2.json").write_text(json.dumps(_result()))
    text = paired_section(read_paired(tmp_path))
    assert "| create | 10 | 10 | 5 | 5 | 90 | 80 | 7 | 5 |" in text
    assert "| CPU ÷ alone | 1 | ≤ 1.25 | holds |" in text
    assert "The machine was busy" in text and read_paired(tmp_path) == [_result()]


def test_the_page_shows_the_minimum_for_any_controller() -> None:
    least = {"create": {"requests": 14, "cpu": 0.6}, "rollout": {"requests": 46, "cpu": 1.0}}
    text = paired_section([_result(least=least)])
    assert "1.6 CPU s for 60 requests, 27 ms each" in text
    assert "**CPU ÷ alone would be 1.1 without any decision and any review.**" in text
    assert "without any decision" not in paired_section([_result()])


def test_ratios_are_omitted_without_the_measurement_alone() -> None:
    text = paired_section([_result(alone={}, single={})])
    assert "| create | 10 | – |" in text and "÷ alone" not in text and "at rest" not in text


def test_the_command_line_accepts_shapes_of_disaggregated_sets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    orders: list[PairedOrder] = []

    def measured(order: PairedOrder) -> dict[str, Any]:
        orders.append(order)
        return _result()

    monkeypatch.setattr(bench, "measure_paired", measured)
    monkeypatch.setattr(bench, "commit", lambda: "a" * 40)
    for extra in ((), ("--resume",)):
        monkeypatch.setattr(sys, "argv", ["bench", "ds2x2x2x2", "--results", str(tmp_path), *extra])
        assert bench.main() == 0
    assert [(order.shape.name, order.has_alone) for order in orders] == [("ds2x2x2x2", True)]
    assert json.loads((tmp_path / "ds2x2x2x2.json").read_text()) == _result()


@pytest.mark.parametrize("too_many", [0, 1])
def test_the_guard_checks_counts_of_disaggregated_sets(
    monkeypatch: pytest.MonkeyPatch, too_many: int
) -> None:
    monkeypatch.setattr(guard, "measure", lambda _: None)
    monkeypatch.setattr(guard, "counts_of_one", lambda _: {})
    monkeypatch.setattr(guard, "measure_failures", lambda *_, **_given: {})
    monkeypatch.setattr(guard, "counts", lambda _: dict.fromkeys(guard.budgets()[0], 0.0))
    result = _result(restart={"writes": too_many}, alone={})
    result["phases"]["rollout"]["most_of_a_set"] = {**ROLLED, "create events": 7}
    monkeypatch.setattr(guard, "measure_paired", lambda _: result)
    monkeypatch.setattr(guard, "measure_paced", lambda _: {"cases": {"one": figures()}})
    assert guard.main() == too_many


@pytest.mark.parametrize(
    ("phase", "passes", "events", "is_too_much"),
    [
        pytest.param("create", 12.0, 7, False, id="as much as was reached"),
        pytest.param("create", 13.0, 7, True, id="passes of creations"),
        pytest.param("rollout", 30.0, 7, False, id="as many passes as were reached"),
        pytest.param("rollout", 31.0, 7, True, id="passes of rollouts"),
        pytest.param("rollout", 24.0, 8, True, id="Events of rollouts"),
    ],
)
def test_the_guard_checks_the_reached_figures(
    monkeypatch: pytest.MonkeyPatch, phase: str, passes: float, events: int, is_too_much: bool
) -> None:
    monkeypatch.setattr(guard, "measure", lambda _: None)
    monkeypatch.setattr(guard, "counts_of_one", lambda _: {})
    monkeypatch.setattr(guard, "measure_failures", lambda *_, **_given: {})
    monkeypatch.setattr(guard, "counts", lambda _: dict.fromkeys(guard.budgets()[0], 0.0))
    result = _result(alone={})
    measured = {f"ds2x2x2x2: {verdict.measure}" for verdict in paired_verdicts(result)}
    assert guard.budgets()[1].keys() <= measured
    result["phases"]["rollout"]["most_of_a_set"] = {**ROLLED, "create events": events}
    result["phases"][phase]["passes"] = {"disaggregatedset": passes}
    monkeypatch.setattr(guard, "measure_paired", lambda _: result)
    monkeypatch.setattr(guard, "measure_paced", lambda _: {"cases": {"one": figures()}})
    assert guard.main() == int(is_too_much)
