"""Answers: where are the programs of a node that are not made of Go alone?

In: the PATH; else packages of the distribution, unpacked into a cache, so that nothing is installed. Out: a
path for each, and where their libraries are. MissingError says what to install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.realnode.errors import MissingError

# Program -> package, by the same name in Debian, Ubuntu and Fedora.
PACKAGES: Mapping[str, str] = {"runc": "runc", "nft": "nftables"}

_FOLDERS = ("usr/sbin", "usr/bin", "sbin", "bin")
_LIBRARIES = ("usr/lib/*-linux-gnu*", "lib/*-linux-gnu*")
# Programs for administrators, which are not on everybody's PATH.
_SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


@dataclass(frozen=True)
class SystemPrograms:
    """Where the programs are."""

    paths: Mapping[str, Path]
    libraries: tuple[Path, ...]
    """Folders for $LD_LIBRARY_PATH; empty where the machine's own are used."""


def find_system_programs(cache: Path) -> SystemPrograms:
    """Return those of PACKAGES: the machine's own, else unpacked below `cache`."""
    installed = _installed()
    missing = _missing(installed)
    if not missing:
        return SystemPrograms({name: Path(path) for name, path in installed.items()}, ())
    root = _folder(cache, missing)
    if not root.exists():
        _unpack(missing, root)
    paths = {
        name: Path(installed[name]) if name in installed else program_in(root, name) for name in PACKAGES
    }
    return SystemPrograms(paths, tuple(folder for each in _LIBRARIES for folder in sorted(root.glob(each))))


def lacking_packages(cache: Path) -> list[str]:
    """Return what keeps the programs from being found, as far as that is known without fetching any."""
    missing = _missing(_installed())
    if not missing or _folder(cache, missing).exists() or (shutil.which("apt-get") and shutil.which("dpkg")):
        return []
    return [f"{' '.join(missing)}: not installed, and there is no apt-get to fetch it; install it"]


def program_in(root: Path, name: str) -> Path:
    """Return where a package has put `name` below `root`."""
    for folder in _FOLDERS:
        if (root / folder / name).exists():
            return root / folder / name
    raise MissingError(f"the packages of this machine bring no {name}: install it, and remove {root}")


def _installed() -> dict[str, str]:
    return {name: path for name in PACKAGES if (path := shutil.which(name, path=_SEARCHED))}


def _missing(installed: Mapping[str, str]) -> list[str]:
    return [package for name, package in PACKAGES.items() if name not in installed]


def _folder(cache: Path, missing: list[str]) -> Path:
    return cache / f"debian-{'-'.join(sorted(missing))}"


def _unpack(packages: list[str], root: Path) -> None:
    """Download with all that they depend on and that is not installed, and unpack beside `root` first."""
    wanted = " ".join(packages)
    if lacking := lacking_packages(root.parent):
        raise MissingError("; ".join(lacking))
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".debian-", dir=root.parent) as scratch:
        settings = _settings(Path(scratch))
        _run(["apt-get", *settings, "--quiet", "update"], wanted)
        _run(["apt-get", *settings, "--quiet", "--yes", "--download-only", "install", *packages], wanted)
        unfinished = Path(scratch) / "root"
        for package in sorted((Path(scratch) / "cache" / "archives").glob("*.deb")):
            _run(["dpkg", "--extract", str(package), str(unfinished)], wanted)
        unfinished.rename(root)


def _settings(scratch: Path) -> list[str]:
    """Lists and packages go into a folder of ours: those of the machine are left alone."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True)
    options = [
        f"Dir::State::Lists={scratch / 'lists'}",
        f"Dir::Cache={scratch / 'cache'}",
        "APT::Install-Recommends=false",
        "APT::Sandbox::User=root",
    ]
    return [part for option in options for part in ("--option", option)]


def _run(command: list[str], wanted: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [
            f"exit code {done.returncode}"
        ]
        raise MissingError(f"{wanted}: not installed, and cannot be fetched: {lines[-1]}; install it")
