"""Tests that a rollout uses its budget well with slow groups. Planner and pacing run in virtual time.

The control plane of these tests is a quiet one. `make bench` measures how much longer a busy one takes.
"""

from __future__ import annotations

import pytest

from test.bench.paced.goals import OF_IDEAL, UTILISATION
from test.bench.paced.startups import FIXED, TAIL, UNIFORM, Startup
from test.unit.stories.paced import Delays, Pace, Paced
from test.unit.stories.story import Wish


def roll(
    groups: int,
    startup: Startup,
    unavailable: int = 0,
    surge: int = 0,
    has_feature: bool = False,
    delays: Delays | None = None,
) -> Pace:
    wish = Wish(groups, unavailable=unavailable, surge=surge)
    return Paced(wish, lambda index: startup.of(f"set-0-{index}"), has_feature, delays or Delays()).play()


@pytest.mark.parametrize("has_feature", [False, True])
@pytest.mark.parametrize("startup", [FIXED, UNIFORM, TAIL], ids=lambda delays: delays.name)
@pytest.mark.parametrize(
    ("groups", "unavailable", "surge"),
    [
        pytest.param(40, 4, 0, id="40, budget 4"),
        pytest.param(100, 10, 0, id="100, 10 %"),
        pytest.param(40, 0, 2, id="40, surge 2"),
        pytest.param(40, 2, 2, id="40, 2 and 2"),
    ],
)
def test_free_slots_are_refilled_at_once(
    groups: int, unavailable: int, surge: int, startup: Startup, has_feature: bool
) -> None:
    pace = roll(groups, startup, unavailable, surge, has_feature)
    assert pace.of_ideal >= OF_IDEAL, pace
    assert pace.utilisation >= UTILISATION, pace
    assert not pace.restarted_twice, "nothing came back on the old revision"


def test_one_slow_group_does_not_delay_the_others() -> None:
    """The partition moves past the slow group: it is on the new revision already."""
    slow = Startup("slow", "the first takes as long as all others together", (10.0,))
    paced = Paced(Wish(40, unavailable=4), lambda index: 120.0 if index == 39 else slow.of(str(index)))
    pace = paced.play()
    # The other 39 groups share three slots: 13 rounds.
    assert pace.seconds < 1.03 * 13 * 10.0, pace


def test_a_large_set_combines_groups_that_become_ready_one_after_another() -> None:
    """Three of 400 groups, 40 at a time, become ready per second: as many steps would cost too much."""
    pace = roll(400, UNIFORM, 40)
    assert pace.steps < 100, pace
    assert pace.utilisation >= 0.92, pace


def test_a_slow_control_plane_costs_time_and_no_budget() -> None:
    pace = roll(40, UNIFORM, 4, delays=Delays(sync=0.2, going=0.6, seen=0.05))
    assert pace.utilisation >= UTILISATION, pace
    assert pace.of_ideal < OF_IDEAL, pace
