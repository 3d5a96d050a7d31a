"""Answers: can this machine run a node at all? Asked before anything takes long.

In: the machine. Out: all that is missing, a line each with what to do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

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


def lacks(machine: Machine, *folders: Path) -> list[str]:
    """Return all that keeps a node from running; `folders` are those that it fills."""
    found = [
        f"{program} is not installed: install {package}"
        for program, package in _PROGRAMS.items()
        if not machine.installed(program)
    ]
    if not machine.root:
        found.insert(0, "a real node needs root: run it by sudo")
    if not found:
        # Without root or a program these fail for that reason alone.
        found += [*_lacking_namespaces(machine), *_lacking_cgroups(machine.cgroups)]
    if _version(machine.kernel) < _OLDEST_KERNEL:
        oldest = ".".join(map(str, _OLDEST_KERNEL))
        found.append(f"kube-proxy needs Linux {oldest} or newer, and this is {machine.kernel}")
    if not machine.kernel_log.exists():
        found.append(f"the kubelet reads {machine.kernel_log}, and it is not there: {_CONTAINER}")
    return [*found, *(each for folder in folders for each in _lacking_space(machine, folder))]


def can_overlay(folder: Path, machine: Machine) -> bool:
    """Can file systems be laid over others below `folder`? Not where it is such a one itself."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for name in ("lower", "upper", "work", "merged"):
            (Path(scratch) / name).mkdir()
        options = f"lowerdir={scratch}/lower,upperdir={scratch}/upper,workdir={scratch}/work"
        mount = ["mount", "-t", "overlay", "-o", options, "overlay", f"{scratch}/merged"]
        return machine.succeeds(["unshare", "--mount", "--propagation", "private", *mount])


def _version(release: str) -> tuple[int, ...]:
    """The first two numbers of 6.1.0-13-amd64, 5.15+ or 6.12-rc1."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return tuple(map(int, found.groups())) if found else ()


def _lacking_namespaces(machine: Machine) -> Iterator[str]:
    if not machine.succeeds([*NAMESPACES, "true"]):
        yield f"this machine allows no namespaces (`{' '.join(NAMESPACES)}`): {_CONTAINER}"
    elif not machine.succeeds([*NAMESPACES, "sh", "-c", _NETWORK]):
        yield "the kernel makes no veth devices: load its module, `modprobe veth`"


def _lacking_cgroups(root: Path) -> Iterator[str]:
    listed = root / "cgroup.controllers"
    if listed.exists():
        controllers, places = set(listed.read_text().split()), [root]
    else:
        controllers = {path.name for path in root.glob("*") if (path / "cgroup.procs").exists()}
        controllers |= {part for name in controllers for part in name.split(",")}
        places = [root / name for name in _CONTROLLERS if (root / name).exists()]
    missing = [name for name in _CONTROLLERS if name not in controllers]
    if missing:
        yield f"{root} has no cgroup controller {', '.join(missing)}: mount it; {_CONTAINER}"
        return
    for place in places:
        probe = place / f"{PREFIX}-probe-{uuid.uuid4().hex}"
        try:
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            yield f"no cgroup can be made in {place} ({error.strerror}): {_CONTAINER}"


def _lacking_space(machine: Machine, folder: Path) -> Iterator[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if machine.free(folder) < _NEEDED_BYTES:
            free, needed = (f"{each / 1e9:.1f} GB" for each in (machine.free(folder), _NEEDED_BYTES))
            yield f"{folder} has {free} free, and a node needs {needed}: free some"
    except OSError as error:
        yield f"{folder} cannot be used ({error.strerror}): make it writable"
