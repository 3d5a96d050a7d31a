"""Clean up after a node, however it ended. This file runs as a script, outside of the namespaces.

It reads the node's name from stdin, waits until the node's owner ends, and removes its cgroups and files;
mounts, devices and processes end with the namespaces. It imports no other file of ours, to stay small.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "lws-node"
CGROUPS = Path("/sys/fs/cgroup")
# The time for which to wait for killed processes to end.
_SECONDS = 20.0
_POLL_SECONDS = 0.05


def started_at(pid: int, proc: Path = Path("/proc")) -> str:
    """Return when a process started, in ticks since the machine started; empty if there is none."""
    try:
        return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def node_name(pid: int, proc: Path = Path("/proc")) -> str:
    """Return the name of the node that process `pid` owns. No other process ever gets the same name."""
    return f"{PREFIX}-{pid}-{started_at(pid, proc)}"


def is_owned(name: str, proc: Path = Path("/proc")) -> bool:
    """Report whether the process that owns the node of this name is alive."""
    pid, _, start = name.removeprefix(f"{PREFIX}-").partition("-")
    return pid.isdigit() and bool(start) and started_at(int(pid), proc) == start


def cgroups_of(name: str, root: Path = CGROUPS) -> list[Path]:
    """Return the topmost cgroups of a node, one in each hierarchy."""
    return [path for path in (root / name, *root.glob(f"*/{name}")) if path.is_dir()]


def state_of(name: str) -> Path:
    """Return the folder of a node's files."""
    return Path(tempfile.gettempdir()) / name


def remains(root: Path = CGROUPS, proc: Path = Path("/proc")) -> Iterator[str]:
    """Yield the names of nodes of which cgroups or files are left although their owner has ended."""
    pattern = f"{PREFIX}-*"
    paths = [*root.glob(pattern), *root.glob(f"*/{pattern}"), *state_of(PREFIX).parent.glob(pattern)]
    yield from sorted({path.name for path in paths if not is_owned(path.name, proc)})


def remove(name: str, root: Path = CGROUPS) -> None:
    """Remove everything that a node has left; raises OSError if something cannot be removed."""
    deadline = time.monotonic() + _SECONDS
    for top in cgroups_of(name, root):
        while top.exists():
            try:
                _remove_cgroups(top)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
    if state_of(name).exists():
        shutil.rmtree(state_of(name))


def _remove_cgroups(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        for pid in (Path(folder) / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        os.rmdir(folder)


def main() -> None:
    """Wait for the owner to end, and then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    name = sys.stdin.readline().strip()
    sys.stdin.read()
    remove(name)


if __name__ == "__main__":
    main()
