"""Run tests on an existing cluster in a separate pytest process, as a user would call it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from test.harness.waiting import eventually

REPOSITORY = Path(__file__).resolve().parents[3]
CONTROLLERS = "test/integration/controllers"

_SECONDS = 900
_MARK = "LWS_INNER_TESTS"
"""A variable that every process of such a run inherits, to find the ones that outlive it."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run. results: for each test, passed, skipped or failed. output: of pytest."""

    results: Mapping[str, str]
    output: str


def run_tests(report: Path, variables: Mapping[str, str], *tests: str) -> Outcome:
    """Run tests with these variables; return when no process of theirs is left."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "PYTEST_ADDOPTS": "", **variables, _MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    eventually(
        "no process is left", lambda: _processes_with(f"{_MARK}={mark}"), lambda processes: not processes
    )
    return Outcome(_results(report) if report.exists() else {}, done.stdout)


def _results(report: Path) -> dict[str, str]:
    results = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        outcomes = [element.tag for element in case if element.tag in ("failure", "error", "skipped")]
        results[str(case.get("name"))] = outcomes[0] if outcomes else "passed"
    return results


def _processes_with(variable: str) -> list[str]:
    """Return the command lines of processes with this in their environment; ended processes have none."""
    commands = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (directory / "environ").read_bytes().split(b"\0"):
                commands.append((directory / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return commands
