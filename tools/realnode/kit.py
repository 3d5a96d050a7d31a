"""What is handed to the process inside of the namespaces, as a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "REALNODE"
"""Names the file, inside of the namespaces."""


class NodeError(RuntimeError):
    """One line: what failed, and what to do."""


class MissingError(NodeError):
    """This machine lacks something that a node needs: what, and how to get it."""


@dataclass(frozen=True)
class Kit:
    """What a node is made of; every string but `name` is an absolute path.

    `overlay`: whether file systems can be laid over others below `state`.
    """

    name: str
    state: str
    overlay: bool
    programs: Mapping[str, str]
    libraries: tuple[str, ...]
    archives: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return Path(self.state)

    def write(self) -> Path:
        path = self.folder / "kit.json"
        path.write_text(json.dumps(asdict(self)))
        return path


def read_kit() -> Kit:
    """Return what this process was given. NodeError where it is not inside of the namespaces of a node."""
    path = os.environ.get(VARIABLE)
    if not path:
        raise NodeError("this runs inside of a node: `python -m tools.realnode COMMAND`")
    read = json.loads(Path(path).read_text())
    return Kit(**{**read, "libraries": tuple(read["libraries"]), "archives": tuple(read["archives"])})
