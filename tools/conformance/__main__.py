"""Run the tests that prove the API, or list what differs from upstream in docs/reference/compatibility.md."""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools import generated
from tools.deployment import REPOSITORY

TABLE = REPOSITORY / "test" / "conformance.yaml"
DIFFERENCES = "differences"
"""The suffix of kinds that contain differences."""
# The loader that is written in C, if PyYAML has it, takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTRODUCTION = """\
# Compatibility with upstream

For those who move from upstream ([kubernetes-sigs/lws](https://github.com/kubernetes-sigs/lws)): what this
controller adds to the API, and every deliberate difference. Everything else has its upstream name and
meaning. [API](api.md) explains all fields, and
[reasons](../operations/troubleshooting/reasons.md) all Events and conditions.

Each part of the API and each difference has a test (`make conformance`).
"""
_TITLES = {
    "fields": ("Fields", "Field"),
    "labels": ("Labels", "Label"),
    "annotations": ("Annotations", "Annotation"),
    "environment": ("Environment", "Variable"),
    "conditions": ("Conditions", "Type"),
    "events": ("Events", "Reason"),
}
_DISAGGREGATED = {
    "disaggregatedset_fields": ("Fields of DisaggregatedSets", "Field"),
    "scaler_fields": ("Fields of DisaggregatedSetRoleScalers", "Field"),
    "disaggregatedset_labels": ("Labels of DisaggregatedSets", "Label"),
    "disaggregatedset_annotations": ("Annotations of DisaggregatedSets", "Annotation"),
    "disaggregatedset_conditions": ("Conditions of DisaggregatedSets", "Type"),
    "disaggregatedset_events": ("Events of DisaggregatedSets", "Reason"),
}
_DIFFERENCES = "Deliberate differences"
_OF_DISAGGREGATED = f"disaggregatedset_{DIFFERENCES}"
PAGE = REPOSITORY / "docs" / "reference" / "compatibility.md"
_LISTED_NOWHERE_ELSE = frozenset(
    ("labels", "annotations", "environment", "disaggregatedset_labels", "disaggregatedset_annotations")
)
"""Kinds of which the page also lists the names that upstream has."""
_DEPTH = 3
"""A suite is identified by this number of folders: test/integration/fields has a cluster of its own."""


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of the table: a part of the API, or a difference, which has no name.

    what: its meaning, or the difference with its reason.
    test: a node ID of pytest without parameters.
    is_added: whether upstream lacks this part.
    """

    name: str
    what: str
    test: str
    is_added: bool = False


Table = Mapping[str, tuple[Row, ...]]
"""Kind, such as fields or events → its rows, in the order of the file."""


def read_table(path: Path = TABLE) -> Table:
    """Read the table. Raises ValueError that names a row which lacks its test or has unknown keys."""
    document: Mapping[str, list[dict[str, Any]]] = yaml.load(path.read_text("utf-8"), Loader=_LOADER)
    return {kind: tuple(_row(kind, row) for row in rows) for kind, rows in document.items()}


def proofs_of(table: Table) -> list[str]:
    """Return every test that the table names, without duplicates."""
    return sorted({row.test for rows in table.values() for row in rows})


def _row(kind: str, written: Mapping[str, Any]) -> Row:
    unknown = written.keys() - {"name", "what", "test", "added"}
    needed = {"what", "test"} if kind.endswith(DIFFERENCES) else {"name", "test"}
    if unknown or not needed <= written.keys():
        raise ValueError(f"{kind}: a row needs {', '.join(sorted(needed))}: {dict(written)}")
    name, what = str(written.get("name", "")), str(written.get("what", ""))
    return Row(name, what, str(written["test"]), bool(written.get("added", False)))


def page_of(table: Table) -> str:
    """Return the whole page."""
    parts = [_INTRODUCTION]
    parts += _sections(table, _TITLES)
    parts.append(_differences(_DIFFERENCES, table.get(DIFFERENCES, ())))
    parts += _sections(table, _DISAGGREGATED)
    if of_disaggregated := table.get(_OF_DISAGGREGATED, ()):
        parts.append(_differences(f"{_DIFFERENCES} of DisaggregatedSets", of_disaggregated))
    return "\n".join(parts)


def _sections(table: Table, titles: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for kind, (heading, column) in titles.items():
        rows = table.get(kind, ())
        shared = [row for row in rows if not row.is_added]
        if shared and kind in _LISTED_NOWHERE_ELSE:
            yield _section(f"## {heading}", column, shared)
        if added := [row for row in rows if row.is_added]:
            yield _section(f"## {heading} that upstream lacks", column, added)


def _section(heading: str, column: str, rows: Sequence[Row]) -> str:
    if not any(row.what for row in rows):
        names = ",\n".join(f"`{row.name}`" for row in rows)
        return f"{heading}\n\n{names}\n"
    lines = [f"| {column} | Meaning |", "| --- | --- |", *(f"| `{row.name}` | {row.what} |" for row in rows)]
    return "\n".join((heading, "", *lines, ""))


def _differences(heading: str, rows: Iterable[Row]) -> str:
    return "\n".join((f"## {heading}", "", *(f"- {row.what}" for row in rows), ""))


def main() -> int:
    """Run the tests, or write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.conformance", description="Run the tests that prove the API."
    )
    only = f"run none, write {PAGE.name} from {TABLE.name}"
    parser.add_argument("--page-only", action="store_true", help=only)
    table = read_table()
    tests = proofs_of(table)
    if missing := missing_tests(tests):
        print("no such test:", *missing, sep="\n", file=sys.stderr)
        return 1
    if parser.parse_args().page_only:
        page = {PAGE.relative_to(REPOSITORY): page_of(table)}
        return generated.main("tools.conformance", lambda: page, TABLE.name, (), REPOSITORY)
    return 0 if all([_pass(suite) for suite in suites_of(tests)]) else 1


def missing_tests(tests: Iterable[str], root: Path = REPOSITORY) -> list[str]:
    """Return the tests that no file defines."""
    texts: dict[str, str] = {}
    missing = []
    for test in tests:
        path, _, name = test.partition("::")
        if path not in texts:
            texts[path] = (root / path).read_text("utf-8") if (root / path).is_file() else ""
        if re.search(rf"^(?:async )?def {re.escape(name)}\(", texts[path], re.MULTILINE) is None:
            missing.append(test)
    return missing


def suites_of(tests: list[str]) -> list[list[str]]:
    """Group the tests by suites that can run in one process. All unit tests are one suite."""

    def suite(test: str) -> tuple[str, ...]:
        folders = tuple(test.split("::")[0].split("/")[:-1])
        return folders[:2] if "unit" in folders[:2] else folders[:_DEPTH]

    return [list(group) for _, group in itertools.groupby(sorted(tests, key=suite), suite)]


def _pass(tests: list[str]) -> bool:
    """Report whether the tests pass. The local cluster skips none, because skipped tests prove nothing."""
    command = [sys.executable, "-m", "pytest", "-q", *tests]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
