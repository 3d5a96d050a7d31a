"""Each row of the table of failures on a real node has an expectation, an observation and a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "concepts" / "failures.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("\n## Tested on a real node\n")[2]
HEAD = ["what happens to a worker", "expected", "seen", "test"]


def rows() -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TABLE.splitlines()
        if line.startswith("|") and not line.startswith("| ---")
    ]


def played() -> dict[str, str]:
    """Return, for each test in test/node, the text of its file."""
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "test" / "node").glob("test_*.py")]
    return {name: text for text in files for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}


def test_the_table_says_what_is_expected_what_is_seen_and_where() -> None:
    head, *failures = rows()
    assert head == HEAD
    assert len(failures) > 10
    assert [row for row in failures if len(row) != len(HEAD) or not all(row)] == []


@pytest.mark.parametrize("cell", [row[-1] for row in rows()[1:]])
def test_each_row_names_a_test_that_exists(cell: str) -> None:
    found = re.fullmatch(r"`(test_\w+)`(?: \((\w+)\))?|none: .+", cell)
    assert found, cell
    if found[1]:
        assert found[1] in played()
        assert not found[2] or f'"{found[2]}": Failure(' in played()[found[1]]


def test_every_test_of_a_failure_is_in_the_table() -> None:
    text = (ROOT / "test" / "node" / "test_failures.py").read_text(encoding="utf-8")
    text += (ROOT / "test" / "node" / "test_node.py").read_text(encoding="utf-8")
    names = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    assert names - set(re.findall(r"`(test_\w+)`", TABLE)) == set()


def test_the_events_that_the_flow_chart_names_exist() -> None:
    (chart,) = re.findall(r"```mermaid\n(.*?)```", PAGE, re.DOTALL)
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "lws").rglob("*.py"))
    events = re.findall(r"Event (\w+)", chart)
    assert len(events) == 3 and [event for event in events if f'"{event}"' not in code] == []
