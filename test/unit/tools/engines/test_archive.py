"""tools.engines: an image of engines is built once for the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.unit.tools.image.archives import write_archive
from tools import engines as archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr(archive, "cache_directory", lambda: cache)
    context = {name: tmp_path / name for name in archive.CONTEXT}
    for path in context.values():
        path.write_text("first")
    monkeypatch.setattr(archive, "CONTEXT", context)
    return cache


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    paths = list[Path]()

    def build(path: Path) -> None:
        paths.append(path)
        write_archive(path, {"engine": b"x"})

    monkeypatch.setattr(archive, "_build", build)
    return paths


@pytest.mark.parametrize("name", archive.CONTEXT)
def test_the_archive_is_rebuilt_when_a_file_changes_and_one_is_kept(
    cache: Path, builds: list[Path], name: str
) -> None:
    first = archive.engines_archive()
    assert archive.engines_archive() == first
    assert builds == [first]
    archive.CONTEXT[name].write_text("second")
    second = archive.engines_archive()
    assert builds == [first, second]
    assert list(cache.iterdir()) == [second]


def test_a_broken_archive_is_rebuilt(cache: Path, builds: list[Path]) -> None:
    path = archive.engines_archive()
    path.write_bytes(path.read_bytes()[:100])
    assert archive.engines_archive() == path
    assert builds == [path, path]


def test_every_file_of_the_image_exists() -> None:
    copied = [
        words[1]
        for words in map(str.split, archive.CONTEXT["Dockerfile"].read_text().splitlines())
        if words[:1] == ["COPY"]
    ]
    assert {"Dockerfile", *copied} == set(archive.CONTEXT)
    assert all(path.is_file() for path in archive.CONTEXT.values())
