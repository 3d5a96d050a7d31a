"""If containerd rejects an archive, the error is one line that says what to do."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from test.unit.tools.image.archives import write_archive
from tools.realnode.cluster import RealCluster
from tools.realnode.kit import Kit, NodeError
from tools.realnode.settings import SOCKET

README = Path(__file__).parents[4] / "README.md"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(tmp_path / "lws.tar", {"manager": os.urandom(50_000)})


def node(folder: Path, stderr: str) -> RealCluster:
    """Return a node whose containerd client fails with these words."""
    client = folder / "ctr"
    client.write_text(f"#!/bin/sh\necho '{stderr}' >&2\nexit 1\n")
    client.chmod(0o755)
    programs = {name: str(client) for name in ("ctr", "containerd-shim-runc-v2", "runc", "nft")}
    return RealCluster(Kit("lws-node-7-8", str(folder), True, programs, (), ()))


def test_images_are_imported_with_the_documented_command(archive: Path, tmp_path: Path) -> None:
    message = node(tmp_path, "")
    (tmp_path / "ctr").write_text(f'#!/bin/sh\necho "$CONTAINERD_ADDRESS" "$@" > {tmp_path}/asked\n')
    message.load(archive)
    (command,) = re.findall(r"`sudo ctr (.*) build/image/\S+\.tar`", README.read_text(encoding="utf-8"))
    assert (tmp_path / "asked").read_text() == f"{SOCKET} {command} {archive}\n"


def test_a_full_disk(archive: Path, tmp_path: Path) -> None:
    stderr = f"ctr: failed to extract layer: write {tmp_path}/x: no space left on device: unknown"
    folder = re.escape(str(tmp_path))
    message = (
        rf"^{folder} has [\d.]+ GB free, and the images of {folder}/lws\.tar need about [\d.]+ GB: free some,"
    )
    with pytest.raises(NodeError, match=message) as error:
        node(tmp_path, stderr).load(archive)
    assert "\n" not in str(error.value)


def test_a_truncated_archive(archive: Path, tmp_path: Path) -> None:
    os.truncate(archive, 20_000)
    with pytest.raises(NodeError, match=r"lws\.tar is truncated .*: start again, and it is made anew$"):
        node(tmp_path, "ctr: unexpected EOF").load(archive)


def test_other_errors_have_the_message_of_containerd(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"could not be imported: .*connection refused$") as error:
        node(tmp_path, "ctr: failed\n  connection refused").load(archive)
    assert "\n" not in str(error.value)
