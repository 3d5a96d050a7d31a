"""tools.image.__main__: an image is built once for the same sources."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from test.unit.tools.image.archives import write_archive
from tools.image import __main__ as current
from tools.image.archive import read_image
from tools.image.builders import Machine
from tools.image.steps import LackingError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for name in ("Dockerfile", "LICENSE", "README.md", "pyproject.toml", "api/a.py", "lws/b.py", "docs/c.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.mark.parametrize(
    ("name", "counts"),
    [("Dockerfile", True), ("lws/b.py", True), ("lws/new.py", True), ("docs/c.md", False)],
)
def test_the_key_changes_with_the_sources_of_the_image(repository: Path, name: str, counts: bool) -> None:
    before = current.sources_key(repository)
    (repository / name).write_text("changed")
    assert (current.sources_key(repository) != before) == counts


def test_compiled_files_do_not_count(repository: Path) -> None:
    before = current.sources_key(repository)
    (repository / "lws" / "__pycache__").mkdir()
    (repository / "lws" / "__pycache__" / "b.pyc").touch()
    assert current.sources_key(repository) == before


@pytest.fixture
def builds(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list with one entry for each build; the cache is tmp_path / "cache"."""
    built = write_archive(tmp_path / "built.tar", {"manager": b"image"})
    current.bill_beside(built).write_text("bill")
    (tmp_path / "cache").mkdir()
    done: list[Path] = []
    monkeypatch.setattr(current, "REPOSITORY", repository)
    monkeypatch.setattr(current, "cache_directory", lambda: tmp_path / "cache")
    monkeypatch.setattr(current, "_build", lambda: done.append(built) or built)
    return done


def test_an_image_is_built_once_and_few_are_kept(
    builds: list[Path], repository: Path, tmp_path: Path
) -> None:
    first = current.current_archive()
    assert first == current.current_archive() and read_image(first).names == ("localhost/lws:0.1.0",)
    assert current.bill_beside(first).read_text() == "bill"
    assert len(builds) == 1
    for number in range(5):
        (repository / "lws" / "b.py").write_text(str(number))
        newest = current.current_archive()
    assert len(builds) == 6
    images = list((tmp_path / "cache").iterdir())
    assert len(images) == 6 and {newest, current.bill_beside(newest)} < set(images) and first not in images


def test_a_broken_image_is_rebuilt(builds: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    archive = current.current_archive()
    os.truncate(archive, 100)
    assert current.current_archive() == archive
    assert len(builds) == 2 and read_image(archive)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{archive} is truncated") and line.endswith(": it is made again")


def test_an_image_without_its_sbom_is_rebuilt(builds: list[Path]) -> None:
    current.bill_beside(current.current_archive()).unlink()
    assert current.bill_beside(current.current_archive()).read_text() == "bill"
    assert len(builds) == 2


def test_missing_requirements_are_detected_before_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Machine(installed=lambda _: False, architecture="x86_64", emulators=Path("there-is-none"))
    monkeypatch.setattr(current, "Machine", lambda: bare)
    monkeypatch.delenv("BUILDER", raising=False)
    with pytest.raises(LackingError, match="nothing here builds images"):
        current._build()


def test_one_image_is_built_for_this_machine_with_the_name_in_the_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[object, ...]] = []
    monkeypatch.setenv("IMAGE", "registry.example.com/lws:1")
    monkeypatch.setattr(current, "Machine", lambda: Machine(architecture="x86_64"))
    monkeypatch.setattr(current, "build_all", lambda *given: calls.append(given[1:]) or [tmp_path])
    assert current._build() == tmp_path
    assert calls == [("linux/amd64",)]
