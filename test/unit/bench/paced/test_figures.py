"""test.bench.paced.figures: used shares of a budget, and the best possible share."""

from __future__ import annotations

import pytest

from test.bench.paced.figures import Turn, ideal, utilisation


@pytest.mark.parametrize(
    ("startups", "slots", "seconds"),
    [
        pytest.param([], 4, 0.0, id="nothing"),
        pytest.param([10.0] * 40, 4, 100.0, id="in rounds"),
        pytest.param([60.0, 10.0, 10.0, 10.0], 2, 60.0, id="a slow pod in parallel to others"),
        pytest.param([10.0, 10.0, 60.0], 2, 70.0, id="a slow pod at the end"),
        pytest.param([5.0, 1.0, 1.0, 1.0], 2, 5.0, id="the slot that is free first"),
    ],
)
def test_the_ideal_refills_each_free_slot_at_once(startups: list[float], slots: int, seconds: float) -> None:
    assert ideal(startups, slots) == seconds


def test_a_budget_in_full_use() -> None:
    turns = [Turn(10.0 * (index // 2), 10.0 * (index // 2) + 10.0) for index in range(8)]
    assert utilisation(turns, 2, 0.0) == 1.0


def test_waiting_slots_lower_the_utilisation() -> None:
    """Two slots are both idle for 5 of 15 s before the last two groups; later seconds do not count."""
    turns = [Turn(0.0, 10.0), Turn(0.0, 10.0), Turn(15.0, 99.0), Turn(15.0, 25.0)]
    assert utilisation(turns, 2, 0.0) == pytest.approx(20 / 30)


def test_the_time_before_the_first_deletion_counts() -> None:
    assert utilisation([Turn(5.0, 10.0), Turn(10.0, 20.0)], 1, 0.0) == pytest.approx(0.5)


def test_a_budget_of_everything_is_used() -> None:
    assert utilisation([Turn(0.0, 10.0), Turn(1.0, 10.0)], 2, 0.0) == 1.0
