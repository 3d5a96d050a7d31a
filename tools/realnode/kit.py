"""Pass the parts of a node to the process inside the namespaces, as a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "REALNODE"
"""The variable that names the file inside the namespaces."""


class NodeError(RuntimeError):
    """A node cannot start or run; the message says in one line what has failed and what to do."""


class MissingError(NodeError):
    """This machine lacks something that a node needs; the message says what, and how to get it."""


@dataclass(frozen=True)
class Kit:
    """The parts of which a node consists. Every string but `name` is an absolute path.

    overlay: whether overlay file systems can be mounted below `state`.
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
    """Return the kit that this process was given; raises NodeError outside of the namespaces of a node."""
    path = os.environ.get(VARIABLE)
    if not path:
        raise NodeError("this runs inside of a node: `python -m tools.realnode COMMAND`")
    read = json.loads(Path(path).read_text())
    return Kit(**{**read, "libraries": tuple(read["libraries"]), "archives": tuple(read["archives"])})
