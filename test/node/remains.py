"""List what a node leaves on the machine, and the processes that still use its former namespaces."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from tools.realnode.guard import CGROUPS, PREFIX
from tools.realnode.inside import KERNEL_SETTINGS
from tools.realnode.preparation import SystemPrograms
from tools.realnode.settings import SOCKET

_FOLDERS = ("/var/lib/cni", "/var/lib/kubelet", "/run/netns")
_COUNTERS = re.compile(r"packets \d+ bytes \d+")


def state_of_machine(system: SystemPrograms) -> dict[str, object]:
    """Return everything on the machine that a node creates, and everything that it must not change."""
    cgroups = [*CGROUPS.glob(f"{PREFIX}-*"), *CGROUPS.glob(f"*/{PREFIX}-*")]
    return {
        "mounts": sorted(_mounts()),
        "namespaces": sorted(_kept_by_mounts()),
        "devices": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "chains": _chains(system),
        "tables": _text(Path("/proc/net/ip_tables_names")),
        "cgroups": sorted(map(str, cgroups)),
        "files": sorted(path.name for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*")),
        "folders": [folder for folder in _FOLDERS if Path(folder).exists()],
        "settings": {name: _text(Path(f"/proc/sys/{name}")) for name in KERNEL_SETTINGS},
        "forwarding": _text(Path("/proc/sys/net/ipv4/ip_forward")),
        "processes": sorted(_processes()),
    }


def namespaces_below(pid: int) -> set[str]:
    """Return the namespaces of a process and its descendants that are not ours, such as net:[4026532008]."""
    ours = set(_namespaces(os.getpid()))
    return {namespace for process in _family(pid) for namespace in _namespaces(process)} - ours


def users_of(namespaces: Collection[str]) -> list[str]:
    """Return processes in these namespaces, and processes and mounts that keep one of them."""
    users = [namespace for namespace in _kept_by_mounts() if namespace in namespaces]
    for path in Path("/proc").glob("[0-9]*"):
        held = {*_namespaces(int(path.name)), *_links(path / "fd")}
        users += [f"{path.name} {namespace}" for namespace in held & set(namespaces)]
    return users


def _family(pid: int) -> Iterator[int]:
    yield pid
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _text(listed).split():
            yield from _family(int(child))


def _namespaces(pid: int) -> Iterator[str]:
    yield from _links(Path(f"/proc/{pid}/ns"))


def _links(folder: Path) -> Iterator[str]:
    """Yield the targets of the links in a folder, without links that have disappeared."""
    with suppress(OSError):
        for link in folder.iterdir():
            with suppress(OSError):
                yield os.readlink(link)


def _kept_by_mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - nsfs " in line:
            yield line.split()[3]


def _chains(system: SystemPrograms) -> str:
    """Return the chains of packet filters, without counters."""
    libraries = os.pathsep.join(map(str, system.libraries))
    environment = {**os.environ, **({"LD_LIBRARY_PATH": libraries} if libraries else {})}
    listed = subprocess.run(
        [system.paths["nft"], "list", "ruleset"], env=environment, capture_output=True, text=True, check=True
    )
    return _COUNTERS.sub("", listed.stdout)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _mounts() -> Iterator[str]:
    """Yield mounts like those of a node; other mounts may change meanwhile."""
    places = {"/run", "/var/lib", "/var/log", *(f"/proc/sys/{name}" for name in KERNEL_SETTINGS)}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if PREFIX in line or line.split()[1] in places:
            yield line


def _processes() -> Iterator[str]:
    """Yield the processes of a node: they name its files, or its containerd."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if PREFIX.encode() in command or SOCKET.encode() in command:
            yield f"{path.name} {command[:60]!r}"
