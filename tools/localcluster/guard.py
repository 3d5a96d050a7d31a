"""Clean up after a process that started a cluster and was killed. Runs as a script of its own.

On stdin: the state directory, then "+PID" and "-PID" as components come and go, until the parent ends.
Imports nothing of ours, so that it stays small.
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
    """Return the process ids that were announced and not taken back, the youngest first."""
    alive: dict[int, None] = {}
    for line in lines:
        pid = int(line[1:])
        if line.startswith("+"):
            alive[pid] = None
        else:
            alive.pop(pid, None)
    return list(reversed(alive))


def belongs(pid: int, state: str, proc: Path = Path("/proc")) -> bool:
    """Tell whether `pid` lives and names `state` on its command line: ids are used again by strangers."""
    try:
        command = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False
    return state.encode() in command


def end(pids: Iterable[int], state: str) -> None:
    """Ask each process to stop, wait, then kill what is left."""
    left = [pid for pid in pids if belongs(pid, state)]
    _signal(left, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [pid for pid in left if belongs(pid, state)]
    _signal(left, signal.SIGKILL)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def main() -> None:
    """Wait for the parent's end, then end what it left behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    state = sys.stdin.readline().strip()
    end(surviving(sys.stdin), state)
    shutil.rmtree(state, ignore_errors=True)


if __name__ == "__main__":
    main()
