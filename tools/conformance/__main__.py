"""Run the tests that prove the API, and write docs/reference/compatibility.md if they pass."""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys

from tools.conformance.inventory import missing_tests
from tools.conformance.page import page_of, proofs_of, read_table
from tools.deployment import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "compatibility.md"
_DEPTH = 3
"""Folders that tell suites apart: test/integration/fields has a cluster and a product of its own."""


def main() -> int:
    """Run, and write."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.conformance", description="Run the tests that prove the API, write the page."
    )
    parser.add_argument("--page-only", action="store_true", help="write the page as if all tests had passed")
    table = read_table()
    tests = proofs_of(table)
    if missing := missing_tests(tests):
        print("no such test:", *missing, sep="\n", file=sys.stderr)
        return 1
    if not parser.parse_args().page_only and not all([_pass(suite) for suite in suites_of(tests)]):
        print(f"{PAGE.name} is left as it was: not every test has passed", file=sys.stderr)
        return 1
    PAGE.write_text(page_of(table), "utf-8")
    return 0


def suites_of(tests: list[str]) -> list[list[str]]:
    """The tests, by who can run in one process; all unit tests can."""

    def suite(test: str) -> tuple[str, ...]:
        folders = tuple(test.split("::")[0].split("/")[:-1])
        return folders[:2] if "unit" in folders[:2] else folders[:_DEPTH]

    return [list(each) for _, each in itertools.groupby(sorted(tests, key=suite), suite)]


def _pass(tests: list[str]) -> bool:
    """Skipped ones prove nothing, but only another cluster than the local one skips any."""
    command = [sys.executable, "-m", "pytest", "-q", *tests]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
