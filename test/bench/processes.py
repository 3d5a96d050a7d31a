"""Measure CPU time, memory and sockets of processes from /proc (proc(5)).

Memory is the proportional set size (PSS), and its part in the C library's heap. A thread records the peak of
the PSS.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_SECONDS = 0.5


def family(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    result, pending = [], [pid]
    while pending:
        process = pending.pop()
        result.append(process)
        pending += children.get(process, [])
    return result


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return user and system time of all threads, and of children that have ended."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(ticks) for ticks in fields[11:15])
    return total / _TICKS


def pss(pids: Iterable[int]) -> int:
    """Return the PSS in bytes."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def heap(pids: Iterable[int]) -> int:
    """Return the resident bytes of the malloc(3) heap; Python allocates its objects elsewhere."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            in_heap = False
            for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
                if not line.split(maxsplit=1)[0].endswith(":"):
                    in_heap = line.endswith("[heap]")
                elif in_heap and line.startswith("Rss:"):
                    total += int(line.split()[1]) * 1024
    return total


def sockets(pids: Iterable[int]) -> int:
    """Return the number of open sockets."""
    total = 0
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                total += os.readlink(descriptor).startswith("socket:")
    return total


class Others:
    """CPU time of all other processes of this machine from now on.

    Children count as ours once they have ended.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._used = _machine_seconds() - _own_seconds()

    def cores(self) -> float:
        """Return CPU seconds per second since the start; other machines on the same host are not visible."""
        used = _machine_seconds() - _own_seconds() - self._used
        return max(0.0, used / (time.monotonic() - self._began))


def _machine_seconds() -> float:
    """Return the CPU seconds of all processes since boot: user, nice, system, irq, softirq."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return sum(fields[index] for index in (0, 1, 2, 5, 6)) / _TICKS


def _own_seconds() -> float:
    return sum(os.times()[:4])


class Peak:
    """The largest PSS since `reset`, of a process that may be replaced."""

    def __init__(self) -> None:
        self._pids: list[int] = []
        self._highest = 0
        self._stop = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def watch(self, pids: list[int]) -> None:
        """Watch these processes from now on."""
        self._pids = pids
        self.reset()

    def reset(self) -> None:
        self._highest = pss(self._pids)

    @property
    def bytes(self) -> int:
        return max(self._highest, pss(self._pids))

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            self._highest = max(self._highest, pss(self._pids))
