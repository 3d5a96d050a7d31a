"""Tests that deleted old children are recreated, with the groups that their siblings have kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lws.disaggregatedset.rollout.drain import Lost, with_lost
from lws.disaggregatedset.rollout.planner import next_step
from lws.disaggregatedset.rollout.state import RevisionCounts, SliceState
from test.unit.lws.disaggregatedset.rollout.slices import ready, revision, roles


def slice_with(old: int, new: tuple[int, int], target: tuple[int, int] = (4, 2)) -> SliceState:
    """Return a slice in which x of the old revision exists and y, which had two groups, is lost."""
    counts = RevisionCounts("a", {"x": ready(old, 4)})
    return SliceState(roles(target), (counts,), revision("b", *new))


def back(state: SliceState, initial: int | None = 2, most: int = 2) -> int:
    return with_lost(state, {"a": {"y": Lost(initial, most)}}).old[0].of("y").desired


@pytest.mark.parametrize(
    ("old", "new", "most", "expected"),
    [
        pytest.param(4, (1, 1), 2, 2, id="the share that its sibling has kept"),
        pytest.param(2, (2, 1), 2, 1, id="half of them"),
        pytest.param(1, (3, 1), 2, 1, id="at least one group"),
        pytest.param(4, (1, 1), 1, 1, id="at most its last observed groups"),
        pytest.param(4, (1, 2), 2, 1, id="at most the remaining room"),
        pytest.param(0, (3, 1), 2, 0, id="none if its sibling is deleted"),
        pytest.param(1, (4, 2), 2, 0, id="none once the new revision is complete"),
    ],
)
def test_a_lost_child_is_recreated_with_the_share_that_its_siblings_have_kept(
    old: int, new: tuple[int, int], most: int, expected: int
) -> None:
    assert back(slice_with(old, new), most=most) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(4, 4, id="its former groups"),
        pytest.param(2, 2, id="at most the room beside the new revision"),
        pytest.param(0, 1, id="one group of a removed role that its revision needs"),
    ],
)
def test_a_lost_child_is_recreated_with_at_most_the_current_target(target: int, expected: int) -> None:
    assert back(slice_with(4, (0, 0), (4, target)), initial=4, most=4) == expected


def test_a_lost_child_is_recreated_with_the_target_before_a_rollout() -> None:
    waiting = SliceState(
        roles((4, 2)), (RevisionCounts("a", {"x": ready(4)}),), RevisionCounts("b"), frozenset("xy")
    )
    assert back(waiting, None) == 2
    assert next_step(with_lost(waiting, {"a": {"y": Lost(None, 2)}}), paused=True).old == {}


def test_a_lost_child_counts_as_starting() -> None:
    state = with_lost(slice_with(3, (2, 1)), {"a": {"y": Lost(2, 2)}})
    count = state.old[0].of("y")
    assert count.is_lost and (count.ready, count.starting, count.present) == (0, 2, 2)
    assert state.old_initial("y") == 2


@pytest.mark.parametrize(
    ("lingering", "raised"),
    [
        pytest.param(0, {"x": 1, "y": 1}, id="its name is free"),
        pytest.param(1, {}, id="its last group is terminating"),
    ],
)
def test_a_step_that_drains_a_lost_child_completely_continues_at_once(
    lingering: int, raised: dict[str, int]
) -> None:
    """The lost child would not be recreated, so no change would start the next step."""
    targets = roles((4, 1), surge=(1, 0), unavailable=(0, 1))
    counts = RevisionCounts("a", {"x": ready(4, 4)})
    state = with_lost(
        SliceState(targets, (counts,), revision("b", 0, 0)), {"a": {"y": Lost(1, 1, lingering)}}
    )
    step = next_step(state)
    assert step.old == {"a": {"y": 0}} and step.new == raised


def test_initial_groups_of_a_recreated_child_count_once() -> None:
    """The initial groups of a recreated child count once."""
    state = replace(slice_with(3, (2, 1)), deleted={"y": 5})
    back_again = with_lost(state, {"a": {"y": Lost(2, 2)}})
    assert (back_again.old_initial("y"), back_again.deleted) == (2, {"y": 3})


def test_an_existing_child_is_not_lost() -> None:
    state = SliceState(roles((4, 2)), (revision("a", 3, 0),), revision("b", 1, 1))
    assert back(state) == 0 and with_lost(state, {}) is state
