"""The troubleshooting pages quote conditions, Events, log lines and rejections exactly as in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from test.unit.docs.inventory import strings_passed_to
from tools.conformance.__main__ import read_table
from tools.series import series_of, served

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted((ROOT / "docs" / "operations" / "troubleshooting").glob("*.md"))
SOURCES = sorted(path for package in ("lws", "api/lws_api") for path in (ROOT / package).rglob("*.py"))
KINDS = ("conditions", "events", "disaggregatedset_conditions", "disaggregatedset_events")
GAP = "\0"
"""Stands for a value in a text; no quote contains it."""


@cache
def texts() -> str:
    """Return every string of the product, with a gap for each inserted value and between any two strings."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES)
    return GAP.join(text for tree in trees for text in strings_in(tree))


def strings_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%(?:\.\d)?[sdf]", GAP, node.value)


def quotes() -> list[str]:
    """Return the text in backticks in the first columns of tables and in lines that begin with `Message:`."""
    texts = [path.read_text(encoding="utf-8") for path in DOCUMENTS]
    cells = [cell for text in texts for cell in re.findall(r"^\| (.*?) \| ", text, re.MULTILINE)]
    cells += [line for text in texts for line in re.findall(r"^Message: (.+)$", text, re.MULTILINE)]
    return [match[2].strip() for cell in cells for match in re.finditer(r"(`+)(.+?)\1(?!`)", cell)]


def fragments_of(quote: str) -> list[str]:
    """Return the parts of a quote between values, without punctuation at their ends."""
    return [part for piece in quote.split("…") if (part := piece.strip(" :;,.()"))]


def occurs_in_code(fragment: str) -> bool:
    return fragment in texts()


def test_every_quote_occurs_in_the_code() -> None:
    unknown = [part for quote in quotes() for part in fragments_of(quote) if not occurs_in_code(part)]
    assert unknown == [], "docs/operations quotes texts that are not in the code (any more)"


def test_quotes_are_found() -> None:
    assert len(quotes()) > 40


def headings_of(page: str) -> set[str]:
    """Return the headings that other pages link to, whose anchors are their names in lower case."""
    path = ROOT / "docs" / "operations" / page
    return set(re.findall(r"^### (\w+)$", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_condition_and_reason_has_an_anchor_and_no_other_word() -> None:
    sources = (path.read_text(encoding="utf-8") for path in SOURCES)
    trees = [ast.parse(source) for source in sources if "Condition(" in source]
    listed = {row.name for kind in KINDS for row in read_table()[kind]}
    reasons = strings_passed_to(trees, {"Condition": 2})
    assert {"AllGroupsReady", "ProgressDeadlineExceeded"} <= reasons
    assert headings_of("troubleshooting/reasons.md") == listed | reasons


def test_every_series_with_an_anchor_is_served() -> None:
    headings = {heading for heading in headings_of("monitoring.md") if not heading.startswith("LWS")}
    assert headings and headings <= {series.name for series in series_of(served())}


@pytest.mark.parametrize(
    ("source", "fragment", "is_found"),
    [
        pytest.param("'the pod is gone'", "pod is", True, id="constant"),
        pytest.param("f'pod {name} is gone'", "is gone", True, id="after-a-value"),
        pytest.param("f'pod {name} is gone'", "pod is gone", False, id="across-a-value"),
        pytest.param("f'pod {name} is ' f'gone'", "is gone", True, id="across-two-lines"),
        pytest.param("'%s is gone for %.0f s'", "is gone for", True, id="in-a-log-line"),
        pytest.param("'%s is gone for %.0f s'", "is gone for 3 s", False, id="across-a-value-of-a-log-line"),
    ],
)
def test_texts_are_found(source: str, fragment: str, is_found: bool) -> None:
    assert any(fragment in text for text in strings_in(ast.parse(source))) is is_found
