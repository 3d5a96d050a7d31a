"""Run a command as the first process in the namespaces: `python -m tools.realnode.inside COMMAND`.

Mounts, addresses and cgroups exist before it starts. Signals are passed on to it, and orphans are reaped.
This process returns its exit code, and the kernel then kills all other processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from tools.localcluster.credentials import SERVICE_RANGE
from tools.realnode.guard import CGROUPS
from tools.realnode.kit import NodeError, read_kit
from tools.realnode.namespaces import FORWARDED
from tools.realnode.settings import NODE_ADDRESS

# The kubelet requires these values and would set them for the whole machine. It leaves alone what already has
# them.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
# Programs of a node write to these folders, whatever their settings.
_WRITTEN = (Path("/var/lib"), Path("/var/log"))
_RUN = Path("/run")


_KERNEL = {"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0"}
_COMMANDS = (
    ("link", "set", "lo", "up"),
    ("address", "add", f"{NODE_ADDRESS}/32", "dev", "lo"),
    # No device has these addresses. kube-proxy translates them once packets have a route.
    ("route", "add", SERVICE_RANGE, "dev", "lo", "src", NODE_ADDRESS),
)
# A new cgroup of cgroup v1 has no values of its own, and accepts no process before it has some.
_INHERITED = ("cpuset.cpus", "cpuset.mems")


def set_up_network(kernel: Path = Path("/proc/sys/net")) -> None:
    """Assign addresses in this network namespace. Raises NodeError."""
    for command in _COMMANDS:
        _run("ip", *command)
    for name, value in _KERNEL.items():
        (kernel / name).write_text(value)


def set_up_mounts(state: Path, overlay: bool) -> None:
    """Hide the folders to which programs write; `overlay` keeps their content visible. Raises NodeError."""
    for directory in _WRITTEN:
        upper, work = (state / "written" / kind / directory.name for kind in ("upper", "work"))
        for folder in (upper, work):
            folder.mkdir(parents=True)
        if overlay:
            options = f"lowerdir={directory},upperdir={upper},workdir={work}"
            _run("mount", "-t", "overlay", "-o", options, "overlay", str(directory))
        else:
            _run("mount", "--bind", str(upper), str(directory))
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(_RUN))
    settings = state / "kernel"
    settings.mkdir()
    for name, value in KERNEL_SETTINGS.items():
        file = settings / name.replace("/", ".")
        file.write_text(f"{value}\n")
        _run("mount", "--bind", str(file), f"/proc/sys/{name}")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NodeError(f"{' '.join(command)} failed: {done.stderr.strip()}")


def hierarchies(root: Path = CGROUPS) -> list[Path]:
    """Return the root of each cgroup hierarchy: the single one of cgroup v2, or all of v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return sorted({path.resolve() for path in root.glob("*") if (path / "cgroup.procs").exists()})


def set_up_cgroups(name: str, root: Path = CGROUPS) -> None:
    """Create the cgroups of a node; raises OSError if that is not permitted."""
    for hierarchy in hierarchies(root):
        cgroup = hierarchy / name
        cgroup.mkdir()
        for setting in _INHERITED:
            if (cgroup / setting).exists() and hierarchy != root:
                (cgroup / setting).write_text((hierarchy / setting).read_text())


def main(command: Sequence[str]) -> int:
    """Prepare the namespaces, run the command, and return its exit code."""
    early: list[int] = []
    for number in FORWARDED:
        signal.signal(number, lambda received, _: early.append(received))
    try:
        kit = read_kit()
        set_up_mounts(kit.folder, kit.overlay)
        set_up_network()
        set_up_cgroups(kit.name)
    except (NodeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    child = subprocess.Popen(command)

    def hand_on(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    for number in FORWARDED:
        signal.signal(number, hand_on)
    for received in early:
        child.send_signal(received)
    return _reap_until_end_of(child.pid)


def _reap_until_end_of(child: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
