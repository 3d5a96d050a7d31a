"""tools.release.packages: the same files give the same bytes on every machine."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

from tools.release.packages import archive, checksums, files_below

FILES = {"b/c": b"two", "a": b"one"}


def test_an_archive_is_reproducible_without_an_owner() -> None:
    content = archive(FILES, 1_700_000_000, frozenset({"a"}))
    assert content == archive(dict(reversed(FILES.items())), 1_700_000_000, frozenset({"a"}))
    assert content != archive(FILES, 1_700_000_001, frozenset({"a"}))
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        entries = tar.getmembers()
    assert [(entry.name, entry.mode, entry.mtime, entry.uid, entry.uname) for entry in entries] == [
        ("a", 0o755, 1_700_000_000, 0, ""),
        ("b/c", 0o644, 1_700_000_000, 0, ""),
    ]


def test_an_archive_contains_the_files(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_bytes(b"two")
    (tmp_path / "a").write_bytes(b"one")
    assert files_below(tmp_path) == FILES
    assert checksums(tmp_path).splitlines() == [
        f"{hashlib.sha256(b'one').hexdigest()}  a",
        f"{hashlib.sha256(b'two').hexdigest()}  b/c",
    ]
