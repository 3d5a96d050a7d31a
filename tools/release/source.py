"""Copy the files that git knows or would take, with the repository of the image and the address put in."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tools.release.places import HOME, ROOT

_REPOSITORY = "repository: localhost/lws\n"
_NAMES_HOME = ("pyproject.toml", "api/pyproject.toml", "charts/lws/Chart.yaml")


class ReleaseError(RuntimeError):
    """An artifact cannot be made; the message says which, why, and what to do."""


def run(command: list[str | Path], cwd: Path, *, epoch: str = "") -> str:
    """Return what a command prints. Raises ReleaseError with the end of its stderr."""
    environment = {**os.environ, **({"SOURCE_DATE_EPOCH": epoch} if epoch else {})}
    try:
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ReleaseError(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-20:])
        raise ReleaseError(f"{' '.join(map(str, command))}:\n{tail}")
    return done.stdout


def commit_time(root: Path = ROOT) -> str:
    """Seconds since 1970 of the last commit: the date of files in archives."""
    return run(["git", "log", "-1", "--format=%ct"], root).strip()


def copy_source(target: Path, root: Path = ROOT) -> None:
    """Copy what a clone would have, and files that are new; nothing that git ignores."""
    names = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], root)
    for name in filter(None, names.split("\0")):
        source, copy = root / name, target / name
        # Deleted, but not committed so.
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)


def put_in(target: Path, repository: str, home: str = "") -> None:
    """Write the repository of the image and the address of the project into a copy; empty: as it is."""
    values = target / "charts" / "lws" / "values.yaml"
    text = values.read_text(encoding="utf-8")
    if text.count(_REPOSITORY) != 1:
        raise ReleaseError(f"{values}: no place for the repository of the image")
    if repository:
        values.write_text(text.replace(_REPOSITORY, f"repository: {repository}\n"), encoding="utf-8")
    for name in _NAMES_HOME if home else ():
        path = target / name
        path.write_text(path.read_text(encoding="utf-8").replace(HOME, home.rstrip("/")), encoding="utf-8")
