"""Every link between documents of the repository points to a file or heading that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part == "build" or part.startswith(".") for part in path.relative_to(ROOT).parts)
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors_of(document: Path) -> set[str]:
    """Return the anchors of a document by the rules of GitHub."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", document.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links_in(document: Path) -> list[str]:
    dead = []
    for link in LINK.findall(FENCED.sub("", document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_has_a_target(document: Path) -> None:
    assert dead_links_in(document) == []


def test_documents_with_links_are_found() -> None:
    linking = {path.name for path in DOCUMENTS if LINK.search(path.read_text(encoding="utf-8"))}
    assert {"README.md", "CONTRIBUTING.md"} <= linking


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        pytest.param("[a](there.md)", [], id="file"),
        pytest.param("[a](gone.md)", ["gone.md"], id="no-file"),
        pytest.param("[a](there.md#two-words)", [], id="heading"),
        pytest.param("[a](there.md#one)", ["there.md#one"], id="no-heading"),
        pytest.param("[a](https://example.com/gone.md)", [], id="elsewhere"),
        pytest.param("```\n[a](gone.md)\n```", [], id="in-code"),
    ],
)
def test_dead_links_are_found(tmp_path: Path, text: str, dead: list[str]) -> None:
    (tmp_path / "there.md").write_text("# Two words\n")
    document = tmp_path / "document.md"
    document.write_text(f"{text}\n")
    assert dead_links_in(document) == dead
