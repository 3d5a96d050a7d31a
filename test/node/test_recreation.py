"""Every step from the death of a worker's process to new pods is recorded.

`make bench-node` prints their durations.
"""

from __future__ import annotations

from test.node.groups import Groups
from test.node.recreation import OURS, STRETCHES, measured, table


def test_every_step_of_a_recreation_is_recorded(groups: Groups) -> None:
    recreations = measured(groups, 3)
    for recreation in recreations:
        assert all(seconds >= 0 for seconds in recreation.stretches.values())
        assert abs(sum(recreation.stretches.values()) - recreation.total) < 0.001
        assert recreation.ours < recreation.total
    lines = table(recreations)
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:-2]] == list(STRETCHES)
    assert set(OURS) < set(STRETCHES)
