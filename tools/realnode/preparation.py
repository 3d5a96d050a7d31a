"""Check that this machine can run a node, and find, fetch and build what it needs, outside the namespaces."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.localcluster.build import cache_directory, find_programs
from tools.localcluster.components import Options
from tools.localcluster.progress import Report
from tools.localcluster.versions import DEFAULT, VARIABLE, chosen_minor
from tools.realnode.guard import CGROUPS, PREFIX
from tools.realnode.images import build_programs, write_archives
from tools.realnode.kit import Kit, MissingError
from tools.realnode.settings import NODE_ADDRESS

NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")

_OLDEST_KERNEL = (5, 13)
_NEEDED_BYTES = 4_000_000_000
_PROGRAMS = {"unshare": "util-linux", "mount": "mount", "nsenter": "util-linux", "ip": "iproute2"}
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
_NETWORK = "ip link set lo up && ip link add one type veth peer name other"
_CONTAINER = "in a container, start it with --privileged"
# Program → package. The packages have the same names in Debian, Ubuntu and Fedora.
PACKAGES: Mapping[str, str] = {"runc": "runc", "nft": "nftables"}
_FOLDERS = ("usr/sbin", "usr/bin", "sbin", "bin")
_LIBRARIES = ("usr/lib/*-linux-gnu*", "lib/*-linux-gnu*")
# Programs for administrators are not on every user's PATH.
_SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
_CACHE = "realnode"


def _succeeds(command: list[str]) -> bool:
    return not subprocess.run(command, capture_output=True).returncode


@dataclass(frozen=True)
class Machine:
    """Facts about a machine, which tests replace."""

    root: bool = hasattr(os, "geteuid") and os.geteuid() == 0
    kernel: str = os.uname().release if hasattr(os, "uname") else ""
    installed: Callable[[str], bool] = lambda program: shutil.which(program) is not None
    succeeds: Callable[[list[str]], bool] = _succeeds
    free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free
    cgroups: Path = CGROUPS
    kernel_log: Path = Path("/dev/kmsg")


def lacks(machine: Machine, *folders: Path) -> list[str]:
    """Return everything that keeps a node, which fills `folders`, from running."""
    problems = [
        f"{program} is not installed: install {package}"
        for program, package in _PROGRAMS.items()
        if not machine.installed(program)
    ]
    if not machine.root:
        problems.insert(0, "a real node needs root: run it by sudo")
    if not problems:
        # Without root or a program these checks would fail for that reason alone.
        problems += [*_lacking_namespaces(machine), *_lacking_cgroups(machine.cgroups)]
    if _version(machine.kernel) < _OLDEST_KERNEL:
        oldest = ".".join(map(str, _OLDEST_KERNEL))
        problems.append(f"kube-proxy needs Linux {oldest} or newer, and this is {machine.kernel}")
    if not machine.kernel_log.exists():
        problems.append(f"the kubelet reads {machine.kernel_log}, and it is not there: {_CONTAINER}")
    return [*problems, *(problem for folder in folders for problem in _lacking_space(machine, folder))]


def can_overlay(folder: Path, machine: Machine) -> bool:
    """Report whether an overlay can be mounted below `folder`; false if `folder` is on an overlay itself."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for name in ("lower", "upper", "work", "merged"):
            (Path(scratch) / name).mkdir()
        options = f"lowerdir={scratch}/lower,upperdir={scratch}/upper,workdir={scratch}/work"
        mount = ["mount", "-t", "overlay", "-o", options, "overlay", f"{scratch}/merged"]
        return machine.succeeds(["unshare", "--mount", "--propagation", "private", *mount])


def _version(release: str) -> tuple[int, ...]:
    """Return the first two numbers of a release such as 6.1.0-13-amd64, 5.15+ or 6.12-rc1."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return tuple(map(int, match.groups())) if match else ()


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
    for directory in places:
        probe = directory / f"{PREFIX}-probe-{uuid.uuid4().hex}"
        try:
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            yield f"no cgroup can be made in {directory} ({error.strerror}): {_CONTAINER}"


def _lacking_space(machine: Machine, folder: Path) -> Iterator[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if machine.free(folder) < _NEEDED_BYTES:
            free, needed = (f"{size / 1e9:.1f} GB" for size in (machine.free(folder), _NEEDED_BYTES))
            yield f"{folder} has {free} free, and a node needs {needed}: free some"
    except OSError as error:
        yield f"{folder} cannot be used ({error.strerror}): make it writable"


@dataclass(frozen=True)
class SystemPrograms:
    """The locations of programs that come from packages of the system."""

    paths: Mapping[str, Path]
    libraries: tuple[Path, ...]
    """Folders for $LD_LIBRARY_PATH; empty if the programs use the libraries of the machine."""


def find_system_programs(cache: Path) -> SystemPrograms:
    """Find the programs of PACKAGES: installed on the machine, or else unpacked below `cache`."""
    installed = _installed()
    missing = _missing(installed)
    if not missing:
        return SystemPrograms({name: Path(path) for name, path in installed.items()}, ())
    root = _folder(cache, missing)
    if not root.exists():
        _unpack(missing, root)
    paths = {
        name: Path(installed[name]) if name in installed else program_in(root, name) for name in PACKAGES
    }
    return SystemPrograms(paths, tuple(folder for glob in _LIBRARIES for folder in sorted(root.glob(glob))))


def lacking_packages(cache: Path) -> list[str]:
    """Return what keeps the programs from being found, as far as that is known without downloading any."""
    missing = _missing(_installed())
    if not missing or _folder(cache, missing).exists() or (shutil.which("apt-get") and shutil.which("dpkg")):
        return []
    return [f"{' '.join(missing)}: not installed, and there is no apt-get to fetch it; install it"]


def program_in(root: Path, name: str) -> Path:
    """Return the path below `root` at which a package has installed `name`."""
    for folder in _FOLDERS:
        if (root / folder / name).exists():
            return root / folder / name
    raise MissingError(f"the packages of this machine bring no {name}: install it, and remove {root}")


def _installed() -> dict[str, str]:
    return {name: path for name in PACKAGES if (path := shutil.which(name, path=_SEARCHED))}


def _missing(installed: Mapping[str, str]) -> list[str]:
    return [package for name, package in PACKAGES.items() if name not in installed]


def _folder(cache: Path, missing: list[str]) -> Path:
    return cache / f"debian-{'-'.join(sorted(missing))}"


def _unpack(packages: list[str], root: Path) -> None:
    """Download and unpack packages with all missing dependencies elsewhere, then rename that to `root`."""
    names = " ".join(packages)
    if lacking := lacking_packages(root.parent):
        raise MissingError("; ".join(lacking))
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".debian-", dir=root.parent) as scratch:
        settings = _settings(Path(scratch))
        _fetch(["apt-get", *settings, "--quiet", "update"], names)
        _fetch(["apt-get", *settings, "--quiet", "--yes", "--download-only", "install", *packages], names)
        unfinished = Path(scratch) / "root"
        for package in sorted((Path(scratch) / "cache" / "archives").glob("*.deb")):
            _fetch(["dpkg", "--extract", str(package), str(unfinished)], names)
        unfinished.rename(root)


def _settings(scratch: Path) -> list[str]:
    """Return options by which apt uses a scratch folder and leaves the machine's lists and packages alone."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True)
    options = [
        f"Dir::State::Lists={scratch / 'lists'}",
        f"Dir::Cache={scratch / 'cache'}",
        "APT::Install-Recommends=false",
        "APT::Sandbox::User=root",
    ]
    return [part for option in options for part in ("--option", option)]


def _fetch(command: list[str], names: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [
            f"exit code {done.returncode}"
        ]
        raise MissingError(f"{names}: not installed, and cannot be fetched: {lines[-1]}; install it")


def require_machine(state_folder: Path, machine: Machine | None = None) -> SystemPrograms:
    """Return the programs of the system, or raise MissingError with all that is lacking before any build."""
    cache = cache_directory()
    problems = lacks(machine or Machine(), cache, state_folder)
    if chosen_minor() != DEFAULT:
        problems.insert(0, f"a real node is of Kubernetes {DEFAULT}: leave out {VARIABLE}")
    if problems:
        raise MissingError("; ".join([*problems, *lacking_packages(cache / _CACHE)]))
    return find_system_programs(cache / _CACHE)


def prepare(state: Path, system: SystemPrograms, archives: Sequence[Path], report: Report) -> Kit:
    """Build what is missing, and return the kit of a node in `state`."""
    find_programs([*Options(node_address=NODE_ADDRESS).programs, "kubectl", "helm"], report)
    built = build_programs(report)
    small = write_archives(built, cache_directory() / _CACHE)
    return Kit(
        name=state.name,
        state=str(state),
        overlay=can_overlay(state, Machine()),
        programs={name: str(path) for name, path in {**built, **system.paths}.items()},
        libraries=tuple(map(str, system.libraries)),
        archives=tuple(str(archive.resolve()) for archive in (*small, *archives)),
    )
