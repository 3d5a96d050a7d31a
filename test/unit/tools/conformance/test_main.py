"""tools.conformance.__main__: which tests run together in one process, and which do not exist."""

from __future__ import annotations

from pathlib import Path

from tools.conformance.__main__ import missing_tests, suites_of


def test_each_suite_with_a_separate_cluster_runs_separately() -> None:
    first, second = "test/integration/fields/test_a.py::test_a", "test/integration/cli/test_a.py::test_a"
    units = ["test/unit/lws/kube/test_a.py::test_a", "test/unit/tools/test_a.py::test_a"]
    assert sorted(map(sorted, suites_of([first, units[0], second, units[1]]))) == sorted(
        [[first], [second], units]
    )


def test_missing_tests_are_reported(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_b(): ...\nasync def test_c(): ...\n")
    named = ["test_a.py::test_b", "test_a.py::test_c", "test_a.py::test_d", "test_b.py::test_b"]
    assert missing_tests(named, tmp_path) == ["test_a.py::test_d", "test_b.py::test_b"]
