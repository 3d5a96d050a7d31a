"""Describe where a result was measured: machine, commit and size of the cluster."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from test.bench.processes import Others

NODES = 50
"""The number of simulated nodes in every measured cluster."""

_REPOSITORY = Path(__file__).resolve().parents[2]


@cache
def commit() -> str:
    """Return the measured commit, with a plus sign if the tree has changes.

    Called before the page is written, because that changes the tree too.
    """
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    return subprocess.run(
        command, cwd=_REPOSITORY, capture_output=True, text=True, check=False
    ).stdout.strip()


def machine(others: Others) -> dict[str, Any]:
    """Describe the machine. others: CPU time of other processes meanwhile."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
        "python": platform.python_version(),
        "others": round(others.cores(), 2),
    }
