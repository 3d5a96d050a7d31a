"""Results with thousands of groups: verdicts, and what the page shows."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from test.bench.thousands.goals import balance, verdicts
from test.bench.thousands.page import section


def result(shape: str, managers: int = 1, cpu: float = 0.01) -> dict[str, Any]:
    """Return the result of a run that meets every target. cpu: seconds per group."""
    phase = {
        "seconds": 60.0,
        "writes_per_group": 2.0,
        "events_per_group": 0.1,
        "cpu_per_group": cpu,
        "review_p50": 0.001,
        "review_p99": 0.01,
        "loop": {"waited_p50": 0.001, "waited_p99": 0.04, "own_p50": 0.0005, "own_p99": 0.004},
        "cpu_of_each": [2.0, *[1.0] * (managers - 1)],
        "peak_pss": 100_000_000,
    }
    return {
        "shape": shape,
        "pods": 1_000,
        "managers": managers,
        "commit": "c" * 40,
        "machine": {"cores": 2, "others": 0.5},
        "base_pss": [70_000_000] * managers,
        "created_pss": [90_000_000] * managers,
        "groups_of_each": [250 // managers] * managers,
        "restart": {"first_pass": 2.0, "all_passes": 3.0, "writes": 0},
        "phases": {name: copy.deepcopy(phase) for name in ("create", "rollout", "loss")},
        "blocks": {"decoding": 0.6, "writes": 0.4},
    }


def missed(measured: dict[str, Any], reference: dict[str, Any] | None) -> list[str]:
    return [verdict.measure for verdict in verdicts(measured, reference) if not verdict.holds]


def test_all_goals_are_reached() -> None:
    assert missed(result("10x500x4", cpu=0.0115), result("1x400x4")) == []


@pytest.mark.parametrize(
    ("change", "measure"),
    [
        (lambda it: it["phases"]["rollout"].update(cpu_per_group=0.0116), "CPU per group ÷ that of 1x400x4"),
        (
            lambda it: it["phases"]["create"].update(writes_per_group=2.4),
            "writes per group ÷ that of 1x400x4",
        ),
        (lambda it: it.update(created_pss=[95_100_000]), "kB for each pod"),
        (lambda it: it["restart"].update(first_pass=11.0), "restart: s to the first pass"),
        (lambda it: it["restart"].update(writes=1), "restart: writes"),
        (lambda it: it["phases"]["rollout"].update(review_p99=0.021), "reviews, own time p99 in ms, rollout"),
        (lambda it: it["phases"]["create"]["loop"].update(waited_p99=0.051), "loop lag p99 in ms, create"),
    ],
)
def test_a_missed_figure_is_reported(change: Any, measure: str) -> None:
    measured = result("10x500x4")
    change(measured)
    (only,) = missed(measured, result("1x400x4"))
    assert only.startswith(measure)


def test_several_managers_are_not_compared_with_one() -> None:
    assert not any(
        "÷" in verdict.measure for verdict in verdicts(result("10x100x4", 2, 1.0), result("1x400x4"))
    )


def test_balance_is_the_maximum_relative_to_the_mean() -> None:
    assert balance(result("10x100x4", 4)) == pytest.approx(2.0 / 1.25)


def test_the_report_shows_the_largest_shape_and_all_runs_with_several_managers() -> None:
    text = section([result("1x400x4"), {**result("10x500x4"), "pods": 20_000}, result("10x100x4", 2)])
    assert "10 × 500 × 4, one manager:" in text
    assert "| 10 × 100 × 4 | 2 | 125 + 125 |" in text


def test_the_page_reports_missing_results() -> None:
    assert "Not measured yet" in section([])
