"""tools.localcluster.component: a child process is started, stopped, restarted, and reported to the guard."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tools.localcluster.component import Blueprint, Component, ComponentError, Guard, wait_until

WAITS = "import sys; print('working', flush=True); sys.stdin.read(); import time; time.sleep(60)"
DIES = "raise SystemExit('wrong flag')"


class RecordingGuard(Guard):
    """A guard that starts nothing and only records its calls."""

    def __init__(self) -> None:
        self.guarded: list[int] = []

    def watch(self, pid: int) -> None:
        self.guarded.append(pid)

    def forget(self, pid: int) -> None:
        self.guarded.remove(pid)


def test_a_killed_guard_does_not_prevent_a_stop(tmp_path: Path) -> None:
    guard = Guard(tmp_path)
    part = make(tmp_path, guard, WAITS)
    guard._child.kill()
    guard._child.wait()
    part.start()
    part.stop()
    guard.close()
    assert part.pid is None


@pytest.fixture
def guard() -> RecordingGuard:
    return RecordingGuard()


def make(tmp_path: Path, guard: Guard, script: str) -> Component:
    command = [sys.executable, "-c", script]
    return Component(Blueprint("part", command, tmp_path / "part.log"), guard)


def test_start_and_stop(tmp_path: Path, guard: RecordingGuard) -> None:
    part = make(tmp_path, guard, WAITS)
    assert part.pid is None
    part.start()
    part.wait_healthy(5)
    assert guard.guarded == [part.pid]
    with pytest.raises(ComponentError, match="part is already running"):
        part.start()
    part.stop()
    part.stop()
    assert (part.pid, guard.guarded) == (None, [])
    with pytest.raises(ComponentError, match="part is not running"):
        part.send_signal(signal.SIGSTOP)


def test_stopped_by_signal_can_still_be_ended(tmp_path: Path, guard: RecordingGuard) -> None:
    part = make(tmp_path, guard, WAITS)
    part.start()
    part.send_signal(signal.SIGSTOP)
    part.stop()
    assert part.pid is None


def test_an_exit_during_the_start_shows_the_log(tmp_path: Path, guard: RecordingGuard) -> None:
    part = make(tmp_path, guard, DIES)
    part.start()
    assert part._child is not None
    part._child.wait()
    with pytest.raises(ComponentError, match=r"(?s)part ended while starting.*wrong flag"):
        part.wait_healthy(5)
    part.revive()
    assert part.pid is None
    part.stop()


def test_only_unexpected_exits_are_restarted(tmp_path: Path, guard: RecordingGuard) -> None:
    part = make(tmp_path, guard, WAITS)
    part.start()
    part.wait_healthy(5)
    first = part.pid
    part.revive()
    assert part.pid == first
    assert part._child is not None
    part._child.kill()
    part._child.wait()
    part.revive()
    assert part.pid not in (None, first)
    assert guard.guarded == [part.pid]
    part.kill()
    part.revive()
    assert guard.guarded == []
    assert not part.pid


def test_waiting_ends_with_the_condition_or_the_timeout() -> None:
    answers = iter([False, True])
    wait_until(lambda: next(answers), "never said", 5)
    with pytest.raises(ComponentError, match=r"^no nodes within 0 s$"):
        wait_until(lambda: False, "no nodes", 0)
