"""The tree in CONTRIBUTING.md lists every file of the product and its tools, and none that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LISTED_ONE_BY_ONE = ("api", "lws", "tools")
_SUFFIXES = (".py", ".json", ".yaml")


def tree() -> str:
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## The tree\n")[1]
    return section.split("```\n")[1]


def paths_in(text: str) -> Iterator[str]:
    """Every path of a tree drawn by indentation; directories end in a slash."""
    parents: list[tuple[int, str]] = []
    for line in text.splitlines():
        found = re.match(r"( *)(\S+)", line)
        if found is None:
            continue
        indent, name = len(found[1]), found[2]
        while parents and parents[-1][0] >= indent:
            parents.pop()
        path = f"{parents[-1][1] if parents else ''}{name}"
        if name.endswith("/"):
            parents.append((indent, path))
        yield path


def files_of(directory: str) -> set[str]:
    found = (path for path in (ROOT / directory).rglob("*") if path.suffix in _SUFFIXES)
    return {str(path.relative_to(ROOT)) for path in found if "go" not in path.relative_to(ROOT).parts}


@pytest.mark.parametrize("directory", LISTED_ONE_BY_ONE)
def test_the_tree_lists_every_file(directory: str) -> None:
    assert files_of(directory) - set(paths_in(tree())) == set()


def test_everything_in_the_tree_exists() -> None:
    assert [path for path in paths_in(tree()) if not (ROOT / path).exists()] == []


def test_every_line_of_the_tree_says_what_a_file_is_for() -> None:
    silent = [
        line.strip()
        for line in tree().splitlines()
        if line.strip() and len(line.split()) == 1 and not line.endswith(("__init__.py", "/"))
    ]
    assert silent == []


def test_paths_are_read_from_indentation() -> None:
    drawn = "a/b/   first\n  c.py   second\n  d/\n    e.py   third\n\nf   fourth\n"
    assert list(paths_in(drawn)) == ["a/b/", "a/b/c.py", "a/b/d/", "a/b/d/e.py", "f"]
