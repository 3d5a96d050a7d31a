"""Answers: what does the API consist of, and which test proves each part of it?

In: test/conformance.yaml. Out: its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.deployment import REPOSITORY

TABLE = REPOSITORY / "test" / "conformance.yaml"
DIFFERENCES = "differences"
"""What the kinds of differences end with."""
# The one written in C, where PyYAML has it, takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Row:
    """name: empty for a difference. what: its meaning, or the difference with its reason. test: a node id of
    pytest without parameters. is_added: the original controller has no such thing.
    """

    name: str
    what: str
    test: str
    is_added: bool = False


Table = Mapping[str, tuple[Row, ...]]
"""Kind, such as fields or events → its rows, in the order of the file."""


def read_table(path: Path = TABLE) -> Table:
    """Raises ValueError that names a row that lacks its test or says anything else than rows say."""
    document: Mapping[str, list[dict[str, Any]]] = yaml.load(path.read_text("utf-8"), Loader=_LOADER)
    return {kind: tuple(_row(kind, each) for each in rows) for kind, rows in document.items()}


def proofs_of(table: Table) -> list[str]:
    """Every test that is named, once."""
    return sorted({row.test for rows in table.values() for row in rows})


def _row(kind: str, written: Mapping[str, Any]) -> Row:
    unknown = written.keys() - {"name", "what", "test", "added"}
    needed = {"what", "test"} if kind.endswith(DIFFERENCES) else {"name", "test"}
    if unknown or not needed <= written.keys():
        raise ValueError(f"{kind}: a row needs {', '.join(sorted(needed))}: {dict(written)}")
    return Row(
        str(written.get("name", "")),
        str(written.get("what", "")),
        str(written["test"]),
        bool(written.get("added", False)),
    )
