"""Which leaders does the history of a set excuse, and which does it count?"""

from __future__ import annotations

import pytest

from test.harness.history import Life, Telling, Told, is_detour

AT_REST = Telling(1, Told(0, 3, "old"), True)
HELD = Telling(10, Told(3, 3, "new"), True)


def turn(version: int, index: int, is_observed: bool) -> Telling:
    """The group may move from now on."""
    return Telling(version, Told(index, 3, "new"), is_observed)


@pytest.mark.parametrize(
    ("former", "life", "tellings", "expected"),
    [
        pytest.param(
            Life("a", "old", 1, 20),
            Life("b", "old", 21),
            [AT_REST, HELD, turn(22, 2, False), turn(24, 2, True)],
            True,
            id="made before the StatefulSet was told, right after the deletion",
        ),
        pytest.param(
            Life("a", "old", 1, 20),
            Life("b", "old", 23),
            [AT_REST, HELD, turn(22, 2, False), turn(24, 2, True)],
            True,
            id="made before its controller had seen it",
        ),
        pytest.param(
            Life("b", "old", 21, 30),
            Life("c", "new", 31),
            [AT_REST, HELD, turn(22, 2, False), turn(24, 2, True)],
            False,
            id="the new one",
        ),
        pytest.param(
            Life("a", "old", 1, 20),
            Life("b", "old", 21),
            [AT_REST, HELD],
            False,
            id="restarted, and nobody was told of a turn",
        ),
        pytest.param(
            Life("c", "new", 31, 40),
            Life("d", "new", 41),
            [AT_REST, HELD, turn(22, 2, True), turn(42, 1, True)],
            False,
            id="a new one is replaced again",
        ),
        pytest.param(
            Life("b", "wrong", 21, 30),
            Life("c", "old", 31),
            [AT_REST, HELD, turn(32, 2, False)],
            True,
            id="a broken update is left by way of the first template",
        ),
        pytest.param(Life("a", "old", 1), Life("b", "old", 21), [], False, id="nothing is known"),
    ],
)
def test_a_detour(former: Life, life: Life, tellings: list[Telling], expected: bool) -> None:
    assert is_detour(2, former, life, tellings) is expected


def test_a_group_that_goes_before_its_turn_is_counted() -> None:
    """The next that is told is the turn of another group."""
    tellings = [AT_REST, HELD, turn(22, 2, True), turn(30, 1, True)]
    assert not is_detour(0, Life("a", "old", 1, 15), Life("b", "old", 16), tellings)
