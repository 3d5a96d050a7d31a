"""List every place that names the version, and the address of the project.

python -m tools.release.places               # prints the version; exit code 1 if places disagree
python -m tools.release.places 2026.12.0     # writes it everywhere
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = "https://example.com/lws-controller"
"""A placeholder for the repository's address, which `make release PROJECT_URL=…` replaces."""
NUMBER = r"\d+\.\d+\.\d+"
_NUMBER = re.compile(NUMBER)
_REPOSITORY = "repository: localhost/lws\n"
_NAMES_HOME = ("pyproject.toml", "api/pyproject.toml", "charts/lws/Chart.yaml")


@dataclass(frozen=True)
class Place:
    """A pattern in a file whose first group is the version. The file may contain it several times."""

    path: str
    pattern: str


PLACES = (
    Place("lws/__init__.py", rf'(?m)^__version__ = "({NUMBER})"$'),
    Place("api/lws_api/__init__.py", rf'(?m)^__version__ = "({NUMBER})"$'),
    Place("pyproject.toml", rf'"lws-api==({NUMBER})"'),
    Place("charts/lws/Chart.yaml", rf"(?m)^version: ({NUMBER})$"),
    Place("charts/lws/Chart.yaml", rf'(?m)^appVersion: "({NUMBER})"$'),
    Place("Dockerfile", rf"localhost/lws:({NUMBER})"),
    Place("README.md", rf"lws-({NUMBER})-linux"),
    Place("docs/start/install.md", rf"lws-({NUMBER})-linux"),
    Place("docs/start/install.md", rf"/lws:({NUMBER})"),
    Place("docs/start/releases.md", rf"lws-chart-({NUMBER})"),
    Place("docs/operations/handover.md", rf"`lws-({NUMBER})` after"),
)


def found(root: Path = ROOT) -> Mapping[Place, frozenset[str]]:
    """Return the versions that each place names; none if the pattern no longer matches."""
    return {
        place: frozenset(re.findall(place.pattern, (root / place.path).read_text(encoding="utf-8")))
        for place in PLACES
    }


def version(root: Path = ROOT) -> str:
    """Return the version. Raises ValueError if places disagree or no longer exist."""
    places = found(root)
    every = frozenset().union(*places.values())
    lost = [place.path for place, versions in places.items() if not versions]
    if lost or len(every) != 1:
        heard = "; ".join(
            f"{place.path}: {', '.join(sorted(versions)) or 'nothing'}" for place, versions in places.items()
        )
        raise ValueError(f"not one version everywhere: {heard}")
    return next(iter(every))


def home(root: Path = ROOT) -> str:
    """Return the address of the project from its pyproject.toml."""
    urls = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    return str(urls["Homepage"])


def write(new: str, root: Path = ROOT) -> None:
    """Write another version into every place. Raises ValueError if it is not a version."""
    if not _NUMBER.fullmatch(new):
        raise ValueError(f"{new!r} is no version: three numbers, such as 2026.12.0")
    for place in PLACES:
        path = root / place.path
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(place.pattern, lambda match: _with(match, new), text), encoding="utf-8")


def _with(match: re.Match[str], new: str) -> str:
    start, end = (at - match.start() for at in match.span(1))
    return match[0][:start] + new + match[0][end:]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.release.places", description="Say or change the version."
    )
    parser.add_argument("version", nargs="?", help="the new one, such as 2026.12.0")
    new = parser.parse_args(arguments).version
    try:
        if new:
            write(new, root)
        print(version(root))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


class ReleaseError(RuntimeError):
    """An artifact cannot be created; the message says which, why, and what to do."""


def run(command: list[str | Path], cwd: Path, *, epoch: str = "") -> str:
    """Run a command and return its output. Raises ReleaseError with the end of its stderr."""
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
    """Return the time of the last commit in seconds since 1970, which is the date of files in archives."""
    return run(["git", "log", "-1", "--format=%ct"], root).strip()


def copy_source(target: Path, root: Path = ROOT) -> None:
    """Copy the files that a clone would have, and new files, but no file that git ignores."""
    names = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], root)
    for name in filter(None, names.split("\0")):
        source, copy = root / name, target / name
        # The file may be deleted without a commit.
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)


def put_in(target: Path, repository: str, home: str = "") -> None:
    """Write the image's repository and the project's address, unless empty, into a copy of the sources."""
    values = target / "charts" / "lws" / "values.yaml"
    text = values.read_text(encoding="utf-8")
    if text.count(_REPOSITORY) != 1:
        raise ReleaseError(f"{values}: no place for the repository of the image")
    if repository:
        values.write_text(text.replace(_REPOSITORY, f"repository: {repository}\n"), encoding="utf-8")
    for name in _NAMES_HOME if home else ():
        path = target / name
        path.write_text(path.read_text(encoding="utf-8").replace(HOME, home.rstrip("/")), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
