"""Tests of how groups of a slice count: as serving, starting, broken or removable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lws.disaggregatedset.rollout.state import Count, RevisionCounts, RoleTarget, SliceState, SliceStep


def healthy(replicas: int, initial: int | None = None) -> Count:
    return Count(replicas, replicas, replicas, True, initial)


@pytest.mark.parametrize(
    ("count", "serving"),
    [
        (healthy(3), 3),
        (Count(desired=3, present=3, ready=1, is_settled=False), 1),
        # The controller of the child has not acted yet: two of the four groups will go, possibly ready ones.
        (Count(desired=2, present=4, ready=3, is_settled=False), 1),
        (Count(desired=2, present=4, ready=2, is_settled=True), 2),
        (Count(desired=2, present=4, ready=1, is_settled=False), 0),
    ],
)
def test_groups_to_be_drained_do_not_count_as_serving(count: Count, serving: int) -> None:
    assert count.serving == serving


def test_scaling_down_deletes_ready_groups_unless_the_highest_are_known_to_be_broken() -> None:
    assert healthy(4).cost(1) == 3
    assert Count(4, 4, 2, False).cost(3) == 1
    assert Count(4, 4, 2, False, broken_on_top=2).cost(3) == 0
    assert Count(4, 4, 2, False, broken_on_top=2).cost(1) == 1
    assert Count(4, 4, 0, False).cost(0) == 0
    # The ready group may or may not be the one that stays: it counts as gone, and not as serving.
    lingering = Count(desired=1, present=2, ready=1, is_settled=False)
    assert (lingering.serving, lingering.cost(0)) == (0, 1)


def test_starting_groups_do_not_serve_yet() -> None:
    count = Count(4, 4, 1, False, broken_on_top=2, starting=2, failed_on_top=1)
    assert (count.serving, count.cost(2)) == (1, 0)
    assert (count.once_started.serving, count.once_started.cost(3), count.once_started.cost(2)) == (3, 0, 1)
    assert healthy(4).once_started == healthy(4)


@pytest.mark.parametrize(
    "count",
    [healthy(4), Count(4, 4, 2, False), Count(4, 4, 2, False, broken_on_top=2), Count(1, 2, 1, False)],
)
def test_the_lowest_affordable_count(count: Count) -> None:
    for cost in range(6):
        affordable = [lower for lower in range(count.desired + 1) if count.cost(lower) <= cost]
        assert count.lowest(cost) == min(affordable)


def test_a_slice_counts_groups_over_all_revisions() -> None:
    role = RoleTarget("decode", target=4, surge=1, unavailable=1)
    state = SliceState(
        roles=(role,),
        old=(
            RevisionCounts("b", {"decode": healthy(1)}),
            RevisionCounts("a", {"decode": healthy(2, initial=3)}),
        ),
        new=RevisionCounts("c", {"decode": Count(1, 2, 0, False, initial=0)}),
    )
    assert (state.old_desired("decode"), state.old_initial("decode")) == (3, 4)
    assert (state.present("decode"), state.serving("decode")) == (5, 3)
    assert (state.min_ready(role), role.ceiling) == (3, 5)
    assert state.old_desired("prefill") == 0


def test_the_floor_of_a_reverted_change_counts_restored_groups() -> None:
    role = RoleTarget("decode", target=4)
    state = SliceState(
        (role,),
        old=(RevisionCounts("b", {"decode": healthy(2, initial=2)}),),
        new=RevisionCounts("a", {"decode": healthy(2, initial=2)}),
    )
    assert state.min_ready(role) == 4


def test_the_floor_counts_revisions_deleted_since_the_rollout_began() -> None:
    role, old = RoleTarget("decode", target=4, unavailable=1), {"decode": healthy(2, initial=2)}
    state = SliceState((role,), (RevisionCounts("a", old),), RevisionCounts("c"))
    assert state.min_ready(role) == 1
    assert replace(state, deleted={"decode": 1}).min_ready(role) == 2
    assert replace(state, deleted={"decode": 9}).min_ready(role) == 3, "at most the target"


def test_a_step_that_writes_nothing_is_empty() -> None:
    assert SliceStep(waiting_for="role decode").is_empty
    assert not SliceStep(starts=True).is_empty
    assert not SliceStep(new={"decode": 1}).is_empty
