"""Tests of maxUpdatingSlices: which slices may roll at the same time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lws.disaggregatedset.slices.course import SliceProgress, slices_recorded, slices_that_may_step


def old(index: int) -> SliceProgress:
    return SliceProgress(index, has_old=True, has_begun=False, is_settled=False)


def rolling(index: int) -> SliceProgress:
    return SliceProgress(index, has_old=True, has_begun=True, is_settled=False)


def done(index: int) -> SliceProgress:
    return SliceProgress(index, has_old=False, has_begun=True, is_settled=True)


def test_all_slices_roll_at_once_without_a_limit() -> None:
    assert slices_that_may_step([old(0), rolling(1), done(2)], 3) == {0, 1}


def test_wart_37_the_limit_of_concurrent_slices_is_respected() -> None:
    assert slices_that_may_step([old(0), old(1), old(2)], 3, most=1) == {0}
    assert slices_that_may_step([old(0), rolling(1), old(2)], 3, most=1) == {1}
    assert slices_that_may_step([done(0), old(2), old(1)], 3, most=1) == {1}
    assert slices_that_may_step([old(0), rolling(1), old(2)], 3, most=2) == {0, 1}


def test_a_slice_counts_until_new_groups_are_ready_and_old_ones_are_deleted() -> None:
    unready = SliceProgress(0, has_old=False, has_begun=True, is_settled=False)
    terminating = SliceProgress(0, has_old=True, has_begun=True, is_settled=True)
    for last in (unready, terminating):
        assert slices_that_may_step([last, old(1)], 2, most=1) == {0}


def test_a_lowered_limit_does_not_stop_started_slices() -> None:
    assert slices_that_may_step([rolling(0), rolling(1), old(2)], 3, most=1) == {0, 1}


def test_removed_slices_do_not_count_and_take_no_step() -> None:
    assert slices_that_may_step([old(0), rolling(2)], 1, most=1) == {0}


ALL = frozenset(range(4))


@pytest.mark.parametrize(
    ("standings", "expected"),
    [
        pytest.param([old(0), old(1), old(2)], ALL, id="room for all"),
        pytest.param([old(0), old(1), old(2), old(3)], {0, 1, 2}, id="room for three"),
        pytest.param([rolling(0), old(1), rolling(2), rolling(3)], {0, 2, 3}, id="started slices continue"),
        pytest.param([replace(old(0), records=50), old(1)], {0, 2, 3}, id="at least one slice"),
        pytest.param([replace(rolling(0), records=50), old(1)], {0, 2, 3}, id="and no other slice"),
        pytest.param([replace(done(0), records=50), old(1)], ALL, id="completed slices do not count"),
    ],
)
def test_the_number_of_recorded_slices_limits_concurrent_rollouts(
    standings: list[SliceProgress], expected: frozenset[int]
) -> None:
    ten = [standing if standing.records else replace(standing, records=10) for standing in standings]
    assert slices_recorded(ten, ALL, most=30) == expected
    assert slices_recorded(ten, frozenset(), most=30) == frozenset()


def test_a_limit_below_one_counts_as_one() -> None:
    assert slices_that_may_step([old(0), old(1)], 2, most=0) == {0}
