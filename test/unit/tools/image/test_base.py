"""The base that is built from Debian packages: its key, and how a broken one is replaced."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest

from tools.image.base import (
    REGISTRY_BASE,
    DebianBase,
    add_to_builder,
    debootstrap_command,
    is_whole,
    make_archive,
)
from tools.image.builders import Builder
from tools.image.steps import ImageError, Steps

RELEASE = """Origin: Debian
MD5Sum:
 0 1 main/binary-amd64/Packages.xz
SHA256:
 {amd64} 1 main/binary-amd64/Packages.xz
 {arm64} 1 main/binary-arm64/Packages.xz
"""


def base(cache: Path, security: str = "a", architecture: str = "amd64") -> DebianBase:
    def fetch(address: str) -> str:
        return RELEASE.format(amd64=security if "security" in address else "m", arm64="z")

    return DebianBase(cache, architecture, fetch)


def keep(debian: DebianBase, content: bytes = b"root file system") -> Path:
    """Create the archive as if it had been built before."""
    archive = debian.archive(debian.key())
    archive.write_bytes(content)
    archive.with_suffix(".sha256").write_text(hashlib.sha256(content).hexdigest())
    return archive


def test_the_same_packages_have_the_same_key_and_an_update_has_another(tmp_path: Path) -> None:
    keys = {base(tmp_path).key(), base(tmp_path).key()}
    assert len(keys) == 1
    assert base(tmp_path, security="b").key() not in keys
    assert base(tmp_path, architecture="arm64").key() not in keys


def test_a_response_of_a_proxy_is_not_a_release_file(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"is there a proxy in between\?"):
        DebianBase(tmp_path, "amd64", lambda _: "<html>log in</html>").key()


class Recorded(Steps):
    """Steps that run nothing. present: whether commands succeed."""

    def __init__(self, present: bool) -> None:
        self.present, self.ran = present, list[tuple[str, list[str]]]()

    def run(self, step: str, command: list[str]) -> None:
        self.ran.append((step, command))

    def succeeds(self, command: list[str]) -> bool:
        return self.present


class Making(Recorded):
    """Steps that create the files that their commands would."""

    def run(self, step: str, command: list[str]) -> None:
        super().run(step, command)
        if "debootstrap" in command:
            (Path(command[-2]) / "etc" / "apt").mkdir(parents=True)
        elif command[0] == "tar":
            Path(command[command.index("-cf") + 1]).write_bytes(b"made anew")


BUILDER = Builder("buildah", Path("/store"), Path("/run"))


def test_a_base_in_the_store_is_reused(tmp_path: Path) -> None:
    steps = Recorded(present=True)
    tag = add_to_builder(base(tmp_path), "key", BUILDER, steps)
    assert (tag, steps.ran) == ("localhost/lws-base:trixie-amd64-key", [])


def test_a_cached_archive_is_imported_into_the_store(tmp_path: Path) -> None:
    debian = base(tmp_path)
    keep(debian)
    steps = Recorded(present=False)
    add_to_builder(debian, debian.key(), BUILDER, steps)
    ((step, command),) = steps.ran
    assert (step, command[0]) == ("base: into the builder", "unshare")
    assert f"--tag=localhost/lws-base:trixie-amd64-{debian.key()}" in command
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".sha256", ".tar"]


def test_a_truncated_archive_is_rebuilt(tmp_path: Path) -> None:
    debian = base(tmp_path)
    archive = keep(debian)
    assert is_whole(archive)
    os.truncate(archive, 3)
    assert not is_whole(archive)
    steps = Making(present=False)
    assert make_archive(debian, debian.key(), steps) == archive
    commands = [command for _, command in steps.ran]
    assert "debootstrap" in commands[0] and {command[0] for command in commands[:-1]} == {"unshare"}
    assert archive.read_bytes() == b"made anew" and is_whole(archive)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        archive.with_suffix(".sha256").name,
        archive.name,
    ]


def test_the_newest_cached_base_is_used_if_debian_is_unreachable(tmp_path: Path) -> None:
    assert base(tmp_path).newest() == ""
    for age, key in enumerate(("new", "old")):
        os.utime(_touched(tmp_path / f"base-amd64-{key}.tar"), (100 - age, 100 - age))
    assert base(tmp_path).newest() == "new"


def _touched(path: Path) -> Path:
    path.touch()
    return path


def test_the_base_is_a_minimal_debian() -> None:
    command = debootstrap_command(Path("/root-files"), "arm64")
    assert command[:2] == ["debootstrap", "--variant=minbase"]
    assert "--arch=arm64" in command


def test_the_base_of_a_registry_is_named_in_the_dockerfile() -> None:
    dockerfile = (Path(__file__).resolve().parents[4] / "Dockerfile").read_text()
    (version,) = re.findall(r"^ARG PYTHON_VERSION=(\S+)$", dockerfile, re.MULTILINE)
    (named,) = re.findall(r"^ARG BASE=(\S+)$", dockerfile, re.MULTILINE)
    assert named.replace("${PYTHON_VERSION}", version) == REGISTRY_BASE
