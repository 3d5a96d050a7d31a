"""Contributor pages name only files and folders that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DESIGN = ROOT / "docs" / "design"
NAMED = re.compile(r"`((?:api|lws|docs|charts|test|tools)/[\w/.-]+)`")


def missing_in(text: str) -> list[str]:
    return [path for path in NAMED.findall(text) if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", sorted(path.name for path in DESIGN.glob("*.md")))
def test_every_named_file_exists(page: str) -> None:
    assert missing_in((DESIGN / page).read_text(encoding="utf-8")) == []


def test_frequent_changes_name_the_files_to_change() -> None:
    text = (DESIGN / "where.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!change|---)(.+?) \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) >= 15
    assert [change for change, places in rows if "`" not in places] == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`lws/config`, and `lws/cli`", []),
        ("`lws/gone.py`", ["lws/gone.py"]),
    ],
)
def test_missing_files_are_found(text: str, missing: list[str]) -> None:
    assert missing_in(text) == missing
