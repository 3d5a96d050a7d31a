"""Answers: which archive holds an image of the sources as they are now?

In: the files that the Dockerfile takes. Out: an archive in the cache, with its bill of materials beside it,
built where there is no whole one of the same files. Raises LackingError where this machine cannot build,
ImageError where a build fails.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from tools.deployment import REPOSITORY
from tools.image.__main__ import build_all, cache_directory
from tools.image.archive import is_kept
from tools.image.builders import Machine, choose_platforms

_FILES = ("Dockerfile", "LICENSE", "README.md", "pyproject.toml")
_FOLDERS = ("requirements", "api", "lws", "tools/image/inside")
_KEPT = 3


def current_archive() -> Path:
    """Return an archive for this machine's platform."""
    cache = cache_directory()
    archive = cache / f"current-{sources_key(REPOSITORY)}.tar"
    if not (bill_beside(archive).exists() and is_kept(archive)):
        built, unfinished = _build(), archive.with_suffix(".unfinished")
        shutil.copyfile(bill_beside(built), bill_beside(archive))
        shutil.copyfile(built, unfinished)
        unfinished.replace(archive)
        for old in sorted(cache.glob("current-*.tar"), key=_age)[:-_KEPT]:
            bill_beside(old).unlink(missing_ok=True)
            old.unlink()
    return archive


def bill_beside(archive: Path) -> Path:
    """Return where the bill of materials of an archive is."""
    return archive.with_suffix(".cdx.json")


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
    machine = Machine()
    (archive,) = build_all(machine, choose_platforms(machine)[0][-1])
    return archive


def _age(path: Path) -> float:
    return path.stat().st_mtime
