"""Answers: can this machine run a node at all? Asked before anything takes long.

In: the machine. Out: nothing, or MissingError, one line: what is missing, and what to do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.realnode.errors import MissingError
from tools.realnode.guard import CGROUPS, PREFIX

NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")

_OLDEST_KERNEL = (5, 13)
_NEEDED_BYTES = 4_000_000_000
_PROGRAMS = {"unshare": "util-linux", "mount": "mount", "nsenter": "util-linux", "ip": "iproute2"}
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
_NETWORK = "ip link set lo up && ip link add one type veth peer name other"
_CONTAINER = "in a container, start it with --privileged"


def _succeeds(command: list[str]) -> bool:
    return not subprocess.run(command, capture_output=True).returncode


@dataclass(frozen=True)
class Machine:
    """What is asked of a machine; tests put answers of their own in."""

    root: bool = hasattr(os, "geteuid") and os.geteuid() == 0
    kernel: str = os.uname().release if hasattr(os, "uname") else ""
    installed: Callable[[str], bool] = lambda program: shutil.which(program) is not None
    succeeds: Callable[[list[str]], bool] = _succeeds
    free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free
    cgroups: Path = CGROUPS
    kernel_log: Path = Path("/dev/kmsg")


def require(machine: Machine, *folders: Path) -> None:
    """Raise MissingError where a node cannot run; `folders` are those that it fills."""
    if not machine.root:
        raise MissingError("a real node needs root: run it by sudo")
    for program, package in _PROGRAMS.items():
        if not machine.installed(program):
            raise MissingError(f"{program} is not installed: install {package}")
    if _version(machine.kernel) < _OLDEST_KERNEL:
        oldest = ".".join(map(str, _OLDEST_KERNEL))
        raise MissingError(f"kube-proxy needs Linux {oldest} or newer, and this is {machine.kernel}")
    if not machine.succeeds([*NAMESPACES, "true"]):
        raise MissingError(f"this machine allows no namespaces (`{' '.join(NAMESPACES)}`): {_CONTAINER}")
    if not machine.succeeds([*NAMESPACES, "sh", "-c", _NETWORK]):
        raise MissingError("the kernel makes no veth devices: load its module, `modprobe veth`")
    _require_cgroups(machine.cgroups)
    if not machine.kernel_log.exists():
        raise MissingError(f"the kubelet reads {machine.kernel_log}, and it is not there: {_CONTAINER}")
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        if machine.free(folder) < _NEEDED_BYTES:
            free, needed = (f"{each / 1e9:.1f} GB" for each in (machine.free(folder), _NEEDED_BYTES))
            raise MissingError(f"{folder} has {free} free, and a node needs {needed}: free some")


def can_overlay(folder: Path, machine: Machine) -> bool:
    """Can file systems be laid over others below `folder`? Not where it is such a one itself."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for name in ("lower", "upper", "work", "merged"):
            (Path(scratch) / name).mkdir()
        options = f"lowerdir={scratch}/lower,upperdir={scratch}/upper,workdir={scratch}/work"
        mount = ["mount", "-t", "overlay", "-o", options, "overlay", f"{scratch}/merged"]
        return machine.succeeds(["unshare", "--mount", "--propagation", "private", *mount])


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())


def _require_cgroups(root: Path) -> None:
    listed = root / "cgroup.controllers"
    if listed.exists():
        controllers, places = set(listed.read_text().split()), [root]
    else:
        controllers = {path.name for path in root.glob("*") if (path / "cgroup.procs").exists()}
        controllers |= {part for name in controllers for part in name.split(",")}
        places = [root / name for name in _CONTROLLERS if (root / name).exists()]
    missing = [name for name in _CONTROLLERS if name not in controllers]
    if missing:
        raise MissingError(f"{root} has no cgroup controller {', '.join(missing)}: mount it; {_CONTAINER}")
    for place in places:
        probe = place / f"{PREFIX}-probe-{uuid.uuid4().hex}"
        try:
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            raise MissingError(
                f"no cgroup can be made in {place} ({error.strerror}): {_CONTAINER}"
            ) from error
