"""Tests of unready pods pass if another kwok simulates the nodes, or are skipped if they need our simulation.

Such a simulation makes pods ready at once, ignores our annotations, and terminates pods differently.
"""

from __future__ import annotations

from pathlib import Path

from test.integration.foreign.inner import CONTROLLERS, run_tests
from test.integration.foreign.kwok import kwok_as_in_its_guide
from tools.localcluster import LocalCluster

BUDGET = "test_a_broken_update_stops_at_its_budget_and_can_be_fixed"
STALLED = "test_a_set_without_progress_is_stalled_and_reported_once"
FAILED = "test_without_a_policy_only_the_lost_pod_is_recreated"
OURS = "test_a_set_is_not_stalled_without_a_deadline_or_while_its_pods_are_gated"


def test_tests_pass_on_an_existing_cluster_with_its_own_kwok(cluster: LocalCluster, tmp_path: Path) -> None:
    with kwok_as_in_its_guide(cluster, tmp_path / "kwok"):
        outcome = run_tests(
            tmp_path / "report.xml",
            {"CLUSTER": "existing", "NODES": "", "KUBECONFIG": str(cluster.kubeconfig)},
            f"{CONTROLLERS}/test_rollout.py::{BUDGET}",
            f"{CONTROLLERS}/test_status.py::{STALLED}",
            f"{CONTROLLERS}/test_status.py::{OURS}",
            f"{CONTROLLERS}/test_restart.py::{FAILED}",
        )
    expected = {BUDGET: "passed", STALLED: "passed", FAILED: "passed", OURS: "skipped"}
    assert outcome.results == expected, outcome.output
