"""The site's navigation lists every document, and pages render the same on the site and on a code host."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
SECTIONS = ["Start", "Concepts", "Tasks", "Operations", "Reference", "Design"]
FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))


def navigation() -> list[Any]:
    return list(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])


def pages_in(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for value in entry.values():
            yield from pages_in(value)
    else:
        for item in entry:
            yield from pages_in(item)


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def test_the_navigation_has_every_page_once() -> None:
    assert sorted(pages_in(navigation())) == [str(page.relative_to(DOCS)) for page in PAGES]


def test_sections_are_folders() -> None:
    _, *sections = navigation()
    assert [title for section in sections for title in section] == SECTIONS
    for section in sections:
        ((title, pages),) = section.items()
        assert {page.partition("/")[0] for page in pages_in(pages)} == {title.lower()}


@each_page
def test_a_heading_has_the_same_anchor_everywhere(page: Path) -> None:
    """The rules of code hosts and of the site differ for adjacent separators."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    hosted = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert len(set(hosted)) == len(hosted)
    assert hosted == [slug(heading) for heading in headings]


def slug(heading: str) -> str:
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@each_page
def test_lists_are_written_for_every_reader_of_markdown(page: Path) -> None:
    lines = prose(page).splitlines()
    glued = [
        line
        for before, line in pairwise(lines)
        if re.match(r"([-*]|\d+\.) ", line) and before.strip() and not re.match(r"([-*]|\d+\.) |  ", before)
    ]
    assert glued == []
    assert re.findall(r"^ {1,3}```", page.read_text(encoding="utf-8"), re.MULTILINE) == []
