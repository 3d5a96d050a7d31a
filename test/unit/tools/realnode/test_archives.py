"""tools.realnode.images: an image of one program, in the format that image loaders read."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import pytest

from test.unit.tools.image.archives import tar_of
from tools.image.archive import read_image
from tools.realnode.images import (
    MEMBERS,
    PAUSE,
    SmallImage,
    small_images,
    write_archive,
    write_archives,
    write_layout,
)


def program(folder: Path, name: str = "pause") -> Path:
    path = folder / name
    path.write_bytes(f"\x7fELF {name}".encode())
    return path


def test_the_archive_contains_the_program_and_starts_it(tmp_path: Path) -> None:
    archive = tmp_path / "one.tar"
    write_archive(SmallImage(("localhost/one:1",), program(tmp_path), ("serve",), {"a": "b"}), archive)
    image = read_image(archive)
    assert image.names == ("localhost/one:1",)
    assert image.config["config"] == {
        "Entrypoint": ["/pause", "serve"],
        "WorkingDir": "/",
        "Labels": {"a": "b"},
    }
    ((path, entry, content),) = image.files()
    assert (path, entry.mode, content) == ("pause", 0o755, b"\x7fELF pause")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.tar", "pause"]


def test_archives_are_reproducible(tmp_path: Path) -> None:
    image = SmallImage(("localhost/one:1", "localhost/one:2"), program(tmp_path))
    for name in ("first.tar", "second.tar"):
        write_archive(image, tmp_path / name)
    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()


def test_a_foreign_image_is_copied_unchanged(tmp_path: Path) -> None:
    layers = [gzip.compress(tar_of({name: name.encode()})) for name in ("first", "second")]
    config = {"architecture": "amd64", "config": {"Env": ["A=b"]}}
    write_layout(["localhost/one:other"], config, layers, tmp_path / "other.tar")
    image = read_image(tmp_path / "other.tar")
    assert (image.names, image.config, image.layers) == (("localhost/one:other",), config, tuple(layers))
    with tarfile.open(tmp_path / "other.tar") as tar:
        listed = [tar.extractfile(name) for name in tar.getnames() if name.startswith("blobs")]
        manifest = json.load(next(file for file in reversed(listed) if file))
    assert {layer["mediaType"] for layer in manifest["layers"]} == {
        "application/vnd.oci.image.layer.v1.tar+gzip"
    }


def test_standard_images_are_built_once(tmp_path: Path) -> None:
    programs = {name: program(tmp_path, name) for name in ("pause", "coredns", "member")}
    archives = list(write_archives(programs, tmp_path / "cache"))
    assert len(archives) == len(small_images(programs)) == 2 + len(MEMBERS)
    assert PAUSE in read_image(archives[0]).names
    before = [path.stat().st_mtime_ns for path in archives]
    assert list(write_archives(programs, tmp_path / "cache")) == archives
    assert [path.stat().st_mtime_ns for path in archives] == before


def test_a_broken_archive_is_rebuilt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs = {name: program(tmp_path, name) for name in ("pause", "coredns", "member")}
    first, *_ = write_archives(programs, tmp_path / "cache")
    content = first.read_bytes()
    first.write_bytes(content[:100])
    again, *_ = write_archives(programs, tmp_path / "cache")
    assert again == first and again.read_bytes() == content
    assert "it is made again" in capsys.readouterr().out


def test_each_version_of_the_member_is_a_separate_image(tmp_path: Path) -> None:
    programs = {name: program(tmp_path, name) for name in ("pause", "coredns", "member")}
    configs = [
        read_image(path).config["config"]["Labels"] for path in write_archives(programs, tmp_path / "cache")
    ]
    assert [config["name"] for config in configs if config] == list(MEMBERS)
