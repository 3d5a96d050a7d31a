"""Check the workflows with actionlint, which is compiled once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tools.localcluster.build import cache_directory, ensure_built
from tools.localcluster.progress import LinePrinter
from tools.localcluster.recipe import Target
from tools.release.places import ROOT

_ACTIONLINT = Target(
    name="actionlint",
    module=Path(__file__).parent / "go" / "actionlint",
    package="github.com/rhysd/actionlint/cmd/actionlint",
    linker_flags="-s -w",
    programs=("actionlint",),
)


def faults(directory: Path = ROOT / ".github" / "workflows") -> list[str]:
    """What is wrong with the workflows of a directory; BuildError or NoGoError where nothing can be said."""
    program = ensure_built(_ACTIONLINT, cache_directory(os.environ), LinePrinter()) / "actionlint"
    # Neither of these is there everywhere, and a finding must not depend on that.
    command: list[str | Path] = [program, "-no-color", "-oneline", "-shellcheck=", "-pyflakes="]
    paths = sorted(directory.glob("*.yaml"))
    done = subprocess.run([*command, *paths], cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines() if done.returncode else []
