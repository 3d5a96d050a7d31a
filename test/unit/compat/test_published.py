"""Tests of what upstream's public tests of DisaggregatedSets require, with their time limits.

Each requirement names the test that checks it here.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.conformance.__main__ import missing_tests

ROOT = Path(__file__).parents[3]
E2E = "test/e2e/test_published.py"
UNIT = "test/unit/lws/disaggregatedset"
STORIES = "test/unit/stories/test_disaggregated.py"
TAKEOVER = "test/unit/stories/test_disaggregated_takeover.py"


@dataclass(frozen=True)
class Pinned:
    """A requirement of upstream's tests.

    seconds: how long they wait; 0 if they check at once. limit: the name of that limit in the test.
    """

    what: str
    test: str
    seconds: float = 0
    limit: str = ""


PINNED = [
    Pinned(
        "Deployment lws-controller-manager, container manager, label control-plane=controller-manager",
        f"{E2E}::test_the_manager_has_the_names_that_upstreams_tests_use",
    ),
    Pinned("a LeaderWorkerSet for each role", f"{E2E}::test_names_labels_services_and_deletion"),
    Pinned("pods carry labels of users and of the set", f"{E2E}::test_names_labels_services_and_deletion"),
    Pinned("labels of a role reach its set", f"{E2E}::test_names_labels_services_and_deletion"),
    Pinned("portless Services with ready endpoints", f"{E2E}::test_names_labels_services_and_deletion"),
    Pinned(
        "deleted: no LeaderWorkerSet",
        f"{E2E}::test_names_labels_services_and_deletion",
        120,
        "SETS_GONE",
    ),
    Pinned("deleted: no Service", f"{E2E}::test_names_labels_services_and_deletion", 30, "SERVICES_GONE"),
    Pinned("deleted: no pod", f"{E2E}::test_names_labels_services_and_deletion", 120, "PODS_GONE"),
    Pinned(
        "(10,2) to (6,8) and (4,4) without surge: first, last, and never too many", f"{E2E}::test_a_rollout"
    ),
    Pinned("a rollout is seen in between", f"{E2E}::test_a_rollout"),
    Pinned(
        "these rows, exactly",
        f"{UNIT}/rollout/test_simulation.py::test_the_sequences_of_the_end_to_end_tests",
    ),
    Pinned(
        "the tables of the planner: 19 of 22 by the same rules, three beside ours",
        f"{UNIT}/rollout/test_simulation.py::test_wart_6_a_growing_role_is_not_starved",
    ),
    Pinned("no revision at rest has one role at 0", f"{E2E}::test_a_rollout"),
    Pinned(
        "nor at the end of any pass",
        f"{UNIT}/rollout/test_parity.py::test_steps_match_upstream_unless_upstream_breaks_a_promise",
    ),
    Pinned("one revision alone at the end", f"{E2E}::test_a_rollout", 240, "ALONE"),
    Pinned(
        "A to B to C: B goes before A, and C stays",
        f"{E2E}::test_a_second_change_during_a_rollout",
        240,
        "ALONE",
    ),
    Pinned(
        "roles added, removed, renamed: the old revision is drained",
        f"{E2E}::test_roles_are_added_and_removed_in_steps",
        240,
        "DRAINED",
    ),
    Pinned(
        "a removed role has no groups", f"{E2E}::test_roles_are_added_and_removed_in_steps", 120, "ROLE_GONE"
    ),
    Pinned("the scale of a fresh scaler", f"{E2E}::test_a_scaler_has_a_scale_before_its_first_update"),
    Pinned("kubectl scale acts", f"{E2E}::test_a_scaler_has_a_scale_before_its_first_update"),
    Pinned("the scaler goes with its set", f"{E2E}::test_a_scaler_has_a_scale_before_its_first_update"),
    Pinned(
        "a foreign scaler is left alone",
        f"{UNIT}/children/test_scalers.py::test_wart_18_a_foreign_scaler_is_not_changed_and_reported_once",
    ),
    Pinned(
        "a foreign set is left alone",
        f"{STORIES}::test_a_foreign_object_with_the_name_of_a_child_is_left_alone_and_reported",
    ),
    Pinned(
        "a removed role is not in the status of roles",
        f"{UNIT}/status/test_status.py::test_a_removed_role_is_absent_from_role_statuses",
    ),
    Pinned(
        "a role whose scaler is missing keeps the set from being available",
        f"{UNIT}/status/test_status.py::test_a_role_without_replicas_is_never_available",
    ),
    Pinned(
        "an upgrade from v0.9.0 moves nothing: UIDs, generations, names, labels, pods",
        f"{TAKEOVER}::test_a_settled_set_is_recorded_and_left_alone",
    ),
    Pinned("and new sets work", f"{STORIES}::test_a_set_is_created_recorded_and_available"),
]


@pytest.mark.parametrize("pinned", PINNED, ids=lambda pinned: pinned.what)
def test_every_requirement_of_upstream_has_a_test(pinned: Pinned) -> None:
    assert missing_tests([pinned.test]) == []


def test_no_test_waits_longer_than_the_test_of_upstream() -> None:
    limits = {pinned.limit: pinned.seconds for pinned in PINNED if pinned.limit}
    assert {name: seconds for name, seconds in limits_of(E2E).items() if name in limits} == limits


def limits_of(path: str) -> dict[str, float]:
    """Return the numeric constants of a module by name."""
    constants: dict[str, float] = {}
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.Assign):
            continue
        targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(targets)
        for target, value in zip(targets, values, strict=False):
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                constants[target.id] = value.value  # type: ignore[assignment]
    return constants
