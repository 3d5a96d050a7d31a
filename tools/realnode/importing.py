"""Answers: why has containerd not taken an archive, and what is to be done about it?

In: the archive, where containerd keeps images, what its client said. Out: one line.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.image.archive import read_image
from tools.image.errors import ImageError

_FULL = "no space left on device"
# It keeps what it was given and unpacks it beside that; layers shrink to a third when they are compressed.
_TIMES = 5


def reason(archive: Path, folder: Path, said: str) -> str:
    """Return why `archive` could not be imported into `folder`, and what to do."""
    if _FULL in said.lower():
        free, needed = shutil.disk_usage(folder).free, _TIMES * archive.stat().st_size
        return (
            f"{folder} has {_gigabytes(free)} free, and the images of {archive} need about "
            f"{_gigabytes(needed)}: free some, and start again"
        )
    try:
        read_image(archive)
    except ImageError:
        # Caches are checked before a node starts, and never afterwards.
        return f"{archive} is truncated or no archive of an image: start again, and it is made anew"
    return f"{archive} could not be imported: {' '.join(said.split())}"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
