"""Tests of lws.leaderworkerset.group.placement: which pods form a subgroup."""

from __future__ import annotations

import pytest

from lws.leaderworkerset.group.placement import count_of, members_of, subgroup_key, subgroup_of


@pytest.mark.parametrize(
    ("size", "subgroup_size", "expected"),
    [
        pytest.param(4, 2, [0, 0, 1, 1], id="the leader counts"),
        pytest.param(5, 2, [0, 0, 0, 1, 1], id="the leader is additional in the first subgroup"),
        pytest.param(3, 1, [0, 1, 2], id="subgroups of one"),
        pytest.param(9, 4, [0, 0, 0, 0, 0, 1, 1, 1, 1], id="two islands of four and a leader"),
        pytest.param(8, 4, [0, 0, 0, 0, 1, 1, 1, 1], id="two islands of four"),
        pytest.param(1, 1, [0], id="leader only"),
        pytest.param(2, 2, [0, 0], id="one subgroup"),
        pytest.param(5, 3, [0, 0, 0, 1, 1], id="not divisible, which admission refuses"),
    ],
)
def test_subgroups(size: int, subgroup_size: int, expected: list[int]) -> None:
    assert [subgroup_of(worker, size, subgroup_size) for worker in range(size)] == expected
    for index in range(max(expected) + 2):
        same = [worker for worker, subgroup in enumerate(expected) if subgroup == index]
        assert list(members_of(index, size, subgroup_size)) == same
    assert count_of(size, subgroup_size, leader_excluded=False) == max(expected) + 1
    assert count_of(size, subgroup_size, leader_excluded=True) == len(set(expected[1:]))


def test_the_key_names_leader_and_subgroup() -> None:
    assert subgroup_key("sg-0", 0) == "4ae5bd831de8b89a0fa2e7ef54147fddb0950464"
    assert subgroup_key("sg-0", 1) != subgroup_key("sg-0", 0) != subgroup_key("sg-1", 0)
    assert len(subgroup_key("\ud800", 0)) == 40
