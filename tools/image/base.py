"""Build a base for the image from Debian packages if there is no registry.

It is cached by a hash of its recipe and of Debian's package lists, so security updates cause a new base.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tools.image.builders import Build, Builder
from tools.image.steps import ImageError, Steps, alone

REGISTRY_BASE = "docker.io/library/python:3.12-slim"
"""The base that the Dockerfile names."""
SUITE = "trixie"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
MIRROR = "http://deb.debian.org/debian"
SECURITY_MIRROR = "http://deb.debian.org/debian-security"

_ANSWER_SECONDS = 30
_SOURCES = f"""deb {MIRROR} {SUITE} main
deb {SECURITY_MIRROR} {SUITE}-security main
"""
_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet")
_NOT_KEPT = ("./dev/*", "./proc/*", "./sys/*", "./tmp/*", "./var/cache/apt/*", "./var/lib/apt/lists/*")

Fetch = Callable[[str], str]


def _fetch(address: str) -> str:
    try:
        with urlopen(address, timeout=_ANSWER_SECONDS) as answer:
            text: str = answer.read().decode(errors="replace")
            return text
    except (URLError, OSError) as error:
        raise ImageError(f"{address} cannot be read: {error}") from error


@dataclass(frozen=True)
class DebianBase:
    """A base for one architecture, in `cache`."""

    cache: Path
    architecture: str
    fetch: Fetch = _fetch

    def key(self) -> str:
        """Return a hash of what the base is built from. Raises ImageError without Debian's lists."""
        parts = [SUITE, self.architecture, *PACKAGES, _SOURCES, *_NOT_KEPT]
        for mirror, suite in ((MIRROR, SUITE), (SECURITY_MIRROR, f"{SUITE}-security")):
            release = self.fetch(f"{mirror}/dists/{suite}/InRelease")
            parts.append(package_list_hash(release, self.architecture))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def archive(self, key: str) -> Path:
        return self.cache / f"base-{self.architecture}-{key}.tar"

    def newest(self) -> str:
        """Return the key of the newest base in the cache; empty if there is none."""
        archives = sorted(
            self.cache.glob(f"base-{self.architecture}-*.tar"), key=lambda path: path.stat().st_mtime
        )
        return archives[-1].stem.rpartition("-")[2] if archives else ""


def package_list_hash(release: str, architecture: str) -> str:
    """Return the SHA-256 of an architecture's package list, which a Release file of Debian names."""
    path = f"main/binary-{architecture}/Packages.xz"
    for line in release.partition("\nSHA256:")[2].splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == path:
            return words[0]
    raise ImageError(f"Debian's release file does not name {path}: is there a proxy in between?")


def is_whole(archive: Path) -> bool:
    """Report whether the file exists and has the checksum that was recorded for it."""
    recorded = archive.with_suffix(".sha256")
    return archive.exists() and recorded.exists() and _sha256(archive) == recorded.read_text()


def make_archive(base: DebianBase, key: str, steps: Steps) -> Path:
    """Return the root file system as a tar file: the cached one if it is complete, otherwise a new one."""
    archive = base.archive(key)
    if is_whole(archive):
        return archive
    with tempfile.TemporaryDirectory(prefix=".base-", dir=base.cache) as scratch:
        root, unfinished = Path(scratch) / "root", Path(scratch) / archive.name
        steps.run("base from Debian packages", alone(debootstrap_command(root, base.architecture)))
        (root / "etc/apt/sources.list").write_text(_SOURCES)
        shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
        for words in (["update"], ["upgrade", "--yes"]):
            steps.run(f"base: apt-get {words[0]}", alone([*_APT, *words], root))
        (root / "etc/resolv.conf").unlink()
        left_out = [f"--exclude={pattern}" for pattern in _NOT_KEPT]
        steps.run(
            "base: archive",
            ["tar", "-C", str(root), "--numeric-owner", *left_out, "-cf", str(unfinished), "."],
        )
        archive.with_suffix(".sha256").write_text(_sha256(unfinished))
        unfinished.replace(archive)
    return archive


def debootstrap_command(root: Path, architecture: str) -> list[str]:
    """Return the command that installs the smallest Debian with Python."""
    packages = ",".join(PACKAGES)
    options = ["--variant=minbase", f"--include={packages}", f"--arch={architecture}"]
    return ["debootstrap", *options, SUITE, str(root), MIRROR]


def add_to_builder(base: DebianBase, key: str, builder: Builder, steps: Steps) -> str:
    """Return the name of the base in the builder's store, and add the base if it is not there yet."""
    tag = f"localhost/lws-base:{SUITE}-{base.architecture}-{key}"
    if steps.succeeds(builder.find(tag)):
        return tag
    archive = make_archive(base, key, steps)
    with tempfile.TemporaryDirectory(prefix=".context-", dir=base.cache) as context:
        os.link(archive, Path(context) / archive.name)
        (Path(context) / "Dockerfile").write_text(f"FROM scratch\nADD {archive.name} /\n")
        build = Build(tag, f"linux/{base.architecture}", Path(context))
        steps.run("base: into the builder", builder.build(build))
    return tag


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
