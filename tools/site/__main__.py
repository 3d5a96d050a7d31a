"""Build the site of docs/ into build/site. A dead link or anchor is an error.

A file outside docs/ to which a document links becomes a page below `repository/`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.deployment import REPOSITORY

LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
_CODE = re.compile(r"(`+)(.+?)\1(?!`)")
_LEXERS = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}
_NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
# This is docs_dir of mkdocs.yml.
_PREPARED = REPOSITORY / "build" / "docs"


class DeadLinkError(Exception):
    """A link of a document leads to no file."""


def pages_of(root: Path) -> Mapping[str, str]:
    """Return path on the site → Markdown, for all documents and every file to which one of them links."""
    waiting = sorted(path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.md"))
    pages: dict[str, str] = {}
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        text, targets = _page(root, path)
        pages[on_site(path)] = text
        waiting.extend(targets - seen)
        seen |= targets
    return pages


def on_site(path: str) -> str:
    """Return the path on the site of a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to a text, except to its fenced code."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def _page(root: Path, path: str) -> tuple[str, set[str]]:
    """Return the Markdown of one page, and the other pages to which it links."""
    text = (root / path).read_text(encoding="utf-8")
    if not path.endswith(".md"):
        lexer = _LEXERS.get(Path(path).suffix, "text")
        return f"{_NOT_SEARCHED}# `{path}`\n\n~~~~~{lexer}\n{text.rstrip()}\n~~~~~\n", set()
    needed: set[str] = set()

    def moved(link: re.Match[str]) -> str:
        if re.match(r"[a-z]+:|#", link[1]):
            return link[1]
        name, mark, anchor = link[1].partition("#")
        target = _target(root, path, name)
        if not target.startswith("docs/") or target.endswith(".md"):
            needed.add(target)
            destination = on_site(target)
        else:
            destination = target.removeprefix("docs/")
        return f"{os.path.relpath(destination, Path(on_site(path)).parent)}{mark}{anchor}"

    return outside_fences(text, lambda part: LINK.sub(moved, _ROW.sub(_unescaped, part))), needed


def _target(root: Path, path: str, name: str) -> str:
    """Return the file of the repository to which a link of a document leads. Raises DeadLinkError."""
    target = os.path.normpath(Path(path).parent / name)
    if (root / target).is_dir():
        target = f"{target}/README.md"
    if not (root / target).is_file():
        raise DeadLinkError(f"{path}: {name} leads to nothing")
    return target


def _unescaped(row: re.Match[str]) -> str:
    """Unescape pipes within code in a row of a table. GitHub requires the escapes, and the site does not."""
    return _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0])


def main() -> int:
    """Write the pages, and build the site with mkdocs."""
    try:
        pages = pages_of(REPOSITORY)
    except DeadLinkError as error:
        print(error, file=sys.stderr)
        return 1
    lay_out(pages)
    command = [sys.executable, "-m", "mkdocs", "--no-color", "build", "--strict"]
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    # With --quiet, mkdocs would count no warnings and accept every site.
    built = subprocess.run(
        command, cwd=REPOSITORY, env=variables, check=False, stderr=subprocess.PIPE, text=True
    )
    if built.returncode:
        print(built.stderr, file=sys.stderr)
    return built.returncode


def lay_out(pages: Mapping[str, str]) -> None:
    """Write the pages beside the pictures and figures of docs/."""
    shutil.rmtree(_PREPARED, ignore_errors=True)
    shutil.copytree(REPOSITORY / "docs", _PREPARED, ignore=shutil.ignore_patterns("*.md"))
    for path, text in pages.items():
        page = _PREPARED / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
