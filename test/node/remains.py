"""List what a node leaves on the machine, and which processes still use the namespaces that it had."""

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
    """What a node makes of every kind there is, and what it must not change."""
    cgroups = [*CGROUPS.glob(f"{PREFIX}-*"), *CGROUPS.glob(f"*/{PREFIX}-*")]
    return {
        "mounts": sorted(_mounts()),
        "namespaces": sorted(_kept_by_mounts()),
        "devices": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "chains": _chains(system),
        "tables": _text(Path("/proc/net/ip_tables_names")),
        "cgroups": sorted(map(str, cgroups)),
        "files": sorted(path.name for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*")),
        "folders": [each for each in _FOLDERS if Path(each).exists()],
        "settings": {name: _text(Path(f"/proc/sys/{name}")) for name in KERNEL_SETTINGS},
        "forwarding": _text(Path("/proc/sys/net/ipv4/ip_forward")),
        "processes": sorted(_processes()),
    }


def namespaces_below(pid: int) -> set[str]:
    """Those of a process and of all below it that are not ours: net:[4026532008] and so on."""
    ours = set(_namespaces(os.getpid()))
    return {each for process in _family(pid) for each in _namespaces(process)} - ours


def users_of(namespaces: Collection[str]) -> list[str]:
    """Processes in these, or with a file that keeps one of them, and mounts that do."""
    found = [each for each in _kept_by_mounts() if each in namespaces]
    for path in Path("/proc").glob("[0-9]*"):
        held = {*_namespaces(int(path.name)), *_links(path / "fd")}
        found += [f"{path.name} {each}" for each in held & set(namespaces)]
    return found


def _family(pid: int) -> Iterator[int]:
    yield pid
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _text(listed).split():
            yield from _family(int(child))


def _namespaces(pid: int) -> Iterator[str]:
    yield from _links(Path(f"/proc/{pid}/ns"))


def _links(folder: Path) -> Iterator[str]:
    """Where the links of a folder lead; nothing of what is gone by now."""
    with suppress(OSError):
        for each in folder.iterdir():
            with suppress(OSError):
                yield os.readlink(each)


def _kept_by_mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - nsfs " in line:
            yield line.split()[3]


def _chains(system: SystemPrograms) -> str:
    """Those of packet filters, without what they count."""
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
    """Those that a node makes; others may come and go meanwhile."""
    places = {"/run", "/var/lib", "/var/log", *(f"/proc/sys/{name}" for name in KERNEL_SETTINGS)}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if PREFIX in line or line.split()[1] in places:
            yield line


def _processes() -> Iterator[str]:
    """Those that belong to a node: they name its files, or its containerd."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if PREFIX.encode() in command or SOCKET.encode() in command:
            yield f"{path.name} {command[:60]!r}"
