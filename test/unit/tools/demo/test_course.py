from __future__ import annotations

from typing import Any

import pytest

from test.unit.tools.demo.objects import NAME, make_group
from tools.demo.facts import Moment, pod_of
from tools.demo.tour import verify_always_ready, verify_least_ready, verify_only_went, verify_order

LEADERS = {
    f"workers-{index}-uid{suffix}": f"{NAME}-{index}-0-uid{suffix}"
    for index in range(4)
    for suffix in ("", "-2")
}


def moment(*groups: list[dict[str, Any]]) -> Moment:
    pods = (pod_of(pod) for group in groups for pod in group)
    return tuple(pod for pod in pods if pod is not None)


ALL = moment(*(make_group(index) for index in range(4)))
ONE_LESS = moment(*(make_group(index) for index in range(3)))
TWO_LESS = moment(*(make_group(index) for index in range(2)))


def test_the_moment_with_the_fewest_ready_groups_counts() -> None:
    check = verify_least_ready([ALL, ONE_LESS, ALL], LEADERS, 3)
    assert check.held
    assert check.claim == "at no time were fewer than 3 groups ready (3 states of the watch on pods)"
    check = verify_least_ready([ALL, ONE_LESS, TWO_LESS, ALL], LEADERS, 3)
    assert not check.held and check.actual == "2, in state 3 of 4"


def test_groups_that_must_stay_ready() -> None:
    assert verify_always_ready([ALL, ONE_LESS], LEADERS, [0, 1, 2]).held
    check = verify_always_ready([ALL, ONE_LESS], LEADERS, [0, 3])
    assert not check.held and check.actual == "not so: group 3"
    assert verify_always_ready([ALL], LEADERS, [0]).claim.endswith("(1 state of the watch on pods)")


def test_workers_of_a_former_leader_do_not_make_a_group_ready() -> None:
    old, new = make_group(0), make_group(0, incarnation="-2")
    mixed = moment([new[0], *old[1:]])
    assert not verify_least_ready([mixed], LEADERS, 1).held


@pytest.mark.parametrize(
    ("updated", "order"),
    [
        pytest.param([[], [3], [3, 2], [3, 2, 1], [3, 2, 1, 0]], [3, 2, 1, 0], id="one after the other"),
        pytest.param([[], [3], [2], [2, 1], [1, 0]], [3, 2, 1, 0], id="one group is briefly missing"),
        pytest.param([[], [3, 2], [3, 2, 1, 0]], [3, 2, 1, 0], id="several at once count from above"),
        pytest.param([[], [0], [0, 3]], [0, 3], id="wrong order"),
    ],
)
def test_order_in_which_groups_are_updated(updated: list[list[int]], order: list[int]) -> None:
    moments = [moment(*(make_group(index, revision="new") for index in indices)) for indices in updated]
    check = verify_order(moments, "new", [3, 2, 1, 0])
    assert check.held == (order == [3, 2, 1, 0])
    assert check.actual == str(order)


def test_pods_of_the_old_revision_have_no_order() -> None:
    assert verify_order([ALL], "new", []).held


def test_deleted_pods_without_replacement() -> None:
    assert verify_only_went([ALL, ONE_LESS, ()]).held
    again = moment(make_group(0, incarnation="-2"))
    check = verify_only_went([ALL, ONE_LESS, again])
    assert not check.held and f"{NAME}-0-1" in check.actual
