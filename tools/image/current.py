"""Answers: which archive holds an image of the sources as they are now?

In: the files that the Dockerfile takes. Out: an archive in the cache, built where there is none of the same
files. Raises ImageError.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lws
from tools.deployment import REPOSITORY
from tools.image.__main__ import RESULTS, cache_directory
from tools.image.builders import Machine, choose_builder, choose_platforms
from tools.image.errors import ImageError

_FILES = ("Dockerfile", "LICENSE", "README.md", "pyproject.toml")
_FOLDERS = ("requirements", "api", "lws", "tools/image/inside")
_KEPT = 3


def current_archive() -> Path:
    """Return an archive for this machine's platform."""
    cache = cache_directory()
    archive = cache / f"current-{sources_key(REPOSITORY)}.tar"
    if not archive.exists():
        built, unfinished = _build(), archive.with_suffix(".unfinished")
        shutil.copyfile(built, unfinished)
        unfinished.replace(archive)
        for old in sorted(cache.glob("current-*.tar"), key=_age)[:-_KEPT]:
            old.unlink()
    return archive


def sources_key(repository: Path) -> str:
    """Return 16 hexadecimal digits that change with every file that goes into the image."""
    digest = hashlib.sha256()
    for path in sorted(_files(repository)):
        for part in (str(path.relative_to(repository)).encode(), path.read_bytes()):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()[:16]


def _files(repository: Path) -> Iterator[Path]:
    yield from (repository / name for name in _FILES)
    for folder in _FOLDERS:
        yield from (each for each in (repository / folder).rglob("*") if _counts(each))


def _counts(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def _build() -> Path:
    choose_builder(Machine(), os.environ.get("BUILDER", ""))
    platform = choose_platforms(Machine())[0][-1]
    command = [sys.executable, "-m", "tools.image"]
    done = subprocess.run(command, cwd=REPOSITORY, env={**os.environ, "PLATFORMS": platform, "IMAGE": ""})
    if done.returncode:
        raise ImageError("the image could not be built, see above")
    return RESULTS / f"lws-{lws.__version__}-{platform.replace('/', '-')}.tar"


def _age(path: Path) -> float:
    return path.stat().st_mtime
