"""Tests of how old revisions are scaled down: which revision and which roles first, and how far."""

from __future__ import annotations

from lws.disaggregatedset.rollout.drain import Drain, Lowered
from lws.disaggregatedset.rollout.state import RevisionCounts, SliceState
from test.unit.lws.disaggregatedset.rollout.slices import broken, revision, roles


def drained(state: SliceState, *budget: int) -> Lowered:
    """Lower each role by its budget of groups."""
    planned = {
        role.name: state.old_desired(role.name) - deleted
        for role, deleted in zip(state.roles, budget, strict=True)
    }
    return Drain(state).to(planned).lowered


def generous(*old: RevisionCounts) -> SliceState:
    """Return a state that needs no old groups, so that only the rules of the distribution count."""
    return SliceState(roles((0, 0)), old, revision("new"))


def test_one_revision_is_scaled_down_by_its_budget() -> None:
    assert drained(generous(revision("a", 6, 6)), 2, 2) == {"a": {"x": 4, "y": 4}}


def test_the_newest_old_revision_is_drained_first() -> None:
    state = generous(revision("b", 2, 2), revision("a", 2, 2))
    assert drained(state, 3, 3) == {"b": {"x": 0, "y": 0}, "a": {"x": 1, "y": 1}}


def test_a_revision_that_loses_a_role_is_drained_completely() -> None:
    assert drained(generous(revision("a", 3, 2)), 1, 2) == {"a": {"x": 0, "y": 0}}


def test_a_role_absent_from_a_revision_drains_nothing() -> None:
    state = generous(RevisionCounts("a", {"y": revision("a", 0, 4).of("y")}))
    assert drained(state, 0, 2) == {"a": {"y": 2}}


def test_wart_2_a_role_at_zero_drains_nothing() -> None:
    assert drained(generous(revision("a", 0, 8)), 0, 1) == {"a": {"y": 7}}


def test_wart_5_all_groups_drained_with_a_revision_use_the_budget() -> None:
    state = generous(revision("b", 3, 1), revision("a", 1, 2))
    # Upstream would take both revisions: four and three groups for a budget of one each.
    assert drained(state, 1, 1) == {"b": {"x": 0, "y": 0}}


def test_wart_5_a_revision_is_not_drained_below_the_floor_of_any_role() -> None:
    state = SliceState(roles((3, 2)), (revision("b", 3, 1), revision("a", 1, 2)), revision("new"))
    # Four and three are ready, three and two have to stay. The last y of b would take three x with it.
    assert drained(state, 1, 1) == {"b": {"x": 2}, "a": {"y": 1}}


def test_the_floor_limits_drained_groups() -> None:
    state = SliceState(roles((4, 4)), (revision("a", 4, 4),), revision("new", 1, 0))
    assert drained(state, 2, 2) == {"a": {"x": 3}}


def test_wart_35_broken_groups_use_no_budget_and_are_drained_first() -> None:
    old = (revision("b", 2, 2), revision("a", broken(3, working=1, initial=3, on_top=2), 3))
    state = SliceState(roles((3, 5)), old, revision("new"))
    assert drained(state, 2, 0) == {"a": {"x": 1}}


def test_wart_35_a_count_without_the_positions_of_broken_groups_is_not_trusted() -> None:
    state = SliceState(
        roles((4, 4)), (revision("a", broken(4, working=3, initial=4), 4),), revision("new", 1, 0)
    )
    assert drained(state, 1, 0) == {}


def test_a_whole_revision_is_drained_only_above_all_floors() -> None:
    state = SliceState(roles((2, 2)), (revision("a", 2, 2),), revision("new", 2, 1))
    drain = Drain(state)
    assert not drain.whole(state.old[0]) and drain.lowered == {}
