"""Describe where a result was measured: the machine, the commit, the size of the cluster."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from test.bench.processes import Others

NODES = 50
"""Simulated ones, in every cluster that is measured."""

_REPOSITORY = Path(__file__).resolve().parents[2]


@cache
def commit() -> str:
    """What is measured, by the name that git gives it; with a plus sign where the tree has changes.

    As it is before the page is written, which is a change too.
    """
    asked = ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    return subprocess.run(asked, cwd=_REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()


def machine(others: Others) -> dict[str, Any]:
    """others: what everybody else took meanwhile."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
        "python": platform.python_version(),
        "others": round(others.cores(), 2),
    }
