"""`make image`: leftovers of killed runs, and errors in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.image import __main__ as program
from tools.image.builders import Builder, Machine
from tools.image.steps import ImageError, LackingError, Steps

BARE = Machine(installed=lambda _: False, root=False)


def test_remnants_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    for name in (".base-x/root/etc", ".build-y", "store"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "base-amd64-key.tar").touch()
    program.clear_remains(tmp_path, mounts=Path("/dev/null"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base-amd64-key.tar", "store"]


def test_nothing_is_removed_below_a_mount(tmp_path: Path) -> None:
    cache, mounts = tmp_path / "cache", tmp_path / "mounts"
    (cache / ".base-x/proc").mkdir(parents=True)
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nproc {cache}/.base-x/proc proc rw 0 0\n")
    with pytest.raises(ImageError, match=rf"`umount {cache}/\.base-x/proc`"):
        program.clear_remains(cache, mounts)
    assert (cache / ".base-x/proc").exists()


def test_an_error_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "Machine", lambda: BARE)
    monkeypatch.delenv("BUILDER", raising=False)
    assert program.main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("make image: nothing here builds images (docker: not installed;")


def test_the_cache_is_in_the_cache_directory() -> None:
    assert program.cache_directory({"XDG_CACHE_HOME": "/caches"}) == Path("/caches/lws-image")


class Answering(Steps):
    """Steps that run nothing; only command lines with these words succeed."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def run(self, step: str, command: list[str]) -> None:
        raise AssertionError(f"nothing is to be run: {command}")

    def succeeds(self, command: list[str]) -> bool:
        return any(word in command for word in self._words)


def workshop(cache: Path, steps: Steps, machine: Machine = BARE) -> program.Workshop:
    return program.Workshop(machine, Builder("buildah", cache / "store", cache / "scratch"), steps, cache)


@pytest.mark.parametrize("word", ["inspect", "pull"])
def test_the_base_of_a_registry_is_used_if_available(tmp_path: Path, word: str) -> None:
    assert workshop(tmp_path, Answering(word)).base("linux/amd64") == "docker.io/library/python:3.12-slim"


def test_a_requested_base_is_not_substituted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASE", "registry.example.com/python:3")
    with pytest.raises(
        ImageError, match=r"BASE=registry\.example\.com/python:3 is neither here nor can it be pulled"
    ):
        workshop(tmp_path, Answering()).base("linux/amd64")


@pytest.mark.parametrize(
    ("machine", "lacking"),
    [
        (BARE, "a base needs debootstrap: `apt-get install debootstrap`"),
        (Machine(installed=lambda _: True, root=False), "needs root: `sudo make image`"),
    ],
    ids=["programs", "root"],
)
def test_missing_requirements_of_a_debian_base_are_reported(
    tmp_path: Path, machine: Machine, lacking: str
) -> None:
    with pytest.raises(LackingError, match=lacking):
        workshop(tmp_path, Answering(), machine).base("linux/amd64")
