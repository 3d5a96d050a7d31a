"""Does the code keep to the limits that CONTRIBUTING.md sets: sizes, and words that names do not use?

In: the Python files of the product. Out: one line per breach, exit code 1 if there is any. Ruff has no rule
for lines of a function or entries of a folder.

    python -m tools.limits
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("lws", "api")
MOST_LINES, MOST_LINES_OF_MODELS = 300, 350
MOST_LINES_OF_A_FUNCTION, MOST_PARAMETERS = 40, 5
MOST_ENTRIES = 14
# As parts of names. Leases are held: that is the API's own word.
BANNED = frozenset({"told", "said", "asked", "met", "found", "kin", "stake", "befallen", "held"})
_HOLDERS = ("lws/cluster/leases/", "lws/controller/election/")


def breaches(root: Path = ROOT) -> Iterator[str]:
    """Every breach below `root`, as `path: what`."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            place = path.relative_to(root).as_posix()
            if path.is_dir() and path.name != "__pycache__":
                yield from _of_folder(place, path)
            elif path.suffix == ".py":
                yield from _of_file(place, path.read_text(encoding="utf-8"))


def _of_folder(place: str, path: Path) -> Iterator[str]:
    entries = sum(each.name not in ("__init__.py", "__pycache__") for each in path.iterdir())
    if entries > MOST_ENTRIES:
        yield f"{place}: {entries} entries, more than {MOST_ENTRIES}: split it by question"


def _of_file(place: str, text: str) -> Iterator[str]:
    lines, most = text.count("\n"), MOST_LINES_OF_MODELS if place.startswith("api/") else MOST_LINES
    if lines > most:
        yield f"{place}: {lines} lines, more than {most}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_function(place, node)
        for name in _names(node):
            words = BANNED.intersection(name.lower().split("_"))
            if words - ({"held"} if place.startswith(_HOLDERS) else set()):
                yield f"{place}:{getattr(node, 'lineno', 1)}: {name}: say it in a word that Kubernetes uses"


def _of_function(place: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if lines > MOST_LINES_OF_A_FUNCTION:
        yield f"{place}:{node.lineno}: {node.name} has {lines} lines, more than {MOST_LINES_OF_A_FUNCTION}"
    parameters = [each for each in _parameters(node) if each not in ("self", "cls")]
    if len(parameters) > MOST_PARAMETERS:
        count = len(parameters)
        yield f"{place}:{node.lineno}: {node.name} has {count} parameters, more than {MOST_PARAMETERS}"


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = node.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _names(node: ast.AST) -> Iterator[str]:
    """What a node gives a name to that others see: no local variables."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
        yield from _parameters(node)
    elif isinstance(node, ast.ClassDef):
        yield node.name
        fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
        yield from (each.id for each in fields if isinstance(each, ast.Name))
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


if __name__ == "__main__":
    found = list(breaches())
    print(*found, sep="\n")
    sys.exit(1 if found else 0)
