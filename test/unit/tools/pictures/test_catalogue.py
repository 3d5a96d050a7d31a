"""tools.pictures.__main__: committed pictures equal newly drawn ones, and pages show all of them."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.pictures import __main__ as pictures_main
from tools.pictures.__main__ import DIRECTORY, ROOT, pictures

DRAWN = pictures()
SVG = "{http://www.w3.org/2000/svg}"


def test_each_picture_has_a_file_and_there_are_no_others() -> None:
    assert {path.name for path in DIRECTORY.glob("*.svg")} == DRAWN.keys(), "run `make generate`"


@pytest.mark.parametrize("name", DRAWN)
def test_committed_pictures_are_up_to_date(name: str) -> None:
    assert (DIRECTORY / name).read_text(encoding="utf-8") == DRAWN[name], "run `make generate`"


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_has_a_description(name: str) -> None:
    root = ElementTree.fromstring(DRAWN[name])
    assert root.get("role") == "img"
    assert all(len(root.findtext(f"{SVG}{tag}") or "") > 10 for tag in ("title", "desc"))


def test_every_picture_is_linked_with_an_alternative_text() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    links = [
        link for page in pages for link in re.findall(r"!\[(.*?)\]\(\S*?([\w-]+\.svg)\)", page.read_text())
    ]
    assert {name for _, name in links} >= DRAWN.keys()
    assert [name for words, name in links if name in DRAWN and len(words) < 10] == []


def test_outdated_pictures_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pictures_main, "DIRECTORY", tmp_path)
    monkeypatch.setattr(pictures_main, "pictures", lambda: {"new.svg": "<svg/>"})
    (tmp_path / "old.svg").write_text("<svg/>")
    assert pictures_main.main() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["new.svg"]
