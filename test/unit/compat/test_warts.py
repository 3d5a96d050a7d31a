"""Tests of weaknesses of upstream's DisaggregatedSets, 1 to 43 as numbered in the specification.

Each has a test that fails if upstream's rule is followed.
"""

from __future__ import annotations

import pytest

from tools.conformance.__main__ import missing_tests

UNIT = "test/unit/lws"
PLANNER = f"{UNIT}/disaggregatedset/rollout/test_planner.py"
DRAIN = f"{UNIT}/disaggregatedset/rollout/test_drain.py"
SERVICES = f"{UNIT}/disaggregatedset/children/test_services.py"
SCALERS = f"{UNIT}/disaggregatedset/children/test_scalers.py"
UPKEEP = f"{UNIT}/disaggregatedset/children/test_upkeep.py"
ADMISSION = f"{UNIT}/disaggregatedset/admission"
STORIES = "test/unit/stories/test_disaggregated.py"
WARTS = "test/unit/stories/test_disaggregated_warts.py"

TESTS: dict[int, tuple[str, ...]] = {
    1: (f"{PLANNER}::test_wart_1_a_set_whose_roles_are_all_renamed_is_rolled",),
    2: (
        f"{PLANNER}::test_wart_2_a_role_at_zero_does_not_drain_the_others",
        f"{DRAIN}::test_wart_2_a_role_at_zero_takes_nothing_with_it",
    ),
    3: (f"{SERVICES}::test_wart_3_services_of_users_live",),
    4: (f"{SERVICES}::test_wart_4_old_services_stay_when_a_role_is_added",),
    5: (
        f"{DRAIN}::test_wart_5_what_goes_with_a_revision_is_charged",
        f"{DRAIN}::test_wart_5_a_revision_does_not_go_where_the_floor_needs_what_goes_with_it",
    ),
    6: (f"{UNIT}/disaggregatedset/rollout/test_simulation.py::test_wart_6_a_role_that_grows_is_not_starved",),
    7: (f"{ADMISSION}/test_scaling.py::test_who_takes_the_scaler_away_is_warned_of_the_groups_that_go",),
    8: (
        f"{PLANNER}::test_wart_8_done_and_blocked_differ",
        f"{PLANNER}::test_wart_8_new_counts_shrink_with_their_target",
    ),
    9: (f"{PLANNER}::test_wart_9_a_child_that_is_missing_is_created",),
    10: (f"{WARTS}::test_wart_10_a_rollback_to_children_named_without_slices_completes",),
    11: (
        f"{PLANNER}::test_wart_11_a_broken_revision_does_not_hold_up_its_fix",
        f"{PLANNER}::test_wart_11_a_broken_revision_does_not_hold_up_scaling",
    ),
    12: (f"{PLANNER}::test_wart_12_a_change_that_is_taken_back_gets_a_baseline_of_its_own",),
    13: (
        f"{UNIT}/disaggregatedset/test_target.py::test_a_drifted_hash_keeps_the_key_that_was_recorded",
        f"{UNIT}/disaggregatedset/test_reconstruction.py::test_the_order_of_roles_alone_is_no_change",
    ),
    14: (
        f"{UPKEEP}::test_edits_take_effect_in_one_write",
        f"{UPKEEP}::test_what_waits_is_named",
    ),
    15: (f"{ADMISSION}/test_reserved.py::test_a_label_that_is_overwritten",),
    16: (
        f"{STORIES}::test_orphans_are_adopted_before_anything_is_created",
        f"{UPKEEP}::test_edited_labels_are_repaired_and_those_of_others_stay",
    ),
    17: (f"{STORIES}::test_deleting_a_set_deletes_all_its_objects",),
    18: (
        f"{SCALERS}::test_wart_18_a_foreign_scaler_is_left_alone_and_named_once",
        f"{ADMISSION}/test_scaling.py::test_two_sets_that_need_a_scaler_of_one_name",
    ),
    19: (f"{SCALERS}::test_seeds",),
    20: (f"{WARTS}::test_wart_20_children_of_the_same_age_have_a_stable_order",),
    21: (f"{PLANNER}::test_wart_21_groups_that_terminate_count_as_surge",),
    22: (f"{STORIES}::test_a_scaler_counts_the_groups_of_all_slices",),
    23: (
        f"{UNIT}/disaggregatedset/children/test_placement.py::test_preferred_terms_have_full_weight",
        f"{ADMISSION}/test_placement.py::test_surge_without_room",
    ),
    24: (f"{ADMISSION}/test_names.py::test_the_name_of_a_set_begins_all_others",),
    25: (f"{ADMISSION}/test_names.py::test_the_name_of_every_pod",),
    26: (f"{ADMISSION}/test_roles.py::test_it_is_judged_as_the_set_that_is_made_of_it",),
    27: (f"{WARTS}::test_wart_27_the_status_shows_a_rollout_by_slice_revision_and_role",),
    28: (f"{SERVICES}::test_wart_28_a_role_that_wants_none_holds_nobody_up",),
    29: (
        "test/unit/tools/definitions/test_disaggregated.py"
        "::test_wart_29_sets_have_columns_a_short_name_and_a_scale_of_slices",
    ),
    30: (
        f"{WARTS}::test_wart_30_a_failed_creation_is_reported",
        f"{STORIES}::test_a_foreign_object_with_the_name_of_a_child_is_left_alone_and_reported",
        f"{STORIES}::test_the_failure_message_of_a_child_is_reported_unchanged",
    ),
    31: (
        f"{SERVICES}::test_wart_31_nothing_is_written_where_all_are_there",
        f"{SCALERS}::test_wart_31_a_settled_scaler_is_not_written",
    ),
    32: (f"{WARTS}::test_wart_32_a_rollout_waits_for_groups_and_not_for_a_timer",),
    33: (f"{WARTS}::test_wart_33_a_concurrent_spec_edit_causes_no_retry_of_the_status_write",),
    34: (f"{UNIT}/disaggregatedset/children/test_role_sets.py::test_budgets_never_hold_a_child_up",),
    35: (
        f"{PLANNER}::test_wart_35_broken_old_groups_are_not_capacity",
        f"{DRAIN}::test_wart_35_groups_that_serve_nobody_cost_nothing_and_go_first",
    ),
    36: (f"{PLANNER}::test_wart_8_new_counts_shrink_with_their_target",),
    37: (
        f"{UNIT}/disaggregatedset/rollout/test_slices.py::test_wart_37_no_more_slices_roll_at_once_than_the_bound_says",
    ),
    38: (
        f"{ADMISSION}/test_validation.py::test_an_update_is_judged_by_what_it_brings",
        f"{ADMISSION}/test_validation.py::test_no_change_while_it_is_being_deleted_is_refused",
    ),
    39: (f"{ADMISSION}/test_names.py::test_the_name_of_every_pod",),
    40: (f"{WARTS}::test_wart_40_groups_of_a_removed_role_are_reported_until_the_last_is_deleted",),
    41: (
        f"{STORIES}::test_wart_41_a_lost_child_of_an_old_revision_is_recreated",
        f"{STORIES}::test_wart_41_a_child_name_used_by_another_owner_does_not_block_the_rollout",
    ),
    42: (f"{SCALERS}::test_seeds",),
    43: (f"{ADMISSION}/test_names.py::test_roles_that_cannot_be_together",),
}


def test_every_wart_has_a_test() -> None:
    assert set(TESTS) == set(range(1, 44))
    assert all(TESTS.values())


@pytest.mark.parametrize("number", TESTS)
def test_the_tests_of_each_wart_exist(number: int) -> None:
    assert missing_tests(TESTS[number]) == []
