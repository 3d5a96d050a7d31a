"""What `make` rejects at once, before it sets up anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["demo", "NODE=typo"], "NODE=typo: leave it out", id="unknown-node"),
        pytest.param(["cluster", "NODE=typo"], "NODE=typo: leave it out", id="unknown-node-to-play-with"),
        pytest.param(
            ["demo", "NODE=real", "DEMO=x"], "DEMO=x: NODE=real shows one tour only", id="other-demo"
        ),
    ],
)
def test_misleading_arguments_are_rejected_in_one_line(words: list[str], message: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(["make", *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    line, *by_make = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith(message) and done.stdout == ""
    assert all(text.startswith("make: ***") for text in by_make)
