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
    1: (f"{PLANNER}::test_wart_1_a_set_is_rolled_if_all_roles_are_renamed",),
    2: (
        f"{PLANNER}::test_wart_2_a_role_at_zero_does_not_drain_the_others",
        f"{DRAIN}::test_wart_2_a_role_at_zero_drains_nothing",
    ),
    3: (f"{SERVICES}::test_wart_3_services_of_users_are_not_deleted",),
    4: (f"{SERVICES}::test_wart_4_old_services_are_kept_when_a_role_is_added",),
    5: (
        f"{DRAIN}::test_wart_5_all_groups_drained_with_a_revision_use_the_budget",
        f"{DRAIN}::test_wart_5_a_revision_is_not_drained_below_the_floor_of_any_role",
    ),
    6: (f"{UNIT}/disaggregatedset/rollout/test_simulation.py::test_wart_6_a_growing_role_is_not_starved",),
    7: (f"{ADMISSION}/test_scaling.py::test_removing_a_scaler_warns_of_deleted_groups",),
    8: (
        f"{PLANNER}::test_wart_8_a_blocked_rollout_is_not_done",
        f"{PLANNER}::test_wart_8_new_counts_are_lowered_with_their_target",
    ),
    9: (f"{PLANNER}::test_wart_9_a_missing_child_is_created",),
    10: (f"{WARTS}::test_wart_10_a_rollback_to_children_named_without_slices_completes",),
    11: (
        f"{PLANNER}::test_wart_11_a_broken_revision_does_not_block_its_fix",
        f"{PLANNER}::test_wart_11_a_broken_revision_does_not_block_scaling",
    ),
    12: (f"{PLANNER}::test_wart_12_a_reverted_change_gets_a_new_baseline",),
    13: (
        f"{UNIT}/disaggregatedset/test_target.py::test_a_recorded_key_is_kept_if_the_hash_differs",
        f"{UNIT}/disaggregatedset/test_reconstruction.py::test_another_order_of_roles_is_no_change",
    ),
    14: (
        f"{UPKEEP}::test_edits_of_a_role_are_one_write_to_its_child",
        f"{UPKEEP}::test_fields_that_wait_for_the_next_revision_are_reported",
    ),
    15: (f"{ADMISSION}/test_reserved.py::test_an_overwritten_label_causes_a_warning",),
    16: (
        f"{STORIES}::test_orphans_are_adopted_before_anything_is_created",
        f"{UPKEEP}::test_edited_labels_are_restored_and_foreign_labels_are_kept",
    ),
    17: (f"{STORIES}::test_deleting_a_set_deletes_all_its_objects",),
    18: (
        f"{SCALERS}::test_wart_18_a_foreign_scaler_is_not_changed_and_reported_once",
        f"{ADMISSION}/test_scaling.py::test_two_sets_cannot_have_scalers_of_the_same_name",
    ),
    19: (f"{SCALERS}::test_seeds",),
    20: (f"{WARTS}::test_wart_20_children_of_the_same_age_have_a_stable_order",),
    21: (f"{PLANNER}::test_wart_21_groups_that_terminate_count_as_surge",),
    22: (f"{STORIES}::test_a_scaler_counts_the_groups_of_all_slices",),
    23: (
        f"{UNIT}/disaggregatedset/children/test_placement.py::test_preferred_terms_have_full_weight",
        f"{ADMISSION}/test_placement.py::test_surge_without_room_causes_a_warning",
    ),
    24: (f"{ADMISSION}/test_names.py::test_the_name_of_a_set_must_be_a_dns_1035_label",),
    25: (f"{ADMISSION}/test_names.py::test_the_name_of_every_pod",),
    26: (f"{ADMISSION}/test_roles.py::test_a_role_is_validated_as_its_leaderworkerset",),
    27: (f"{WARTS}::test_wart_27_the_status_shows_a_rollout_by_slice_revision_and_role",),
    28: (f"{SERVICES}::test_wart_28_a_role_with_zero_replicas_does_not_block_services",),
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
        f"{SERVICES}::test_wart_31_complete_services_are_not_written",
        f"{SCALERS}::test_wart_31_a_scaler_without_changes_is_not_written",
    ),
    32: (f"{WARTS}::test_wart_32_a_rollout_waits_for_groups_and_not_for_a_timer",),
    33: (f"{WARTS}::test_wart_33_a_concurrent_spec_edit_causes_no_retry_of_the_status_write",),
    34: (f"{UNIT}/disaggregatedset/children/test_role_sets.py::test_the_budget_of_a_child_never_blocks_it",),
    35: (
        f"{PLANNER}::test_wart_35_broken_old_groups_are_not_capacity",
        f"{DRAIN}::test_wart_35_broken_groups_use_no_budget_and_are_drained_first",
    ),
    36: (f"{PLANNER}::test_wart_8_new_counts_are_lowered_with_their_target",),
    37: (
        f"{UNIT}/disaggregatedset/rollout/test_slices.py::test_wart_37_the_limit_of_concurrent_slices_is_respected",
    ),
    38: (
        f"{ADMISSION}/test_validation.py::test_an_update_is_validated_for_its_changes",
        f"{ADMISSION}/test_validation.py::test_every_change_of_a_terminating_set_is_accepted",
    ),
    39: (f"{ADMISSION}/test_names.py::test_the_name_of_every_pod",),
    40: (f"{WARTS}::test_wart_40_groups_of_a_removed_role_are_reported_until_the_last_is_deleted",),
    41: (
        f"{STORIES}::test_wart_41_a_lost_child_of_an_old_revision_is_recreated",
        f"{STORIES}::test_wart_41_a_child_name_used_by_another_owner_does_not_block_the_rollout",
    ),
    42: (f"{SCALERS}::test_seeds",),
    43: (f"{ADMISSION}/test_names.py::test_role_names_that_collide",),
}


def test_every_wart_has_a_test() -> None:
    assert set(TESTS) == set(range(1, 44))
    assert all(TESTS.values())


@pytest.mark.parametrize("number", TESTS)
def test_the_tests_of_each_wart_exist(number: int) -> None:
    assert missing_tests(TESTS[number]) == []
