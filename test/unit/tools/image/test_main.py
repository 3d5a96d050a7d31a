"""`make image` itself: what runs that were killed have left, and errors as one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.image import __main__ as program
from tools.image.builders import Machine
from tools.image.errors import ImageError


def test_what_a_killed_run_has_left_is_taken_away(tmp_path: Path) -> None:
    for name in (".base-x/root/etc", ".build-y", "store"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "base-amd64-key.tar").touch()
    program.clear_remains(tmp_path, mounts=Path("/dev/null"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base-amd64-key.tar", "store"]


def test_nothing_is_taken_away_below_a_mount(tmp_path: Path) -> None:
    cache, mounts = tmp_path / "cache", tmp_path / "mounts"
    (cache / ".base-x/proc").mkdir(parents=True)
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nproc {cache}/.base-x/proc proc rw 0 0\n")
    with pytest.raises(ImageError, match=rf"`umount {cache}/\.base-x/proc`"):
        program.clear_remains(cache, mounts)
    assert (cache / ".base-x/proc").exists()


def test_an_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    bare = Machine(installed=lambda _: False, root=False)
    monkeypatch.setattr(program, "Machine", lambda: bare)
    monkeypatch.delenv("BUILDER", raising=False)
    assert program.main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("make image: nothing here builds images (docker: not installed;")


def test_the_cache_is_where_caches_are() -> None:
    assert program.cache_directory({"XDG_CACHE_HOME": "/caches"}) == Path("/caches/lws-image")
