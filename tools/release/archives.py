"""How does a directory become an archive that is the same on every machine?

In: files and a date. Out: a .tar.gz with them in order, owned by nobody, from that date.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def files_below(directory: Path) -> Mapping[str, bytes]:
    """Path below `directory` → content."""
    paths = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def archive(files: Mapping[str, bytes], seconds: int, executable: frozenset[str] = frozenset()) -> bytes:
    """The archive; `seconds` since 1970 is the date of everything in it."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=seconds, filename="") as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), seconds
            entry.mode = 0o755 if name in executable else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def checksums(directory: Path) -> str:
    """A line for each file below `directory`, as `sha256sum --check` reads it."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files_below(directory).items()
    )
