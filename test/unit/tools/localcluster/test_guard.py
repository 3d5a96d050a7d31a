"""tools.localcluster.guard: which processes are ended after the parent has exited."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.localcluster import guard
from tools.localcluster.guard import belongs, surviving

SLEEP = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.mark.parametrize(
    ("lines", "pids"),
    [
        ([], []),
        (["+1\n", "+2\n", "+3\n"], [3, 2, 1]),
        (["+1\n", "+2\n", "-1\n", "+4\n"], [4, 2]),
        (["-7\n", "+1\n"], [1]),
    ],
    ids=["none", "youngest first", "stopped in between", "unknown is ignored"],
)
def test_surviving(lines: list[str], pids: list[int]) -> None:
    assert surviving(lines) == pids


@pytest.mark.parametrize(
    ("command", "expected"),
    [(b"etcd\0--data-dir=/tmp/state-1/etcd\0", True), (b"vim\0notes\0", False), (b"", False), (None, False)],
    ids=["ours", "a stranger", "a zombie", "no such process"],
)
def test_belongs(command: bytes | None, expected: bool, tmp_path: Path) -> None:
    if command is not None:
        (tmp_path / "12").mkdir()
        (tmp_path / "12" / "cmdline").write_bytes(command)
    assert belongs(12, "/tmp/state-1", proc=tmp_path) is expected


def test_the_guard_ends_its_processes_and_removes_the_directory_after_the_parent(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with (
        subprocess.Popen([*SLEEP, str(state)], stdin=subprocess.PIPE) as ours,
        subprocess.Popen(SLEEP, stdin=subprocess.PIPE) as stranger,
    ):
        instructions = f"{state}\n+{ours.pid}\n+{stranger.pid}\n"
        subprocess.run(
            [sys.executable, "-I", guard.__file__], input=instructions, text=True, check=True, timeout=120
        )
        assert ours.wait(60) != 0
        assert stranger.poll() is None
    assert not state.exists()
