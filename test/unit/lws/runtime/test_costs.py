"""lws.runtime.costs: no delay is longer than the cost of the work justifies."""

from __future__ import annotations

import pytest

from lws import timing
from lws.runtime import costs
from lws.runtime.costs import Cost


def test_updates_stay_within_their_share_of_a_core() -> None:
    cost = Cost(fixed=0.010, per_group=0.0001, share=0.05)
    assert cost.pace(10**9) == timing.LONGEST_PACE_SECONDS
    assert [cost.pace(groups) for groups in (0, 1, 100)] == pytest.approx([0.2, 0.202, 0.4])
    assert cost.pace(-3) == cost.pace(0), "a spec may be invalid"


@pytest.mark.parametrize("cost", [costs.STEP, costs.STATUS])
def test_delays_grow_slower_than_the_number_of_groups(cost: Cost) -> None:
    for groups in (1, 10, 50):
        assert cost.pace(groups) < cost.pace(10 * groups) < 10 * cost.pace(groups)


def test_steps_of_a_set_of_forty_groups_are_not_delayed() -> None:
    """With four slots and groups that take 12 s, one group becomes ready every three seconds."""
    assert costs.STEP.pace(40) < 3.0 / 2
    assert costs.status_pause(40) < 2.0


@pytest.mark.parametrize("groups", [0, 1, 2, 3])
def test_small_sets_write_few_statuses_per_group(groups: int) -> None:
    assert costs.status_pause(groups) == timing.LONGEST_PACE_SECONDS / max(1, groups)


def test_the_delay_of_a_key_is_fifty_times_the_duration_of_its_pass() -> None:
    assert costs.delay_after(0.0067) == pytest.approx(0.335)


def _core_taken(keys: int, duration: float, seconds: float = 60.0) -> float:
    """Return the share of a core that passes over `keys` keys use if each key is always due."""
    load, used, due = costs.PassLoad(), 0.0, dict.fromkeys(range(keys), 0.0)
    while (now := min(due.values())) < seconds:
        key = min(due, key=due.__getitem__)
        used += duration
        due[key] = now + min(load.delay_after(duration, now), timing.MAX_PASS_DELAY_SECONDS)
    return used / seconds


@pytest.mark.parametrize(("keys", "duration"), [(1, 0.0034), (1, 0.0067), (2, 0.0034)])
def test_few_sets_take_a_fiftieth_of_a_core_each(keys: int, duration: float) -> None:
    assert _core_taken(keys, duration) == pytest.approx(keys * costs.PASS_SHARE, rel=0.05)


@pytest.mark.parametrize(
    ("keys", "duration", "share"), [(10, 0.0034, 0.07), (30, 0.0034, 0.1), (100, 0.0005, 0.15)]
)
def test_many_sets_take_less_each_than_one_alone(keys: int, duration: float, share: float) -> None:
    assert _core_taken(keys, duration) == pytest.approx(share, rel=0.3)


def test_old_passes_are_ignored() -> None:
    load = costs.PassLoad()
    for number in range(100):
        load.delay_after(0.02, number / 100)
    assert load.delay_after(0.01, 1.0) > 2 * costs.delay_after(0.01)
    assert load.delay_after(0.01, 100.0) == costs.delay_after(0.01)
