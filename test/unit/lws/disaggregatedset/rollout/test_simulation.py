"""Tests of the published sequences, row by row: old counts, new counts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lws.disaggregatedset.rollout.state import RevisionCounts, SliceState
from test.unit.lws.disaggregatedset.rollout import reference
from test.unit.lws.disaggregatedset.rollout.reference import Rules
from test.unit.lws.disaggregatedset.rollout.slices import NAMES, beginning, ready, revision, roles
from tools.simulation import simulate

Budgets = tuple[tuple[int, ...], tuple[int, ...]]
ONE: Budgets = ((1, 1, 1), (0, 0, 0))


def written(state: SliceState) -> str:
    """Return the rows in the notation of the specification: old | new, one row per step."""
    names = NAMES[: len(state.roles)]
    rows = []
    for row in simulate(state):
        old = [sum(counts.get(name, 0) for counts in row.old.values()) for name in names]
        rows.append(f"{','.join(map(str, old))}|{','.join(str(row.new.get(name, 0)) for name in names)}")
    return " ".join(rows)


def rollout(before: tuple[int, ...], after: tuple[int, ...], budgets: Budgets = ONE) -> str:
    surge, unavailable = (budget[: len(before)] for budget in budgets)
    return written(beginning(before, roles(after, surge, unavailable)))


@pytest.mark.parametrize(
    ("before", "after", "budgets", "expected"),
    [
        ((4, 2), (4, 2), ONE, "4,2|0,0 4,2|1,1 3,2|1,1 3,2|2,1 2,1|2,1 2,1|3,2 1,1|3,2 1,1|4,2 0,0|4,2"),
        ((3, 3), (3, 3), ((0, 0), (1, 1)), "3,3|0,0 2,2|0,0 2,2|1,1 1,1|1,1 1,1|2,2 0,0|2,2 0,0|3,3"),
        ((7, 3), (7, 3), ((3, 1), (0, 0)), "7,3|0,0 7,3|3,1 5,2|3,1 5,2|5,2 3,1|5,2 3,1|7,3 0,0|7,3"),
        ((2, 4), (5, 4), ONE, "2,4|0,0 2,4|1,1 2,3|2,2 2,2|3,3 1,2|3,3 1,1|4,4 1,1|5,4 0,0|5,4"),
        (
            (6, 2),
            (3, 2),
            ONE,
            "6,2|0,0 5,2|0,0 4,2|0,0 3,2|0,0 3,2|1,1 2,1|1,1 2,1|2,1 2,1|2,2 1,1|2,2 1,1|3,2 0,0|3,2",
        ),
        (
            (4, 6, 0),
            (4, 6, 2),
            ONE,
            "4,6,0|0,0,0 4,6,0|1,1,1 4,5,0|1,1,1 3,5,0|1,1,1 3,5,0|2,2,1 3,4,0|2,2,1 3,4,0|2,3,1"
            " 2,3,0|2,3,1 2,3,0|3,4,2 2,2,0|3,4,2 1,2,0|3,4,2 1,2,0|4,5,2 1,1,0|4,5,2"
            " 1,1,0|4,6,2 0,0,0|4,6,2",
        ),
        (
            (4, 6, 2),
            (4, 6, 0),
            ONE,
            "4,6,2|0,0,0 4,6,2|1,1,0 4,5,2|1,1,0 3,5,2|1,1,0 3,5,2|2,2,0 3,4,2|2,2,0 3,4,2|2,3,0"
            " 2,3,1|2,3,0 2,3,1|3,4,0 2,2,1|3,4,0 1,2,1|3,4,0 1,2,1|4,5,0 1,1,1|4,5,0"
            " 1,1,1|4,6,0 0,0,0|4,6,0",
        ),
        ((3, 2), (0, 0), ONE, "3,2|0,0 0,0|0,0"),
        (
            (4, 4),
            (4, 4),
            ((2, 1), (1, 0)),
            "4,4|0,0 4,4|1,1 3,3|1,1 3,3|2,2 2,2|2,2 2,2|3,3 1,1|3,3 1,1|4,4 0,0|4,4",
        ),
    ],
    ids=["A", "B", "C", "D", "E", "F", "G", "H", "I"],
)
def test_the_worked_examples(
    before: tuple[int, ...], after: tuple[int, ...], budgets: Budgets, expected: str
) -> None:
    assert rollout(before, after, budgets) == expected


@pytest.mark.parametrize(
    ("before", "after", "budgets", "expected"),
    [
        (
            (10, 2),
            (6, 8),
            ((2, 2), (0, 0)),
            "10,2|0,0 8,2|0,0 6,2|0,0 6,2|2,2 4,1|2,2 4,1|3,4 4,1|4,5 2,1|4,5 2,1|5,7 2,1|6,8 0,0|6,8",
        ),
        ((4, 4), (4, 4), ((0, 0), (2, 2)), "4,4|0,0 2,2|0,0 2,2|2,2 0,0|2,2 0,0|4,4"),
    ],
)
def test_the_sequences_of_the_end_to_end_tests(
    before: tuple[int, ...], after: tuple[int, ...], budgets: Budgets, expected: str
) -> None:
    assert rollout(before, after, budgets) == expected


# The cases of upstream's public tests (§22 of the specification), except for the three below.
PUBLISHED = {
    "1,1 to 1,1": ((1, 1), (1, 1), (1, 1)),
    "2,2 to 2,2": ((2, 2), (2, 2), (1, 1)),
    "3,3 to 3,3": ((3, 3), (3, 3), (1, 1)),
    "6,2 to 6,2": ((6, 2), (6, 2), (1, 1)),
    "6,2 to 6,2, surge 2": ((6, 2), (6, 2), (2, 2)),
    "6,4 to 6,4, surge 2": ((6, 4), (6, 4), (2, 2)),
    "10,1 to 10,1": ((10, 1), (10, 1), (1, 1)),
    "1,10 to 1,10": ((1, 10), (1, 10), (1, 1)),
    "10,10 to 10,10": ((10, 10), (10, 10), (1, 1)),
    "10,10 to 10,10, surge 3": ((10, 10), (10, 10), (3, 3)),
    "12,6 to 12,6, surge 2": ((12, 6), (12, 6), (2, 2)),
    "1,1 to 3,3": ((1, 1), (3, 3), (1, 1)),
    "4,4 to 6,6": ((4, 4), (6, 6), (1, 1)),
    "5,5 to 2,2": ((5, 5), (2, 2), (1, 1)),
    "4,4 to 4,4, surge 2": ((4, 4), (4, 4), (2, 2)),
    "4,6 to 4,6, surge 2 and 3": ((4, 6), (4, 6), (2, 3)),
    "5,3 to 5,3, surge 2": ((5, 3), (5, 3), (2, 2)),
    "from nothing": ((0, 0), (3, 3), (1, 1)),
    "nothing": ((0, 0), (0, 0), (1, 1)),
}
PUBLISHED_ROWS = {
    "10,10 to 10,10, surge 3": ("10,10|0,0 10,10|3,3 8,8|3,3 8,8|5,5 5,5|8,8 3,3|8,8 3,3|10,10 0,0|10,10"),
    "12,6 to 12,6, surge 2": (
        "12,6|0,0 12,6|2,1 10,5|2,1 10,5|4,2 8,4|4,2 8,4|6,3 6,3|6,3 6,3|8,4 4,2|8,4"
        " 4,2|10,5 2,1|10,5 2,1|12,6 0,0|12,6"
    ),
    "4,4 to 6,6": ("4,4|0,0 4,4|1,1 4,4|2,2 4,4|3,3 3,3|4,4 2,2|5,5 1,1|6,6 0,0|6,6"),
    "4,6 to 4,6, surge 2 and 3": ("4,6|0,0 4,6|2,3 2,3|2,3 2,3|4,6 0,0|4,6"),
    "5,3 to 5,3, surge 2": ("5,3|0,0 5,3|2,1 4,2|2,1 3,2|2,1 3,2|4,2 2,1|4,2 2,1|5,3 0,0|5,3"),
    "6,4 to 6,4, surge 2": ("6,4|0,0 6,4|2,2 4,3|2,2 4,3|4,3 2,2|4,3 2,2|6,4 0,0|6,4"),
}


def as_rows(rules: Rules) -> str:
    return " ".join(
        f"{','.join(map(str, old))}|{','.join(map(str, new))}" for old, new in reference.rows(rules)
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_sequences_of_the_public_tests(name: str) -> None:
    before, after, surge = PUBLISHED[name]
    ours = rollout(before, after, ((*surge, 1), (0, 0, 0)))
    rules = Rules(before, after, surge, (0, 0))
    assert ours == as_rows(rules) and not list(reference.broken_promises(rules, reference.rows(rules)))
    assert ours == PUBLISHED_ROWS.get(name, ours)


@pytest.mark.parametrize(
    ("before", "after", "starving", "ours"),
    [
        (
            (3, 5),
            (5, 3),
            "2,3|0,0",
            "3,5|0,0 3,4|0,0 3,3|0,0 3,3|1,1 2,2|1,1 2,2|2,2 2,2|3,2 1,1|3,2 1,1|4,3 1,1|5,3 0,0|5,3",
        ),
        (
            (2, 4),
            (4, 2),
            "1,2|0,0",
            "2,4|0,0 2,3|0,0 2,2|0,0 2,2|1,1 2,2|2,1 1,1|2,1 1,1|3,2 1,1|4,2 0,0|4,2",
        ),
        (
            (3, 5),
            (4, 2),
            "2,3|0,0",
            "3,5|0,0 3,4|0,0 3,3|0,0 3,2|0,0 3,2|1,1 3,2|2,1 1,1|2,1 1,1|3,2 1,1|4,2 0,0|4,2",
        ),
    ],
    ids=["mixed_scale_3_5_to_5_3", "asymmetric_2_4_to_4_2", "proportional_3_5_to_4_2"],
)
def test_wart_6_a_growing_role_is_not_starved(
    before: tuple[int, ...], after: tuple[int, ...], starving: str, ours: str
) -> None:
    rules = Rules(before, after, (1, 1), (0, 0))
    theirs = as_rows(rules).split()
    assert starving in theirs and list(reference.broken_promises(rules, reference.rows(rules)))
    assert rollout(before, after) == ours


def test_several_old_revisions_are_listed_separately() -> None:
    state = SliceState(roles((2, 2)), (revision("b", 1, 1), revision("a", 1, 1)), revision("c", 0, 0))
    rows = simulate(state)
    assert [list(row.old) for row in rows] == [["b", "a"], ["b", "a"], ["a"], ["a"], []]
    assert rows[-1].new == {"x": 2, "y": 2}


def test_a_slice_at_rest_takes_no_step() -> None:
    assert len(simulate(SliceState(roles((2, 2)), (), revision("a", 2, 2)))) == 1


@pytest.mark.parametrize("budgets", [ONE, ((0, 0, 0), (1, 1, 1))], ids=["surge", "unavailable"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            [revision("a", ready(1, 2), ready(2, 2))],
            revision("b", ready(1, 4), ready(0, 4)),
            id="scaled up with the template",
        ),
        pytest.param(
            [revision("b", ready(1, 4), ready(0, 4)), revision("a", ready(2, 4), ready(3, 4))],
            revision("c", ready(1, 4), ready(1, 4)),
            id="interrupts another rollout",
        ),
    ],
)
def test_a_rollout_begun_by_a_later_upstream_continues(
    old: list[RevisionCounts], new: RevisionCounts, budgets: Budgets
) -> None:
    """Later releases of upstream record the desired counts of a revision, the target included, not its
    initial ones.
    """
    surge, unavailable = budgets
    targets = roles((4, 4), surge[:2], unavailable[:2])
    rows = simulate(SliceState(targets, tuple(old), new))
    assert (rows[-1].old, rows[-1].new) == ({}, {"x": 4, "y": 4})
    for before, after in pairwise(rows):
        assert all(before.new[role] <= after.new[role] for role in before.new), "no new group is deleted"


def test_a_slice_of_one_role() -> None:
    assert rollout((3,), (3,)) == "3|0 3|1 2|1 2|2 1|2 1|3 0|3"
