"""Show the difference between two revisions, in words and side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lws.cli.blocks import Block, SideBySide, Text
from lws.history.revision import Revision
from lws.leaderworkerset.revisions.encoding import equality_tree
from lws.leaderworkerset.revisions.history import Recorded

_CONTEXT = 2
_GAP = Text("⋮", "bright_black")

_Pair = tuple[Text | None, Text | None]


def difference_lines(differences: Iterable[str]) -> Iterator[Text]:
    """One line per difference: what came is green, what went is red, what changed is yellow."""
    for line in differences:
        yield Text(line, _style(line))


def diff_data(name: str, old: Revision, new: Revision, differences: Iterable[str]) -> dict[str, Any]:
    """The same as data."""
    older, newer = (
        {"revision": entry.number, "key": entry.key, "name": entry.reference.name} for entry in (old, new)
    )
    return {"name": name, "from": older, "to": newer, "changes": list(differences)}


def headline(old: Revision, new: Revision) -> Text:
    """Which two are compared."""
    return Text(f"revision {old.number} ({old.key}) → revision {new.number} ({new.key})", "bold")


def side_by_side(headings: tuple[str, str], texts: tuple[str, str]) -> Block:
    """Both templates as YAML next to each other: the lines that differ, and what is around them."""
    left, right = (text.splitlines() for text in texts)
    rows: list[_Pair] = []
    matcher = difflib.SequenceMatcher(a=left, b=right, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(_CONTEXT)):
        if number:
            rows.append((_GAP, _GAP))
        for kind, i1, i2, j1, j2 in group:
            rows += _rows(kind, left[i1:i2], right[j1:j2])
    return SideBySide(headings, tuple(rows))


def compared(revision: Recorded) -> dict[str, object]:
    """What is compared: the template as the API server would store it, and what else pods depend on."""
    tree = equality_tree(revision.spec)
    annotations = dict(revision.topology or {})
    return {**tree, **({"metadata": {"annotations": annotations}} if annotations else {})}


def _rows(kind: str, left: Sequence[str], right: Sequence[str]) -> Iterator[_Pair]:
    for position in range(max(len(left), len(right))):
        one = left[position] if position < len(left) else None
        two = right[position] if position < len(right) else None
        if kind == "equal":
            yield Text(one or ""), Text(two or "")
        else:
            yield (
                Text(one, "red") if one is not None else None,
                Text(two, "green") if two is not None else None,
            )


def _style(line: str) -> str:
    # The words of lws.kube.differences.comparison.explain.
    if line.endswith(" added") or " added: " in line:
        return "green"
    if line.endswith(" removed") or " removed, was " in line:
        return "red"
    return "yellow"
