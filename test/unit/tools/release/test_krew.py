"""tools.release.packages: the archive holds what the launcher needs, and the manifest names it."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from tools.release.packages import PROGRAM, manifest, plugin
from tools.release.plugin import launcher

ARCHIVE = plugin({"lws_api-1.0.0-py3-none-any.whl": b"wheel"}, 1_700_000_000)


def test_the_archive_contains_the_files_of_the_launcher() -> None:
    with tarfile.open(fileobj=io.BytesIO(ARCHIVE)) as tar:
        entries = {member.name: member.mode for member in tar.getmembers()}
    assert entries == {
        "LICENSE": 0o644,
        PROGRAM: 0o755,
        "requirements.txt": 0o644,
        "wheels/lws_api-1.0.0-py3-none-any.whl": 0o644,
    }


def test_the_manifest_names_archive_and_checksum() -> None:
    document = yaml.safe_load(manifest("a.tar.gz", ARCHIVE, "1.0.0", "https://example.com/lws"))
    (platform,) = document["spec"]["platforms"]
    assert platform["uri"] == "https://example.com/lws/releases/download/v1.0.0/a.tar.gz"
    assert platform["sha256"] == hashlib.sha256(ARCHIVE).hexdigest()
    assert (platform["bin"], document["metadata"]["name"], document["spec"]["version"]) == (
        PROGRAM,
        "lws",
        "v1.0.0",
    )
    # krew's index rejects longer ones.
    assert len(document["spec"]["shortDescription"]) <= 50


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(ARCHIVE)) as tar:
        tar.extractall(tmp_path / "v1.0.0", filter="data")
    return tmp_path / "v1.0.0"


def test_an_existing_environment_is_used(unpacked: Path) -> None:
    programs = unpacked / "environment" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs / PROGRAM).write_text("import sys\nprint(sys.argv)\nsys.exit(3)\n")
    done = subprocess.run([unpacked / PROGRAM, "status", "a b"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, f"{[str(programs / PROGRAM), 'status', 'a b']}\n")


def test_an_old_interpreter_is_rejected_with_the_requirement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launcher, "LEAST", (99, 0))
    assert launcher.main() == 1
    assert "needs Python 99.0 or newer" in capsys.readouterr().err
