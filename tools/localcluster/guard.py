"""Clean up after a process that started a cluster and was killed. This file runs as a script of its own.

It reads from stdin, until the parent ends: the state directory, then "+PID" for each started and "-PID" for
each stopped component. It imports no other file of this repository, so that it stays small.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

GRACE_SECONDS = 3.0


def surviving(lines: Iterable[str]) -> list[int]:
    """Return the IDs of processes that were announced and not taken back, youngest first."""
    alive: dict[int, None] = {}
    for line in lines:
        pid = int(line[1:])
        if line.startswith("+"):
            alive[pid] = None
        else:
            alive.pop(pid, None)
    return list(reversed(alive))


def belongs(pid: int, state: str, proc: Path = Path("/proc")) -> bool:
    """Report whether process `pid` still names `state` on its command line: the system reuses IDs."""
    try:
        command = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False
    return state.encode() in command


def end(pids: Iterable[int], state: str) -> None:
    """Send SIGTERM to each process, wait, and then kill the remaining ones."""
    remaining = [pid for pid in pids if belongs(pid, state)]
    _signal(remaining, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while remaining and time.monotonic() < deadline:
        time.sleep(0.05)
        remaining = [pid for pid in remaining if belongs(pid, state)]
    _signal(remaining, signal.SIGKILL)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def main() -> None:
    """Wait for the parent to end, and then end the processes that it left behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    state = sys.stdin.readline().strip()
    end(surviving(sys.stdin), state)
    shutil.rmtree(state, ignore_errors=True)


if __name__ == "__main__":
    main()
