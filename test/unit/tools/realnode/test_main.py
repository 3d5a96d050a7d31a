"""python -m tools.realnode: missing requirements skip the tests only on request.

A failed build never does.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.image import __main__ as current
from tools.image.builders import Machine
from tools.image.steps import ImageError
from tools.realnode import preparation
from tools.realnode.__main__ import MISSING, main
from tools.realnode.kit import MissingError
from tools.realnode.preparation import SystemPrograms

ASKED = ["--product", "--or-skip", "sh", "-c", f'test -n "${MISSING}" && echo "${MISSING}" > "$TOLD"']


@pytest.fixture
def message_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which the command records its message, on a machine that can run a node.

    There is no image yet.
    """
    monkeypatch.setattr(preparation, "require_machine", lambda _: SystemPrograms({}, ()))
    monkeypatch.setattr(current, "cache_directory", lambda: tmp_path)
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    for name in ("BUILDER", MISSING):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "told"


def test_a_failed_build_is_not_skipped(
    message_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> list[Path]:
        raise ImageError("build for linux/amd64 failed: no such file lws")

    monkeypatch.setattr(current, "build_all", fail)
    assert main(ASKED) == 1
    assert capsys.readouterr().err == "error: build for linux/amd64 failed: no such file lws\n"
    assert not message_file.exists()


def test_missing_requirements_of_a_build_are_written_to_the_file(
    message_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = Machine(installed=lambda _: False, root=True, architecture="x86_64", emulators=Path("none"))
    monkeypatch.setattr(current, "Machine", lambda: bare)
    assert main(ASKED) == 0
    assert message_file.read_text().startswith("nothing here builds images (docker: not installed;")


def test_missing_requirements_of_a_node_are_written_to_the_file(
    message_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> SystemPrograms:
        raise MissingError("a real node needs root: run it by sudo")

    monkeypatch.setattr(preparation, "require_machine", refuse)
    assert main(ASKED) == 0
    assert message_file.read_text() == "a real node needs root: run it by sudo\n"


def test_missing_requirements_are_an_error_without_skip(
    message_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(current, "Machine", lambda: Machine(installed=lambda _: False))
    assert main(["--product", "true"]) == 1
    assert capsys.readouterr().err.startswith("error: nothing here builds images")
    assert MISSING not in os.environ
