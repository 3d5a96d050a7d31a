"""Image archives: what is read from them, and the errors for broken ones."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from test.unit.tools.image.archives import write_archive
from tools.image.archive import Image, add_docker_manifest, is_kept, read_image
from tools.image.steps import ImageError


def test_name_configuration_and_files(tmp_path: Path) -> None:
    image = read_image(write_archive(tmp_path / "lws.tar", {"./manager": b"#!/opt/lws/bin/python"}))
    assert image.names == ("localhost/lws:0.1.0",)
    assert image.config["config"]["User"] == "65532:65532"
    assert [(path, content) for path, _, content in image.files()] == [("manager", b"#!/opt/lws/bin/python")]


def test_the_size_is_the_size_of_a_pull() -> None:
    """Docker stores uncompressed layers; a registry compresses them."""
    assert Image((), {}, (b"\0" * 1_000_000, b"\x1f\x8b" + b"x" * 98)).compressed_size < 1_200


def test_docker_can_load_the_archive(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "lws.tar", {"manager": b"x"})
    add_docker_manifest(path)
    add_docker_manifest(path)
    with tarfile.open(path) as tar:
        names = tar.getnames()
        file = tar.extractfile("manifest.json")
        assert file is not None
        (parts,) = json.load(file)
    assert parts["RepoTags"] == ["localhost/lws:0.1.0"]
    assert {parts["Config"], *parts["Layers"]} < set(names)
    assert names.count("manifest.json") == 1
    assert read_image(path).names == ("localhost/lws:0.1.0",)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.7])
def test_a_truncated_archive_is_reported_in_one_line(tmp_path: Path, part: float) -> None:
    path = write_archive(tmp_path / "lws.tar", {"manager": os.urandom(50_000)})
    os.truncate(path, int(path.stat().st_size * part))
    with pytest.raises(
        ImageError, match=r"^.* is truncated or no archive of an image \([^\n]*\): `make image` again$"
    ):
        read_image(path)


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_only_complete_archives_are_used_from_the_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: float
) -> None:
    path = write_archive(tmp_path / "lws.tar", {"manager": os.urandom(50_000)})
    os.truncate(path, int(path.stat().st_size * part))
    assert is_kept(path) == (part == 1.0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["it is made again"] * (part < 1.0)


def test_a_missing_archive_is_not_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_kept(tmp_path / "lws.tar")
    assert capsys.readouterr().out == ""


def test_a_flipped_bit_is_detected(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "lws.tar", {"manager": b"x"})
    content = bytearray(path.read_bytes())
    content[content.index(b"65532")] ^= 1
    path.write_bytes(content)
    with pytest.raises(ImageError, match="is not what its name says"):
        read_image(path)


def test_a_missing_archive_is_built_by_make(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="is not there: make it with `make image`"):
        read_image(tmp_path / "lws.tar")
