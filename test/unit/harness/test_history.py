"""test.harness.history: a leader that was created before its controller saw the group's turn is allowed."""

from __future__ import annotations

import pytest

from test.harness.history import Leader, LeaderSpec, SpecChange, is_detour

AT_REST = SpecChange(1, LeaderSpec(0, 3, "old"), True)
HELD = SpecChange(10, LeaderSpec(3, 3, "new"), True)


def turn(version: int, index: int, is_observed: bool) -> SpecChange:
    """Return the change after which the StatefulSet controller may replace the group."""
    return SpecChange(version, LeaderSpec(index, 3, "new"), is_observed)


@pytest.mark.parametrize(
    ("former", "leader", "spec_changes", "expected"),
    [
        pytest.param(
            Leader("a", "old", 1, 20),
            Leader("b", "old", 21),
            [AT_REST, HELD, turn(22, 2, False), turn(24, 2, True)],
            True,
            id="created before the StatefulSet was changed, right after the deletion",
        ),
        pytest.param(
            Leader("a", "old", 1, 20),
            Leader("b", "old", 23),
            [AT_REST, HELD, turn(22, 2, False), turn(24, 2, True)],
            True,
            id="created before the controller observed the change",
        ),
        pytest.param(
            Leader("b", "old", 21, 30),
            Leader("c", "new", 31),
            [AT_REST, HELD, turn(22, 2, False), turn(24, 2, True)],
            False,
            id="the new leader",
        ),
        pytest.param(
            Leader("a", "old", 1, 20),
            Leader("b", "old", 21),
            [AT_REST, HELD],
            False,
            id="restarted without a turn",
        ),
        pytest.param(
            Leader("c", "new", 31, 40),
            Leader("d", "new", 41),
            [AT_REST, HELD, turn(22, 2, True), turn(42, 1, True)],
            False,
            id="a new leader is replaced again",
        ),
        pytest.param(
            Leader("b", "wrong", 21, 30),
            Leader("c", "old", 31),
            [AT_REST, HELD, turn(32, 2, False)],
            True,
            id="a broken update is left by way of the first template",
        ),
        pytest.param(Leader("a", "old", 1), Leader("b", "old", 21), [], False, id="no change is known"),
    ],
)
def test_a_detour(former: Leader, leader: Leader, spec_changes: list[SpecChange], expected: bool) -> None:
    assert is_detour(2, former, leader, spec_changes) is expected


def test_a_group_deleted_before_its_turn_is_counted() -> None:
    """The next change of the StatefulSet is another group's turn."""
    spec_changes = [AT_REST, HELD, turn(22, 2, True), turn(30, 1, True)]
    assert not is_detour(0, Leader("a", "old", 1, 15), Leader("b", "old", 16), spec_changes)
