"""Answers: below which cgroup do all containers of a node run?

In: the name of the node. Out: a cgroup of that name at the root of every hierarchy, ready for processes.
"""

from __future__ import annotations

from pathlib import Path

from tools.realnode.guard import CGROUPS

# A new one of cgroup v1 has none, and takes no process before it has some.
_INHERITED = ("cpuset.cpus", "cpuset.mems")


def hierarchies(root: Path = CGROUPS) -> list[Path]:
    """Return the root of each hierarchy: the one of cgroup v2, or those of v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return sorted({path.resolve() for path in root.glob("*") if (path / "cgroup.procs").exists()})


def set_up(name: str, root: Path = CGROUPS) -> None:
    """Make the cgroups of a node. OSError where that is not allowed."""
    for hierarchy in hierarchies(root):
        made = hierarchy / name
        made.mkdir()
        for setting in _INHERITED:
            if (made / setting).exists() and hierarchy != root:
                (made / setting).write_text((hierarchy / setting).read_text())
