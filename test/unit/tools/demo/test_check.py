from __future__ import annotations

import pytest

from tools.demo.check import equal, listed, none_of, same_members


@pytest.mark.parametrize(
    ("expected", "actual", "held", "expected_actual"),
    [
        pytest.param(["a", "b"], ["b", "a"], True, "2", id="the same in another order"),
        pytest.param(["a", "b"], ["a"], False, "1, without b", id="one member is missing"),
        pytest.param(["a"], ["a", "b"], False, "2, with b", id="one excess member"),
        pytest.param(["a"], ["a", "a"], False, "2", id="a duplicate"),
        pytest.param(["a"], ["b"], False, "1, without a, with b", id="another member"),
    ],
)
def test_same_members(expected: list[str], actual: list[str], held: bool, expected_actual: str) -> None:
    check = same_members("claim", expected, actual)
    assert (check.claim, check.held, check.actual) == ("claim", held, expected_actual)


@pytest.mark.parametrize(
    ("offenders", "of", "held"),
    [
        pytest.param([], 3, True, id="none of several items"),
        pytest.param(["a"], 3, False, id="one of several items"),
        pytest.param([], 0, False, id="nothing to look at proves nothing"),
    ],
)
def test_none_of(offenders: list[str], of: int, held: bool) -> None:
    check = none_of("claim", offenders, of)
    assert check.held == held
    assert check.actual == ("not so: a" if offenders else f"{of} were there to look at")


def test_equal_reports_both_values() -> None:
    check = equal("claim", (4, True), (3, True))
    assert (check.held, check.expected, check.actual) == (False, "(4, True)", "(3, True)")
    assert equal("claim", 4, 4).held


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param([], "none", id="none"),
        pytest.param(["b", "a"], "a, b", id="sorted"),
        pytest.param("abcdef", "a, b, c, d, e, f", id="just as many as are shown"),
        pytest.param("abcdefgh", "a, b, c, d, e, f and 2 more", id="more than are shown"),
    ],
)
def test_listed(names: list[str], text: str) -> None:
    assert listed(names) == text
