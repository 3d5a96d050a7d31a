"""Which packages for pip are in a release?

In: the files of the repository. Out: a wheel and a source distribution of each of our two.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.release.source import ReleaseError, run

PROJECTS = {"lws-controller": ".", "lws-api": "api"}
"""Name on PyPI → where its pyproject.toml is. `lws` is somebody else's there."""


def build(source: Path, target: Path, version: str, epoch: str) -> list[Path]:
    """Build every package below `source` into `target` and return the wheels. Raises ReleaseError."""
    wheels = []
    for name, directory in PROJECTS.items():
        command: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "-d", target.resolve()]
        run(command, source / directory, epoch=epoch)
        stem = f"{name.replace('-', '_')}-{version}"
        wheel, archive = target / f"{stem}-py3-none-any.whl", target / f"{stem}.tar.gz"
        for made in (wheel, archive):
            if not made.is_file():
                raise ReleaseError(f"{directory}/pyproject.toml: no {made.name} came of it")
        wheels.append(wheel)
    return wheels
