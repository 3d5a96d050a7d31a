"""Print the size of the project: files, lines, import closures, docstrings and words."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATHS = {
    "plan of a set": ("lws.leaderworkerset.plan",),
    "watch to write": ("lws.runtime.engine", "lws.leaderworkerset.plan", "lws.runtime.apply"),
    "lws undo": ("lws.cli.commands.undo",),
}
"""The modules at which a reader starts to follow each path."""


def modules() -> dict[str, Path]:
    """Return dotted name → file for the modules of the product."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((ROOT / "lws").rglob("*.py"))
    }


def imports_of(path: Path, files: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the product that a file imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield from (name for name in (full if full in files else node.module,) if name in files)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)


def closure(starts: tuple[str, ...], files: dict[str, Path]) -> set[str]:
    """Return these modules and all modules that they import directly or indirectly."""
    reached: set[str] = set()
    pending = list(starts)
    while pending:
        if (name := pending.pop()) not in reached:
            reached.add(name)
            pending += imports_of(files[name], files)
    return reached


def lines_in(paths: Iterator[Path]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def words_in(paths: Iterator[Path]) -> int:
    return sum(len(path.read_text("utf-8").split()) for path in paths)


def sizes() -> Iterator[tuple[str, str]]:
    files = modules()
    yield "lws/: files, lines", f"{len(files)}, {lines_in(iter(files.values()))}"
    for title, starts in PATHS.items():
        within = closure(starts, files)
        yield f"{title}: files, lines", f"{len(within)}, {lines_in(files[name] for name in within)}"
    trees = {name: ast.parse(path.read_text("utf-8")) for name, path in files.items()}
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    asking = sum("?" in (ast.get_docstring(tree) or "").partition("\n\n")[0] for tree in trees.values())
    yield "public class names used twice", str(sum(count > 1 for count in classes.values()))
    yield "module docstrings that ask", str(asking)
    yield "tools/: lines", str(lines_in((ROOT / "tools").rglob("*.py")))
    yield "docs/: words", str(words_in((ROOT / "docs").rglob("*.md")))
    yield "CONTRIBUTING.md: words", str(words_in(iter((ROOT / "CONTRIBUTING.md",))))


def main() -> int:
    for name, size in sizes():
        print(f"{name:36} {size}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
