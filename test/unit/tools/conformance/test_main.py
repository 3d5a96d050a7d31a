"""tools.conformance.__main__: which tests run in one process."""

from __future__ import annotations

from tools.conformance.__main__ import suites_of


def test_each_suite_with_a_cluster_of_its_own_runs_by_itself() -> None:
    one, two = "test/integration/fields/test_a.py::test_a", "test/integration/cli/test_a.py::test_a"
    units = ["test/unit/lws/kube/test_a.py::test_a", "test/unit/tools/test_a.py::test_a"]
    assert sorted(map(sorted, suites_of([one, units[0], two, units[1]]))) == sorted([[one], [two], units])
