"""Tests of the next step of a slice's rollout."""

from __future__ import annotations

from dataclasses import replace

from lws.disaggregatedset.rollout.planner import next_step
from lws.disaggregatedset.rollout.state import Count, RevisionCounts, SliceState, SliceStep
from test.unit.lws.disaggregatedset.rollout.slices import beginning, broken, ready, revision, roles, starting
from tools.simulation import apply

TERMINATING = Count(desired=0, present=1, ready=0, is_settled=True, initial=1)


def to_the_end(state: SliceState) -> SliceState:
    """Apply at most a hundred steps, with every change ready at once. Return the last state."""
    for _ in range(100):
        step = next_step(state)
        if step.is_done:
            return state
        assert not step.is_empty, step.waiting_for
        state = apply(state, step)
    raise AssertionError("it never ends")


def test_a_rollout_begins_with_baselines_and_empty_children() -> None:
    state = beginning((2, 1), roles((2, 1)))
    assert next_step(state) == SliceStep(new={"x": 0, "y": 0}, starts=True)


def test_wart_9_a_missing_child_is_created() -> None:
    state = SliceState(
        roles((4, 2)), (revision("a", 3, 2),), RevisionCounts("b", {"x": ready(1, 0)}), frozenset("y")
    )
    assert next_step(state).new == {"y": 1}


def test_a_child_lost_during_a_rollout_is_recreated_at_the_progress_of_its_siblings() -> None:
    state = SliceState(
        roles((4, 4)), (revision("a", 2, 2),), RevisionCounts("b", {"x": ready(3, 0)}), frozenset("y")
    )
    assert next_step(state).new == {"y": 3}
    lingering = revision("a", 2, Count(2, 4, 2, True, 2))
    assert next_step(replace(state, old=(lingering,))).new == {"y": 1}


def test_wart_12_a_reverted_change_gets_a_new_baseline() -> None:
    state = SliceState(
        roles((4, 4)),
        (RevisionCounts("b", {"x": ready(2), "y": ready(2)}),),
        RevisionCounts("a", {"x": ready(2, 4), "y": ready(2, 4)}),
    )
    step = next_step(state)
    assert step == SliceStep(starts=True)
    begun = apply(state, step)
    assert begun.min_ready(begun.roles[0]) == 4
    assert to_the_end(begun).new.of("x").desired == 4


def test_every_role_gets_its_target_at_once_without_an_old_revision() -> None:
    state = SliceState(roles((3, 1)), (), revision("a", 1, 4))
    assert next_step(state) == SliceStep(new={"x": 3, "y": 1})
    missing = SliceState(roles((3, 1)), (), RevisionCounts("a"), frozenset("xy"))
    assert next_step(missing) == SliceStep(new={"x": 3, "y": 1})


def test_wart_8_a_blocked_rollout_is_not_done() -> None:
    assert next_step(SliceState(roles((2, 2)), (), revision("a", 2, 2))) == SliceStep(is_done=True)
    waiting = SliceState(roles((2, 2)), (), revision("a", 2, broken(2, working=1)))
    assert next_step(waiting) == SliceStep(
        waiting_for="role y: 1 of 2 groups of the target revision are ready"
    )
    unseen = SliceState(roles((2, 2)), (), revision("a", 2, Count(2, 2, 2, is_settled=False)))
    why = "role y: its LeaderWorkerSet has yet to act on its count of groups"
    assert next_step(unseen) == SliceStep(waiting_for=why)


def test_wart_8_new_counts_are_lowered_with_their_target() -> None:
    """Wart 36, too."""
    state = SliceState(roles((2, 2, 1)), (revision("a", 1, 1),), revision("b", 2, 2, 3))
    assert next_step(state) == SliceStep(new={"z": 1})
    assert to_the_end(state).new.of("z").desired == 1


def test_wart_1_a_set_is_rolled_if_all_roles_are_renamed() -> None:
    old = RevisionCounts("a", {"x": ready(2), "y": ready(2)})
    targets = (*roles((0, 0)), *(replace(target, name=target.name * 2) for target in roles((2, 2))))
    state = SliceState(targets, (old,), RevisionCounts("b"), frozenset(("xx", "yy")))
    assert next_step(state).starts
    after = to_the_end(state)
    assert (after.old, after.new.of("xx").desired, after.new.of("yy").desired) == ((), 2, 2)


def test_wart_2_a_role_at_zero_does_not_drain_the_others() -> None:
    state = SliceState(roles((0, 8)), (revision("a", 0, 8),), revision("b", 0, 1))
    assert next_step(state).old == {"a": {"y": 7}}


def test_wart_21_groups_that_terminate_count_as_surge() -> None:
    lingering = Count(desired=1, present=2, ready=1, is_settled=True, initial=3)
    state = SliceState(roles((3, 3)), (revision("a", lingering, ready(1, 3)),), revision("b", 2, 2))
    step = next_step(state)
    assert step.new == {"y": 3} and step.goes_on
    still = apply(state, step)
    held_up = replace(still, old=(revision("a", lingering, ready(1, 3)),))
    assert next_step(held_up) == SliceStep(
        goes_on=True, waiting_for="role x: 1 old groups are still terminating"
    )
    assert next_step(still).new == {"x": 3}


def test_remaining_groups_of_deleted_children_are_waited_for_by_role_name() -> None:
    targets = roles((3, 3), surge=(0, 0), unavailable=(1, 1))
    state = SliceState(targets, (), revision("b", 3, 2), leftover={"y": 1})
    assert next_step(state) == SliceStep(
        goes_on=True, waiting_for="role y: 1 old groups are still terminating"
    )
    assert next_step(replace(state, leftover={})).new == {"y": 3}


def test_an_old_revision_ends_with_its_last_group() -> None:
    old = (revision("b", 0, 0), revision("a", TERMINATING, 0))
    state = SliceState(roles((2, 2)), old, revision("c", 2, 2))
    step = next_step(state)
    assert (step.drained, step.is_done) == (("b",), False)
    assert next_step(replace(state, old=())).is_done


def test_wart_11_a_broken_revision_does_not_block_its_fix() -> None:
    state = SliceState(
        roles((3, 2)),
        (revision("b", broken(1, initial=1), broken(1, initial=1)), revision("a", 3, 2)),
        revision("c", 0, 0),
    )
    assert next_step(state) == SliceStep(old={"b": {"x": 0, "y": 0}})


def test_wart_35_broken_old_groups_are_not_capacity() -> None:
    state = SliceState(roles((3, 3)), (revision("a", broken(3, 1, initial=3), 3),), revision("b", 1, 1))
    assert "x" not in next_step(state).old.get("a", {})


def test_a_healthy_group_is_drained_to_reach_broken_groups_below_it() -> None:
    old = revision("a", broken(4, 3, initial=4))
    state = SliceState(roles((4,)), (old,), revision("b", 1))
    assert next_step(state) == SliceStep(old={"a": {"x": 3}})
    unready = SliceState(roles((4,)), (old,), revision("b", broken(1, initial=0)))
    assert next_step(unready).is_empty


def test_no_healthy_group_is_drained_for_a_starting_one_below_it() -> None:
    old = revision("a", starting(3, working=1))
    state = SliceState(roles((3,), (0,), (1,)), (old,), revision("b", 0))
    step = next_step(state)
    assert step == SliceStep(waiting_for="role x: 2 old groups are still starting")
    failed = revision("a", broken(3, working=1, initial=3))
    assert next_step(replace(state, old=(failed,))) == SliceStep(old={"a": {"x": 2}})


def test_starting_groups_are_not_broken() -> None:
    # A slice whose template changes while it is being created rolls at the pace of any rollout.
    old = revision("a", starting(3, on_top=3), starting(1, on_top=1))
    state = SliceState(roles((3, 1), (0, 0), (1, 1)), (old,), revision("b", 0, 0))
    assert next_step(state) == SliceStep(old={"a": {"x": 2}})
    further = revision("a", replace(starting(2, on_top=2), initial=3), starting(1, on_top=1))
    assert next_step(replace(state, old=(further,))).old == {"a": {"y": 0}}
    broken_now = revision("a", broken(3, initial=3, on_top=3), broken(1, initial=1, on_top=1))
    assert next_step(replace(state, old=(broken_now,))) == SliceStep(old={"a": {"x": 0, "y": 0}})


def test_a_starting_revision_is_drained_at_once_if_enough_groups_serve() -> None:
    # A, B, C: A serves, and B has only begun.
    old = (revision("b", starting(1, on_top=1), starting(1, on_top=1)), revision("a", 3, 2))
    state = SliceState(roles((3, 2)), old, revision("c", 0, 0))
    assert next_step(state) == SliceStep(old={"b": {"x": 0, "y": 0}})


def test_wart_11_a_broken_revision_does_not_block_scaling() -> None:
    new = revision("b", broken(1, initial=0), ready(1, 0))
    state = SliceState(roles((4, 4)), (revision("a", 4, 4),), new)
    assert next_step(state).is_empty
    up = tuple(replace(role, target=8, at_start=4) for role in state.roles)
    step = next_step(replace(state, roles=up))
    assert step.new == {"x": 2, "y": 2} and not step.old
    down = tuple(replace(role, target=2, at_start=4) for role in state.roles)
    step = next_step(replace(state, roles=down))
    assert step.old == {"a": {"x": 2, "y": 2}} and not step.new


def test_no_step_starts_for_an_unchanged_target_while_new_groups_start() -> None:
    unready = revision("b", broken(1, initial=0), broken(1, initial=0))
    state = SliceState(roles((5, 4)), (revision("a", 2, 4),), unready)
    step = next_step(state)
    assert step.is_empty and step.waiting_for == "role x: 0 of 1 groups of the target revision are ready"


def test_a_step_applied_to_one_role_only_is_completed_first() -> None:
    state = SliceState(roles((2, 2)), (revision("a", ready(0, 2), ready(1, 2)),), revision("b", 2, 1))
    assert next_step(state) == SliceStep(new={"y": 2})
    assert next_step(replace(state, new=revision("b", 1, 2))) == SliceStep(old={"a": {"y": 0}})


def test_the_last_old_group_of_a_role_without_surge_is_drained_for_the_new_one() -> None:
    state = SliceState(roles((1, 2), (0, 1), (1, 0)), (revision("a", 1, 2),), revision("b", 0, 0))
    step = next_step(state)
    assert step == SliceStep(old={"a": {"x": 0}}, goes_on=True)
    assert next_step(apply(state, step)).new == {"x": 1, "y": 1}


def test_an_old_child_scaled_up_by_another_client_is_scaled_down_again() -> None:
    state = SliceState(roles((3, 3)), (revision("a", ready(6, 3), 3),), revision("b", 1, 1))
    assert next_step(state) == SliceStep(old={"a": {"x": 3}})


def test_a_pause_before_the_first_step() -> None:
    state = beginning((4, 2), roles((4, 2)))
    assert next_step(state, paused=True) == SliceStep(waiting_for="the rollout is paused")
    assert next_step(beginning((4, 2), roles((2, 2))), paused=True).old == {"old": {"x": 2}}


def test_a_lowered_surge_makes_room_for_a_group_that_cannot_be_scheduled() -> None:
    new = RevisionCounts("b", {"x": ready(1, 0), "y": starting(1)})
    old = revision("a", 2, 4)
    without_room = SliceState(roles((2, 4)), (old,), new)
    assert next_step(without_room).is_empty
    budgets = roles((2, 4), surge=(0, 0), unavailable=(1, 1))
    lowered = replace(without_room, roles=budgets)
    assert next_step(lowered) == SliceStep(
        old={"a": {"x": 1, "y": 3}}, waiting_for=next_step(without_room).waiting_for
    )
    assert next_step(lowered, paused=True).is_empty
    assert not next_step(replace(lowered, new=RevisionCounts("b", {"x": ready(0, 0), "y": starting(0)}))).old


def test_a_pause_stops_rollout_steps_but_not_scaling() -> None:
    state = SliceState(roles((4, 2)), (revision("a", 3, 2),), revision("b", 1, 1))
    assert next_step(state, paused=True).is_empty and not next_step(state).is_empty
    more = (replace(state.roles[0], target=6, at_start=4), state.roles[1])
    assert next_step(replace(state, roles=more), paused=True).new == {"x": 2}


def test_a_paused_slice_at_rest_is_scaled() -> None:
    assert next_step(SliceState(roles((4, 2)), (), revision("a", 2, 2)), paused=True).new == {"x": 4}


def test_a_recreated_child_has_a_group_if_its_siblings_have() -> None:
    new = RevisionCounts("b", {"x": ready(1, 0)})
    state = SliceState(roles((8, 4), (2, 2), (0, 0)), (revision("a", 7, 4),), new, frozenset("y"))
    assert next_step(state).new == {"y": 1}


def test_children_are_created_within_the_room_that_old_groups_leave() -> None:
    lingering = Count(desired=0, present=2, ready=0, is_settled=True, initial=2)
    old, none = (revision("a", lingering, 0),), RevisionCounts("b")
    state = SliceState(roles((2, 2)), old, none, frozenset(("x", "y")))
    assert next_step(state).new == {"x": 1, "y": 2}
    without_surge = replace(state, roles=roles((2, 2), (0, 0), (1, 1)))
    assert next_step(without_surge).new == {"x": 0, "y": 0}


def test_the_oldest_revision_is_not_drained_while_a_newer_old_one_runs() -> None:
    # The last y of b would take three x with it, more than may go. The last group of a would not.
    old = (revision("b", 3, 1), revision("a", 1, 1))
    state = SliceState(roles((4, 2), (1, 0), (0, 1)), old, revision("c", 1, 1))
    assert next_step(state).old.get("a", {}) == {}


def test_scaling_down_a_paused_slice_empties_no_revision() -> None:
    state = SliceState(roles((3, 0)), (revision("a", 2, 2),), revision("b", 1, 1))
    less = replace(state, roles=(state.roles[0], replace(state.roles[1], surge=0, at_start=3)))
    assert next_step(less, paused=True) == SliceStep(new={"y": 0})
    shrunk = replace(less, new=revision("b", 1, 0))
    assert next_step(shrunk, paused=True).old == {"a": {"y": 1}}


def test_a_role_without_groups_does_not_complete_a_partial_step() -> None:
    assert next_step(SliceState(roles((0, 2)), (), revision("a", 0, 2))).is_done


def test_a_lost_child_is_recreated_in_a_paused_rollout_without_a_new_baseline() -> None:
    state = SliceState(
        roles((4, 4)),
        (revision("a", ready(2, 4), ready(2, 4)),),
        RevisionCounts("b", {"x": ready(2, 0)}),
        frozenset("y"),
    )
    assert next_step(state) == next_step(state, paused=True) == SliceStep(new={"y": 2})


def test_a_rollout_begun_by_upstream_continues_with_its_baselines() -> None:
    # Example D at its fifth row, as annotations record it: new children have none.
    new = RevisionCounts("b", {"x": ready(3), "y": ready(3)})
    state = SliceState(roles((5, 4)), (revision("a", ready(2, 2), ready(2, 4)),), new)
    assert next_step(state) == SliceStep(old={"a": {"x": 1}})
